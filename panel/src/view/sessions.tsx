import { closeIcon, deleteIcon, editIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { SessionEntry } from '../events';
import { visible } from '../safe';
import { useAnswer, useEnv } from './env';

/** All sessions: found by what was asked and answered in them, renamed, deleted, opened. */
export function Sessions({ done }: { done: () => void }): JSX.Element {
  const { assistant, trans } = useEnv();
  const [search, setSearch] = React.useState('');
  const [found, setFound] = React.useState<SessionEntry[] | null>(null);
  const [said, say] = React.useState('');
  const field = React.useRef<HTMLInputElement>(null);
  const [round, again] = React.useReducer((count: number) => count + 1, 0);
  const take = (list: SessionEntry[]) => {
    setFound(list);
    say(list.length ? '' : search ? trans.__('Nothing has this text.') : trans.__('There are no sessions yet.'));
  };
  useAnswer(() => assistant.sessions(search.trim()), search ? 200 : 0, [search, round, assistant, trans], take, say);
  return (
    <div className="nba-Sessions">
      <input
        ref={field}
        className="nba-Input"
        type="search"
        autoFocus
        placeholder={trans.__('Search titles, questions and answers')}
        aria-label={trans.__('Search sessions')}
        value={search}
        onChange={event => setSearch(event.target.value)}
        onKeyDown={event => event.key === 'Escape' && !search && done()}
      />
      <ul aria-label={trans.__('Sessions')}>
        {(found ?? []).map(entry => (
          <Row key={entry.id} entry={entry} open={() => {
            assistant.open(entry.id);
            done();
          }} changed={again} back={() => field.current?.focus()} />
        ))}
      </ul>
      <p className="nba-Note" role="status">{said}</p>
    </div>
  );
}

interface RowGiven {
  readonly entry: SessionEntry;
  readonly open: () => void;
  readonly changed: () => void;
  /** Take the keyboard back from what is no longer there. */
  readonly back: () => void;
}

function Row({ entry, open, changed, back }: RowGiven): JSX.Element {
  const { assistant, trans } = useEnv();
  const [mode, setMode] = React.useState<'' | 'rename' | 'delete'>('');
  const [title, setTitle] = React.useState(entry.title);
  const name = visible(entry.title) || trans.__('Nothing asked yet');
  const path = `sessions/${encodeURIComponent(entry.id)}`;
  // Whether a new title was taken or dropped; the keyboard leaves its field after that, too.
  const decided = React.useRef(false);
  const leave = () => {
    decided.current = true;
    setMode('');
    back();
  };
  const change = async (method: string, body?: object, done = leave) => {
    decided.current = true;
    try {
      await assistant.server.send(method, path, body);
      if (method === 'DELETE' && assistant.session?.id === entry.id) {
        assistant.open(null);
      }
    } catch (error) {
      assistant.fail(error);
    }
    done();
    changed();
  };
  if (mode === 'rename') {
    return (
      <li className="nba-Row">
        <input
          className="nba-Input"
          autoFocus
          aria-label={trans.__('New title')}
          value={title}
          onFocus={() => {
            decided.current = false;
          }}
          onChange={event => setTitle(event.target.value)}
          onBlur={() => {
            if (decided.current || !title.trim() || title === entry.title) {
              setMode('');
            } else {
              void change('PATCH', { title }, () => setMode(''));
            }
          }}
          onKeyDown={event => {
            if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
              void change('PATCH', { title });
            } else if (event.key === 'Escape') {
              leave();
            }
          }}
        />
      </li>
    );
  }
  if (mode === 'delete') {
    return (
      <li className="nba-Row nba-mod-asks">
        <span className="nba-RowText">{trans.__('Delete “%1” with its notebook and files?', name)}</span>
        <button className="nba-Button nba-mod-warn" autoFocus onClick={() => void change('DELETE')}>{trans.__('Delete')}</button>
        <button className="nba-IconButton" aria-label={trans.__('Keep it')} onClick={leave}><closeIcon.react tag="span" /></button>
      </li>
    );
  }
  const runs = entry.state === 'running';
  const engine = entry.engine === 'existing' ? trans.__("the notebook's kernel") : entry.engine;
  return (
    <li className={`nba-Row${assistant.session?.id === entry.id ? ' nba-mod-current' : ''}`}>
      <button className="nba-RowText" onClick={open}>
        <span className="nba-RowTitle">
          {runs && <span className="nba-Dot" title={trans.__('running')} aria-label={trans.__('running')} role="img" />}
          {name}
        </span>
        <span className="nba-Facts">
          {[when(entry.changed), trans._n('%1 question', '%1 questions', entry.questions), engine, entry.trust].filter(Boolean).join(' · ')}
        </span>
      </button>
      <button className="nba-IconButton nba-mod-quiet" title={trans.__('Rename')} aria-label={trans.__('Rename %1', name)} onClick={() => setMode('rename')}>
        <editIcon.react tag="span" />
      </button>
      <button className="nba-IconButton nba-mod-quiet" title={trans.__('Delete')} aria-label={trans.__('Delete %1', name)} onClick={() => setMode('delete')}>
        <deleteIcon.react tag="span" />
      </button>
    </li>
  );
}

/** How long ago something was, in the words of the page's language. */
function when(seconds: number): string {
  const ago = seconds - Date.now() / 1000;
  const words = new Intl.RelativeTimeFormat(document.documentElement.lang || 'en', { numeric: 'auto', style: 'short' });
  const units: [Intl.RelativeTimeFormatUnit, number][] = [['day', 86_400], ['hour', 3600], ['minute', 60]];
  for (const [unit, size] of units) {
    if (-ago >= size) {
      return words.format(Math.round(ago / size), unit);
    }
  }
  return words.format(0, 'second');
}
