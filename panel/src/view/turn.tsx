import * as React from 'react';

import type { Documents } from '../notebook';
import { Diff } from './diff';
import { useChanged, useEnv } from './env';

/** What can be done with an answer: its cells are put into the notebook, or the one that failed is changed. */
export function TurnActions({ turn, answer }: { turn: number; answer: string }): JSX.Element | null {
  const { documents, session } = useEnv().assistant;
  if (!documents || session?.conversation.undone.has(turn)) {
    return null;
  }
  return (
    <>
      <Fix documents={documents} turn={turn} answer={answer} />
      <Insertion documents={documents} turn={turn} />
    </>
  );
}

/** Takes back what an answer's cells did to the kernel, and that again; a kernel of somebody else's can't be rebuilt. */
export function Undo({ turn }: { turn: number }): JSX.Element | null {
  const { assistant, trans } = useEnv();
  useChanged(assistant.changed);
  const conversation = assistant.session?.conversation;
  if (!conversation || conversation.about.isolation || !conversation.items.some(each => each.kind === 'cell' && each.turn === turn)) {
    return null;
  }
  const isUndone = conversation.undone.has(turn);
  const left = isUndone && assistant.documents?.state(assistant.session!.id, turn);
  return (
    <>
      {isUndone && <span>{trans.__('Undone: the kernel is as if it had not been asked.')}</span>}
      {left && left.state === 'inserted' && <span>{trans.__('Cells that you have edited stay in %1.', left.name)}</span>}
      <button className="nba-Link" disabled={assistant.busy} onClick={() => void assistant.undo(turn, !isUndone)}>
        {isUndone ? trans.__('Bring it back') : trans.__('Undo this question')}
      </button>
    </>
  );
}

function Fix({ documents, turn, answer }: { documents: Documents; turn: number; answer: string }): JSX.Element | null {
  const { assistant, trans } = useEnv();
  useChanged(documents.changed);
  const session = assistant.session?.id ?? '';
  const found = documents.proposal(session, turn, answer);
  if (!found) {
    return null;
  }
  if (!found.lines.length) {
    return <p className="nba-Turn" role="status">{found.told}</p>;
  }
  return (
    <section role="group" tabIndex={-1} className="nba-Card nba-Approval nba-mod-waits" aria-label={trans.__('Change of a cell')}>
      <header className="nba-CardHead">
        <span className="nba-CardTitle">{trans.__('Change the cell in %1?', found.name)}</span>
      </header>
      <Diff lines={found.lines} label={trans.__('The change')} />
      <div className="nba-Buttons" role="group" aria-label={trans.__('Your answer')}>
        <button className="nba-Button nba-mod-accept" onClick={() => documents.decide(session, turn, answer, true)}>
          {trans.__('Accept')}
        </button>
        <button className="nba-Button" onClick={() => documents.decide(session, turn, answer, false)}>{trans.__('Reject')}</button>
      </div>
    </section>
  );
}

function Insertion({ documents, turn }: { documents: Documents; turn: number }): JSX.Element | null {
  const { assistant, trans, run } = useEnv();
  useChanged(documents.changed);
  const { session } = assistant;
  const cells = session ? documents.cells(session.conversation, turn) : [];
  if (!session || cells.length === 0) {
    return null;
  }
  const { name, state, why, others, path } = documents.state(session.id, turn);
  const insert = () => void documents.insert(session.id, turn);
  if (state === 'inserted') {
    return <p className="nba-Turn" role="status">{trans.__('Its cells are in %1; Undo there takes them out.', name)}</p>;
  }
  if (state === 'refused') {
    return <p className="nba-Turn">{why}</p>;
  }
  if (state === 'closed') {
    return name ? (
      <p className="nba-Turn">
        {trans.__('%1 is closed.', name)}{' '}
        <button className="nba-Link" onClick={() => run('docmanager:open', { path })}>{trans.__('Open it')}</button>
      </p>
    ) : null;
  }
  const shared = others > 0 && <span className="nba-Note">{trans._n('%1 other has it open.', '%1 others have it open.', others)}</span>;
  const { shown } = documents;
  if (shown?.session !== session.id || shown.turn !== turn) {
    const click = documents.mode === 'ask' ? () => documents.show({ session: session.id, turn }) : insert;
    return (
      <p className="nba-Turn">
        <button className="nba-Button" onClick={click}>
          {trans._n('Insert %1 cell into %2', 'Insert %1 cells into %2', cells.length, name)}
        </button>
        {shared}
      </p>
    );
  }
  return (
    <section role="group" tabIndex={-1} className="nba-Card nba-Approval nba-mod-waits" aria-label={trans.__('Cells for the notebook')}>
      <header className="nba-CardHead">
        <span className="nba-CardTitle">{trans._n('Insert this cell into %2?', 'Insert these %1 cells into %2?', cells.length, name)}</span>
      </header>
      {cells.map(cell => (
        <Diff
          key={cell.number}
          label={trans.__('Cell %1', cell.number)}
          lines={cell.code.split('\n').map(text => ({ sign: '+', text }))}
        />
      ))}
      {shared}
      <div className="nba-Buttons" role="group" aria-label={trans.__('Your answer')}>
        <button className="nba-Button nba-mod-accept" onClick={insert}>{trans.__('Accept')}</button>
        <button className="nba-Button" onClick={() => documents.show(null)}>{trans.__('Reject')}</button>
      </div>
    </section>
  );
}
