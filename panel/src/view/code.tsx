import * as React from 'react';

import { visible } from '../safe';
import { useEnv } from './env';

const FOLDED = 14;
/** Behind such a sign a long line may go on below: a name in two lines would be read as two. */
const SIGN = /[,;:.=+*/|&({[]$/;
const BREAKS = /(?<=[,;:.=+*/|&({[])(?=[^\s,;:.=])/;
/** The widest indentation that the rest of a long line keeps. */
const MOST_INDENTED = 16;

interface Given {
  readonly text: string;
  /** The language's name. */
  readonly name?: string;
  /** Whether nothing of it may be out of sight: it is not folded, and long lines go on below. */
  readonly open?: boolean;
}

/** Code, coloured by JupyterLab's own highlighter; long code is folded. */
export function Code({ text, name = 'ipython', open = false }: Given): JSX.Element {
  const { languages, trans } = useEnv();
  const place = React.useRef<HTMLElement>(null);
  const [whole, setWhole] = React.useState(open);
  const lines = text.split('\n');
  const folded = !whole && lines.length > FOLDED + 3;
  const shown = visible(folded ? lines.slice(0, FOLDED).join('\n') : text);
  React.useEffect(() => {
    const target = place.current;
    if (!target) {
      return;
    }
    const made = document.createElement('code');
    let gone = false;
    const language = languages.findByName(name) ?? languages.findByName('python');
    languages.highlight(shown, language, made).then(
      () => gone || target.replaceChildren(...(open ? byLine(made) : made.childNodes)),
      () => undefined
    );
    return () => {
      gone = true;
    };
  }, [shown, name, languages, open]);
  return (
    <div className="nba-Code">
      <pre tabIndex={0} aria-label={trans.__('Code')}>
        <code ref={place} key={shown}>{shown}</code>
      </pre>
      {lines.length > FOLDED + 3 && (
        <button className="nba-Link" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? trans.__('Show less') : trans.__('Show all %1 lines', lines.length)}
        </button>
      )}
    </div>
  );
}

/** Coloured code with a block for each line, whose rest is indented further than its beginning. */
function byLine(made: HTMLElement): HTMLElement[] {
  const lines: HTMLElement[] = [];
  let before = '';
  const begin = () => {
    before = '';
    const line = document.createElement('span');
    line.className = 'nba-Line';
    lines.push(line);
  };
  begin();
  for (const node of made.childNodes) {
    (node.textContent ?? '').split('\n').forEach((text, at) => {
      if (at > 0) {
        begin();
      }
      const line = lines[lines.length - 1];
      const piece = node instanceof Element ? (node.cloneNode(false) as Element) : document.createDocumentFragment();
      const begins = SIGN.test(before) && /^[^\s,;:.=]/.test(text);
      piece.append(...text.split(BREAKS).flatMap((part, place) => (place || begins ? [document.createElement('wbr'), part] : [part])));
      line.append(piece);
      before = text.slice(-1) || before;
    });
  }
  for (const line of lines) {
    const { length } = /^\s*/.exec((line.textContent ?? '').replace(/\t/g, '    '))![0];
    line.style.setProperty('--nba-indented', String(Math.min(length, MOST_INDENTED) + 2));
    if (!line.textContent) {
      line.append(document.createElement('br'));
    }
  }
  return lines;
}
