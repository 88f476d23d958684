/**
 * What protects the page from the words that are shown in it: models and code that nobody trusts have written them. Their
 * outputs are harmless when they come from the server, and are drawn so, too.
 */
import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { BLANK } from './events.js';

/** Attributes by which an element loads something, or is moved over the page. */
const LOADING = ['src', 'srcset', 'background', 'poster', 'data', 'style', 'action', 'formaction', 'ping', 'xlink:href'];

/** Elements that are of no use without what they load or send; and `wbr`, which could divide a macro of TeX. */
const IDLE = 'audio, video, source, track, form, button, select, textarea, input:not([type=checkbox]), svg, iframe, link, meta, wbr';

/** Characters that change how others are read, or cannot be seen; line ends and tabs stay. */
const HIDDEN = String.raw`(?![\t\n])[\p{C}\p{Zl}\p{Zp}${BLANK}]`;

/** Scripts whose letters are joined and parted by characters of their own. */
const JOINING = String.raw`[\p{sc=Arab}\p{sc=Deva}\p{sc=Beng}\p{sc=Taml}\p{sc=Telu}\p{sc=Mlym}\p{sc=Sinh}]`;

/** Of these, what is seen all the same, by what it does to a letter or an emoji on both sides of it. */
const SEEN = String.raw`(?<=${JOINING})[\u200c\u200d](?=${JOINING})|(?<=\p{ExtPict}[\ufe0f\p{EMod}]?)\u200d(?=\p{ExtPict})|(?<=\p{ExtPict})\ufe0f`;

const FOUND = new RegExp(`(${SEEN})|${HIDDEN}`, 'gu');

/** A text in which nothing is hidden: each such character is shown by its number. */
export function visible(text: string): string {
  return text.replace(FOUND, (found, seen) => seen ?? `⟨U+${found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

/** Macros of TeX that style, link or load, or give others a meaning, which would stay for all formulas of the page. */
const MACROS = /\\(def|let|(?:re)?new(?:command|environment|tagform)|usetagform|mathtoolsset|definecolor|Declare\w*|Newextarrow|style|class|cssId|data|bbox|href|(?:eq)?ref|url|unicode|mmlToken|includegraphics|require|csname|fcolorbox|colorbox|html\w*)(?![a-zA-Z])/;

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
      if (value !== null && !(name === 'src' && element.tagName === 'IMG' && /^data:image\/(png|jpeg|gif|webp|bmp|svg\+xml);/i.test(value))) {
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
