import { addIcon, historyIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { visible } from '../safe';
import { count, dollars, useEnv } from './env';

/** The session's name, what it is and what it has used; the list of sessions, and a new one. */
export function Header({ listed, list }: { listed: boolean; list: (shown: boolean) => void }): JSX.Element {
  const { assistant, trans } = useEnv();
  const { session } = assistant;
  const conversation = session?.conversation;
  const title = visible(conversation?.about.title ?? '');
  return (
    <div className="nba-Header">
      <div className="nba-HeaderText">
        <h2 title={title}>{listed ? trans.__('Sessions') : title || trans.__('New session')}</h2>
        {!listed && conversation && <Facts />}
      </div>
      <button
        className="nba-IconButton"
        aria-pressed={listed}
        title={trans.__('All sessions')}
        aria-label={trans.__('All sessions')}
        onClick={() => list(!listed)}
      >
        <historyIcon.react tag="span" />
      </button>
      <button
        className="nba-IconButton"
        title={trans.__('New session')}
        aria-label={trans.__('New session')}
        onClick={() => {
          assistant.open(null);
          list(false);
        }}
      >
        <addIcon.react tag="span" />
      </button>
    </div>
  );
}

function Facts(): JSX.Element {
  const { assistant, trans } = useEnv();
  const { about, spent } = assistant.session!.conversation;
  const facts = (about.isolation ? [about.isolation] : [about.engine, about.trust]).filter(Boolean);
  if (spent.tokens) {
    facts.push(trans.__('%1 tokens', count(spent.tokens)));
  }
  if (spent.cost) {
    facts.push(dollars(spent.cost));
  }
  return <p className="nba-Facts">{facts.join(' · ')}</p>;
}
