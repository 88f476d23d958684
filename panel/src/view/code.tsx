import * as React from 'react';

import { visible } from '../safe';
import { useEnv } from './env';

const FOLDED = 14;

/** Code, coloured by JupyterLab's own highlighter; long code is folded. */
export function Code({ text, name = 'ipython', open = false }: { text: string; name?: string; open?: boolean }): JSX.Element {
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
      () => gone || target.replaceChildren(...made.childNodes),
      () => undefined
    );
    return () => {
      gone = true;
    };
  }, [shown, name, languages]);
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
