import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { ModelList } from '../events';
import { useAnswer, useEnv } from './env';

const MOST = 50;

/** Finds a model among however many there are: the server looks for the letters, and sends the first few. */
export function ModelPicker({ current, done }: { current: string; done: () => void }): JSX.Element {
  const { assistant, trans } = useEnv();
  const [search, setSearch] = React.useState('');
  const [found, setFound] = React.useState<ModelList | null>(null);
  const [failed, fail] = React.useState('');
  const [chosen, choose] = React.useState(0);
  const list = React.useRef<HTMLUListElement>(null);
  const take = (answer: ModelList) => {
    setFound(answer);
    fail('');
    choose(0);
  };
  useAnswer(() => assistant.machine.models(search, MOST), found ? 120 : 0, [search, assistant], take, fail);
  React.useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  const models = found?.models ?? [];
  const pick = (name: string) => {
    assistant.setModel(name);
    done();
  };
  // A name that no list has, as of a server of one's own, can be written out.
  const typed = search.includes(':') && !models.includes(search) ? search : '';
  const options = typed ? [typed, ...models] : models;
  return (
    <div className="nba-Popup nba-Models" role="dialog" aria-label={trans.__('Choose a model')}>
      <input
        className="nba-Input"
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="nba-models"
        aria-activedescendant={options.length ? `nba-model-${chosen}` : undefined}
        placeholder={trans.__('Search, or write provider:model')}
        aria-label={trans.__('Search models')}
        value={search}
        onChange={event => setSearch(event.target.value)}
        onKeyDown={event => {
          if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
            event.preventDefault();
            const step = event.key === 'ArrowDown' ? 1 : -1;
            choose((chosen + step + options.length) % Math.max(1, options.length));
          } else if (event.key === 'Enter') {
            event.preventDefault();
            if (options[chosen]) {
              pick(options[chosen]);
            }
          }
        }}
      />
      <ul ref={list} id="nba-models" role="listbox" aria-label={trans.__('Models')}>
        {options.map((name, place) => (
          <li
            key={name}
            id={`nba-model-${place}`}
            role="option"
            aria-selected={place === chosen}
            className={name === current ? 'nba-mod-current' : ''}
            onMouseDown={event => {
              event.preventDefault();
              pick(name);
            }}
          >
            {name}
          </li>
        ))}
      </ul>
      <p className="nba-Note" role="status">{failed || told(found, trans)}</p>
      {models.length === 0 && (found?.providers ?? []).map(each => (
        <p key={each.name} className="nba-Note">{each.name}: {each.problem}</p>
      ))}
    </div>
  );
}

function told(found: ModelList | null, trans: TranslationBundle): string {
  if (found === null) {
    return trans.__('Looking…');
  }
  const more = found.total - found.models.length;
  return more > 0 ? trans.__('%1 more; write some letters of the name.', more) : '';
}
