import { caretDownIcon, caretRightIcon, checkIcon, closeIcon, copyIcon, stopIcon } from '@jupyterlab/ui-components';
import { Clipboard } from '@jupyterlab/apputils';
import * as React from 'react';

import type { Cell, Status } from '../items';
import { visible } from '../safe';
import { statusWord } from '../sentences';
import { Code } from './code';
import { duration, useEnv, useNow } from './env';
import { Outputs } from './outputs';

/** The errors of a cell that heeds a stop: of code that runs, and of code that awaits. */
const STOPS = ['KeyboardInterrupt', 'CancelledError'];

/** A cell: its code, what it shows, how long it takes and how it ended. */
export const CellCard = React.memo(function CellCard({ cell, version }: { cell: Cell; version: number }): JSX.Element {
  const { trans, assistant } = useEnv();
  const [folded, fold] = React.useState(false);
  const runs = cell.status === 'running';
  const title = cell.tool === 'person' ? trans.__('Your cell %1', cell.number) : trans.__('Cell %1', cell.number);
  const word = statusWord(cell.status, trans);
  const [whole, showWhole] = React.useState(false);
  const outputs = React.useMemo(() => shown(cell, whole), [cell, version, whole]);
  return (
    <article tabIndex={-1} className={`nba-Card nba-Cell nba-mod-${cell.status}`} aria-label={`${title}: ${word}`}>
      <header className="nba-CardHead">
        <button
          className="nba-IconButton"
          aria-expanded={!folded}
          aria-label={folded ? trans.__('Unfold %1', title) : trans.__('Fold %1', title)}
          onClick={() => fold(!folded)}
        >
          {folded ? <caretRightIcon.react tag="span" /> : <caretDownIcon.react tag="span" />}
        </button>
        <span className="nba-CardTitle">{title}</span>
        <span className="nba-Status">
          <StatusIcon status={cell.status} />
          <span>{word}</span>
        </span>
        <Elapsed cell={cell} />
        <span className="nba-Space" />
        {runs && (
          <button
            className="nba-IconButton"
            title={trans.__('Stop this cell only; the model goes on')}
            aria-label={trans.__('Stop cell %1 only', cell.number)}
            onClick={() => void assistant.call('interrupt_cell')}
          >
            <stopIcon.react tag="span" />
          </button>
        )}
        <button
          className="nba-IconButton nba-mod-quiet"
          title={trans.__('Copy the code')}
          aria-label={trans.__('Copy the code of cell %1', cell.number)}
          onClick={() => Clipboard.copyToSystem(cell.code)}
        >
          <copyIcon.react tag="span" />
        </button>
      </header>
      {!folded && (
        <>
          <Code text={cell.code} />
          {outputs.length > 0 && (
            <Outputs
              outputs={outputs}
              version={version}
              label={trans.__('Outputs of cell %1', cell.number)}
              atEnd={cell.status !== 'ok'}
            />
          )}
          {outputs.some(each => each.output_type === 'error') && Object.keys(cell.own).length > 0 && (
            <button className="nba-Link" aria-expanded={whole} onClick={() => showWhole(!whole)}>
              {whole ? trans.__('Show your own frames only') : trans.__('Show the whole traceback')}
            </button>
          )}
          {cell.whole && (
            <button className="nba-Link" onClick={() => void assistant.fetchWhole(cell)}>{trans.__('Show all of the output')}</button>
          )}
          {cell.note && <p className="nba-Note">{visible(cell.note)}</p>}
        </>
      )}
    </article>
  );
});

/** The outputs; of tracebacks the person's own frames only, unless they are wanted whole. */
function shown({ outputs, own, status }: Cell, whole: boolean): Cell['outputs'] {
  // A stopped cell ends with the traceback of the stop itself, of which the status tells.
  const stopped = status === 'interrupted' || status === 'timeout';
  return outputs
    .map((each, place) => (own[place] && !whole ? { ...each, traceback: own[place] } : each))
    .filter(each => !stopped || each.output_type !== 'error' || !STOPS.includes(String(each.ename)));
}

function Elapsed({ cell }: { cell: Cell }): JSX.Element {
  const now = useNow(cell.status === 'running', 200);
  const seconds = cell.duration || Math.max(0, (now - cell.began) / 1000);
  return (
    <span className="nba-Elapsed" aria-hidden={cell.status === 'running'}>
      {duration(seconds)}
    </span>
  );
}

function StatusIcon({ status }: { status: Status }): JSX.Element {
  if (status === 'running') {
    return <span className="nba-Spinner" aria-hidden="true" />;
  }
  const Icon = status === 'ok' ? checkIcon : status === 'error' ? closeIcon : stopIcon;
  return <Icon.react tag="span" className="nba-StatusIcon" aria-hidden="true" />;
}
