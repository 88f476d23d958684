import * as React from 'react';

import { withFormulas } from '../formulas';
import { useEnv } from './env';

/** Text of a model as Markdown, sanitized; nothing in it loads anything. */
export function Markdown({ text }: { text: string }): JSX.Element {
  const { rendermime, trans } = useEnv();
  const place = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    const renderer = rendermime.createRenderer('text/markdown');
    const [markdown, hasFormulas] = withFormulas(text);
    const model = rendermime.createModel({ data: { 'text/markdown': markdown }, trusted: false });
    let gone = false;
    const show = async () => {
      await renderer.renderModel(model);
      if (gone) {
        return;
      }
      scrolled(renderer.node, trans.__('Table'));
      place.current?.replaceChildren(renderer.node);
      if (hasFormulas) {
        await rendermime.latexTypesetter?.typeset(renderer.node); // as a renderer does only where it is a widget
        scrollable(place.current);
      }
    };
    show().catch(() => undefined);
    return () => {
      gone = true;
      renderer.dispose();
    };
  }, [text, rendermime, trans]);
  return (
    <div ref={place} className="nba-Markdown">
      {text}
    </div>
  );
}

/** Have the keyboard reach formulas that are wider than the panel. */
function scrollable(node: HTMLElement | null): void {
  for (const each of node ? [node, ...node.querySelectorAll<HTMLElement>('mjx-container[display=true]')] : []) {
    if (each.scrollWidth > each.clientWidth) {
      each.tabIndex = 0;
    }
  }
}

/** Have tables that are wider than the panel scroll, also by keyboard, rather than break within words. */
function scrolled(node: HTMLElement, label: string): void {
  for (const table of node.querySelectorAll('table')) {
    const frame = document.createElement('div');
    Object.assign(frame, { className: 'nba-Wide', role: 'region', tabIndex: 0, ariaLabel: label });
    table.replaceWith(frame);
    frame.append(table);
  }
}

/** Words that are still being written: each paragraph that is whole is rendered once. */
export function LiveMarkdown({ text }: { text: string }): JSX.Element {
  const parts = React.useMemo(() => paragraphs(text), [text]);
  return (
    <>
      {parts.slice(0, -1).map((part, place) => (
        <Whole key={place} text={part} />
      ))}
      <p className="nba-Live">{parts[parts.length - 1]}</p>
    </>
  );
}

const Whole = React.memo(Markdown);

/** The text in pieces that are Markdown each: it is parted at blank lines outside of code. */
export function paragraphs(text: string): string[] {
  const parts = [''];
  let fenced = false;
  for (const line of text.split('\n')) {
    if (/^\s*(```|~~~)/.test(line)) {
      fenced = !fenced;
    }
    if (line.trim() === '' && !fenced) {
      parts.push('');
    } else {
      parts[parts.length - 1] += `${line}\n`;
    }
  }
  return parts;
}
