/**
 * What protects the page from what is shown in it: outputs and words come from code and models that nobody trusts.
 */
import type { IMimeBundle, IOutput } from '@jupyterlab/nbformat';
import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { plain, PLOTLY } from './plotly';

/** The kinds that are shown, beside figures of Plotly's that load nothing. Others may load something from elsewhere, as the specification of a chart can. */
const SHOWN = [
  'text/plain', 'text/html', 'text/markdown', 'text/latex', 'application/json',
  'image/png', 'image/jpeg', 'image/gif', 'image/bmp', 'image/webp',
  'application/vnd.jupyter.stdout', 'application/vnd.jupyter.stderr'
];

/** Attributes by which an element loads something, or is moved over the page. */
const LOADING = ['src', 'srcset', 'background', 'poster', 'data', 'style', 'action', 'formaction', 'ping', 'xlink:href'];

/** Elements that are of no use without what they load or send; and `wbr`, which could divide a macro of TeX. */
const IDLE = 'audio, video, source, track, form, button, select, textarea, input:not([type=checkbox]), svg, iframe, link, meta, wbr';

/** Characters that change how others are read, or cannot be seen. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** A text in which nothing is hidden: each such character is shown by its number. */
export function visible(text: string): string {
  return text.replace(HIDDEN, found => `⟨U+${found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

/** Macros of TeX that style, link or load. */
const MACROS = /\\(style|class|cssId|data|bbox|href|(?:eq)?ref|url|unicode|mmlToken|includegraphics|require|csname|fcolorbox|colorbox|html\w*)(?![a-zA-Z])/;

/** Classes with style rules in JupyterLab and here: an output must look neither like a dialog nor like an approval. */
const LOOKS = /^(jp|lm|p|bp\d?|nba|jupyter|lumino)-/i;

/** The same registry of renderers, with a sanitizer that also removes what loads something, and formulas that do not. */
export function sealed(rendermime: IRenderMimeRegistry): IRenderMimeRegistry {
  const { sanitizer, latexTypesetter } = rendermime;
  const stricter: IRenderMime.ISanitizer = {
    sanitize: (dirty, options) => withoutLoading(sanitizer.sanitize(dirty, options)),
    allowNamedProperties: false,
    allowCommandLinker: false
  };
  const careful: IRenderMime.ILatexTypesetter = {
    typeset: element => (MACROS.test(element.textContent ?? '') ? undefined : latexTypesetter?.typeset(element))
  };
  const { markdownParser } = rendermime;
  return rendermime.clone({
    sanitizer: stricter,
    latexTypesetter: careful,
    // Diagrams may load pictures while they are drawn, before anything can be removed. A word joiner, which nobody sees,
    // makes their language an unknown one.
    markdownParser: markdownParser
      ? { render: text => markdownParser.render(text.replace(/mermaid/gi, '$&\u2060')) }
      : undefined
  });
}

/** The HTML without what loads anything. It is read in a document of its own, which loads nothing. */
function withoutLoading(html: string): string {
  const page = new DOMParser().parseFromString(html, 'text/html');
  for (const element of page.body.querySelectorAll(IDLE)) {
    element.remove();
  }
  for (const element of page.body.querySelectorAll('*')) {
    for (const name of LOADING) {
      const value = element.getAttribute(name);
      if (value !== null && !(name === 'src' && element.tagName === 'IMG' && /^data:image\/(png|jpeg|gif|webp|bmp);/i.test(value))) {
        element.removeAttribute(name);
      }
    }
    element.classList.remove(...[...element.classList].filter(each => LOOKS.test(each)));
    for (const name of element.getAttributeNames()) {
      if (name.startsWith('data-')) {
        element.removeAttribute(name);
      }
    }
    if (element.tagName === 'A') {
      element.setAttribute('rel', 'noopener noreferrer');
      element.setAttribute('target', '_blank');
    }
  }
  return page.body.innerHTML;
}

/** An output as it goes into a document, where JupyterLab shows it without this panel's care: nothing in it loads or runs. */
export function inert(output: IOutput, { sanitizer }: IRenderMimeRegistry): IOutput {
  const found = harmless(output);
  const data = found.data as IMimeBundle | undefined;
  if (data === undefined) {
    return found;
  }
  const kept = { ...data };
  if (kept['text/html'] !== undefined) {
    kept['text/html'] = withoutMacros(withoutLoading(sanitizer.sanitize(joined(kept['text/html']))));
  }
  if (kept['text/latex'] !== undefined) {
    kept['text/latex'] = withoutMacros(joined(kept['text/latex']));
  }
  if (kept['text/markdown'] !== undefined) {
    // Its pictures can be anywhere.
    kept['text/plain'] ??= joined(kept['text/markdown']);
    delete kept['text/markdown'];
  }
  return { ...found, data: kept } as IOutput;
}

/** The text with such macros divided by a word joiner, which nobody sees. */
function withoutMacros(text: string): string {
  return text.replace(new RegExp(MACROS, 'g'), found => `\\\u2060${found.slice(1)}`);
}

function joined(text: unknown): string {
  return Array.isArray(text) ? text.join('') : String(text);
}

/** An output with the kinds that are shown only; those who have none of them get a sentence. */
export function harmless(output: IOutput): IOutput {
  const data = output.data as IMimeBundle | undefined;
  if (data === undefined) {
    return output;
  }
  const kept = Object.fromEntries(Object.entries(data).filter(([mime]) => SHOWN.includes(mime)));
  const figure = plain(data[PLOTLY]);
  if (figure !== null) {
    kept[PLOTLY] = figure as IMimeBundle[string];
  }
  if (Object.keys(kept).length === 0) {
    kept['text/plain'] = `[${Object.keys(data).map(visible).join(', ')}]`;
  }
  return { ...output, data: kept, metadata: {} } as IOutput;
}
