import * as React from 'react';

import type { Host } from '../items';
import { visible } from '../safe';
import { useEnv, useNow } from './env';

const ASK_SECONDS = 60;

/** Whether the code may reach a host. Without an answer it may not, after a minute. */
export const HostCard = React.memo(function HostCard({ item }: { item: Host; version: number }): JSX.Element {
  const { assistant, trans } = useEnv();
  const waits = item.decision === '';
  const now = useNow(waits, 1000);
  const left = Math.max(0, Math.ceil(ASK_SECONDS - (now - item.began) / 1000));
  const answer = (allow: boolean, remember: boolean) => () => {
    void assistant.call('approve_host', { id: item.id, allow, remember });
  };
  const unanswered = item.decision === 'denied' && item.by !== 'person';
  const outcome = { allowed: trans.__('allowed'), denied: trans.__('denied'), dropped: trans.__('no longer asked'), '': '' };
  return (
    <section role="group" tabIndex={-1} className={waits ? 'nba-Card nba-Approval nba-mod-waits' : 'nba-Decided'} aria-label={trans.__('Host')}>
      <header className="nba-CardHead">
        <span className="nba-CardTitle">{trans.__('May the code reach this host?')}</span>
        <span className="nba-Space" />
        {!waits && <span className="nba-Tag">{unanswered ? trans.__('no answer') : outcome[item.decision]}</span>}
      </header>
      <p className="nba-What"><code>{visible(item.host)}:{item.port}</code></p>
      {unanswered && (
        <p className="nba-Note">
          {trans.__('Denied, since nobody answered; it is not asked about again in this session. To allow it for new sessions, list it under Hosts in Settings → nbagent.')}
        </p>
      )}
      {waits && (
        <>
          <p className="nba-Note">
            {trans.__('What the code can read, it can send there. Denied in %1 s without an answer.', left)}
          </p>
          <div className="nba-Buttons" role="group" aria-label={trans.__('Your answer')}>
            <button className="nba-Button nba-mod-accept" onClick={answer(true, false)}>{trans.__('Allow once')}</button>
            <button className="nba-Button" onClick={answer(true, true)}>{trans.__('For this session')}</button>
            <button className="nba-Button nba-mod-warn" onClick={answer(false, true)}>{trans.__('Deny')}</button>
          </div>
        </>
      )}
    </section>
  );
});
