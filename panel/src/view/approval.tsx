import * as React from 'react';

import type { ApprovalAsked } from '../events';
import type { Approval } from '../items';
import { visible } from '../safe';
import { Code } from './code';
import { Editor } from './editor';
import { useEnv } from './env';

/** Whether the model may do something: the person approves, edits, rejects, or allows it for the session. */
export const ApprovalCard = React.memo(function ApprovalCard({ item }: { item: Approval; version: number }): JSX.Element {
  const { trans } = useEnv();
  const { asked } = item;
  const waits = item.decision === '';
  return (
    <section role="group" tabIndex={-1} className={waits ? 'nba-Card nba-Approval nba-mod-waits' : 'nba-Decided'} aria-label={trans.__('Approval')}>
      <header className="nba-CardHead">
        <span className="nba-CardTitle">{title(item, trans)}</span>
        <span className="nba-Space" />
        {!waits && <span className="nba-Tag">{outcome(item, trans)}</span>}
      </header>
      {(waits || asked.kind !== 'cell') && (
        <>
          {!(asked.code && asked.kind === 'cell') && !asked.packages?.length && !(waits && isCommand(asked)) && (
            <p className="nba-What">{asked.kind === 'shell' ? <code>{visible(asked.what)}</code> : visible(asked.what)}</p>
          )}
          {(asked.packages ?? []).length > 0 && (
            <ul className="nba-Packages" aria-label={trans.__('Packages')}>
              {asked.packages!.map(each => (
                <li key={each}><code>{visible(each)}</code></li>
              ))}
            </ul>
          )}
          {asked.note && <p className="nba-Note">{visible(asked.note)}</p>}
        </>
      )}
      {waits && <Choice item={item} />}
      {!waits && item.rules.length > 0 && (
        <p className="nba-Note">{trans.__('Allowed for the rest of this session: %1', visible(asked.allows ?? ''))}</p>
      )}
      {!waits && item.reason && <p className="nba-Note">{visible(item.reason)}</p>}
    </section>
  );
});

/** Whether the code that may be edited is a line of a shell's, and not the cell that starts a program. */
function isCommand({ kind, code, what }: ApprovalAsked): boolean {
  return kind === 'shell' && code === what;
}

function Choice({ item }: { item: Approval }): JSX.Element {
  const { assistant, trans } = useEnv();
  const { asked } = item;
  const [mode, setMode] = React.useState<'' | 'edit' | 'reject'>('');
  const [code, setCode] = React.useState(asked.code ?? '');
  const [reason, setReason] = React.useState('');
  const [sent, setSent] = React.useState(false);
  const answer = async (decision: string, more: object = {}) => {
    setSent(true);
    const done = await assistant.call('approve', { id: asked.id, decision, ...more });
    if (done === undefined) {
      setSent(false);
    }
  };
  // In an editor Tab indents, so what else a person may want there has a key.
  const key = (event: React.KeyboardEvent) => {
    if (event.key === 'Escape' && mode) {
      setMode('');
    } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && mode === 'edit' && code.trim() && !sent) {
      void answer('edit', { code });
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div onKeyDownCapture={key}>
      {asked.code && (mode === 'edit' ? (
        <Editor text={code} onChange={setCode} label={trans.__('Code that runs instead')} />
      ) : (
        <Code text={asked.code} name={isCommand(asked) ? 'shell' : 'ipython'} open />
      ))}
      {mode === 'reject' && (
        <input
          className="nba-Input"
          autoFocus
          placeholder={trans.__('Why not? The model reads it.')}
          aria-label={trans.__('Why not?')}
          value={reason}
          onChange={event => setReason(event.target.value)}
          onKeyDown={event => {
            if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
              void answer('reject', { reason });
            }
          }}
        />
      )}
      <div className="nba-Buttons" role="group" aria-label={trans.__('Your answer')}>
        {mode === '' && (
          <>
            <button className="nba-Button nba-mod-accept" disabled={sent} onClick={() => void answer('approve')}>
              {trans.__('Approve')}
            </button>
            {asked.code && (
              <button className="nba-Button" disabled={sent} onClick={() => setMode('edit')}>{trans.__('Edit')}</button>
            )}
            <button className="nba-Button" disabled={sent} onClick={() => (asked.kind === 'budget' ? void answer('reject') : setMode('reject'))}>{trans.__('Reject')}</button>
            {(asked.rules ?? []).length > 0 && (
              <button
                className="nba-Button"
                disabled={sent}
                onClick={() => void answer('approve', { always: true })}
              >
                {trans.__('Always in this session')}
              </button>
            )}
          </>
        )}
        {mode === 'edit' && (
          <button
            className="nba-Button nba-mod-accept"
            disabled={sent || !code.trim()}
            title={trans.__('Ctrl+Enter; Escape leads back')}
            onClick={() => void answer('edit', { code })}
          >
            {trans.__('Run this instead')}
          </button>
        )}
        {mode === 'reject' && (
          <button className="nba-Button nba-mod-warn" disabled={sent} onClick={() => void answer('reject', { reason })}>
            {trans.__('Reject')}
          </button>
        )}
        {mode !== '' && (
          <button className="nba-Button" disabled={sent} title={trans.__('Escape')} onClick={() => setMode('')}>{trans.__('Back')}</button>
        )}
      </div>
      {mode === '' && (asked.rules ?? []).length > 0 && (
        <p className="nba-Note">{trans.__('Always allows without a question, for the rest of this session: %1', visible(asked.allows ?? ''))}</p>
      )}
    </div>
  );
}

type Trans = ReturnType<typeof useEnv>['trans'];

function title({ asked }: Approval, trans: Trans): string {
  switch (asked.kind) {
    case 'cell':
      return trans.__('Run this cell?');
    case 'shell':
      return trans.__('Start this program?');
    case 'edit':
      return trans.__('Write this file?');
    case 'install':
      return trans.__('Install these packages?');
    case 'mcp':
      return trans.__('Call this tool?');
    case 'tool':
      return trans.__('Make this tool?');
    case 'budget':
      return trans.__('Go on beyond the budget?');
    case 'names':
      return trans.__('Ask the package index for more names?');
    default:
      return trans.__('May the model do this?');
  }
}

function outcome(item: Approval, trans: Trans): string {
  const byPolicy = item.by.startsWith('policy:');
  switch (item.decision) {
    case 'approve':
      if (item.rules.length) {
        return trans.__('allowed for this session');
      }
      return byPolicy ? trans.__('approved by the policy') : trans.__('approved');
    case 'edit':
      return trans.__('edited');
    case 'reject':
      return byPolicy ? trans.__('rejected by the policy') : trans.__('rejected');
    default:
      return trans.__('no longer asked');
  }
}
