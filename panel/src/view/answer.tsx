import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Check, Claim, Usage } from '../events';
import type { Answer } from '../items';
import { visible } from '../safe';
import { count, dollars, duration, useEnv } from './env';
import { LiveMarkdown, Markdown } from './markdown';
import { TurnActions, Undo } from './turn';

/** How the second computation of an answer's numbers ended, and what that took. */
function Checked({ check }: { check: Check }): JSX.Element {
  const { trans } = useEnv();
  const { cells, again = [], alone = [], new: first = [], reused = [], changed, usage, seconds = 0 } = check;
  const named = (names: string[]) => visible(names.join(', '));
  const isChecked = cells.length > 0 && again.length + alone.length + first.length > 0;
  const isWhole = isChecked && alone.length + first.length + reused.length === 0;
  const verdict = isChecked
    ? isWhole
      ? trans.__('Checked by cell %1.', cells.join(', '))
      : trans.__('Checked in part by cell %1.', cells.join(', '))
    : cells.length
      ? trans.__('Not checked: it has no number that a cell shows.')
      : trans.__('Not checked: no cell computed it again.');
  const told = [
    again.length ? trans.__('Found again: %1.', named(again)) : '',
    alone.length ? trans.__('Not found again: %1.', named(alone)) : '',
    first.length ? trans.__('It was the first to find %1.', named(first)) : '',
    reused.length ? trans.__('It used %1 of earlier cells.', named(reused)) : '',
    changed ? trans.__('The answer was another one before.') : ''
  ];
  const took = [duration(seconds), ...tokens(usage, trans)];
  return (
    <div className={`nba-Notice nba-mod-${isWhole ? 'good' : 'warning'}`}>
      <strong>{verdict}</strong> {told.filter(Boolean).join(' ')} <span className="nba-Elapsed">{took.join(', ')}</span>
    </div>
  );
}

function tokens(usage: Usage | null | undefined, trans: TranslationBundle): string[] {
  const all = (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
  return all ? [trans.__('%1 tokens', count(all))] : [];
}

/** An answer, with what it took, and the numbers in it that no output shows. */
export const AnswerPart = React.memo(function AnswerPart({ item }: { item: Answer; version: number }): JSX.Element {
  const { trans } = useEnv();
  if (item.live) {
    return (
      <div className="nba-Answer nba-mod-live" aria-busy="true">
        <LiveMarkdown text={item.text} />
      </div>
    );
  }
  const named = (which: (claim: Claim) => boolean | undefined) => visible(item.claims.filter(which).map(claim => claim.text).join(', '));
  const unsupported = named(claim => !claim.cell && !claim.noted && !claim.written && !claim.derived);
  const written = named(claim => claim.written);
  const noted = named(claim => claim.noted);
  const derived = item.claims
    .filter(claim => claim.derived)
    .map(claim => trans.__('%1 = %2 (cell %3)', visible(claim.text), visible(claim.derived!), (claim.sources ?? []).join(', ')));
  const { usage } = item;
  return (
    <article tabIndex={-1} className={`nba-Answer${item.success ? '' : ' nba-mod-failed'}`} aria-label={trans.__('Answer')}>
      <Markdown text={item.text} />
      {unsupported && <p className="nba-Notice nba-mod-warning">{trans.__('Shown by no cell: %1', unsupported)}</p>}
      {written && <p className="nba-Notice nba-mod-warning">{trans.__('Only the code says: %1', written)}</p>}
      {noted && <p className="nba-Notice">{trans.__('Only notes beside the data say: %1', noted)}</p>}
      {derived.length > 0 && <p className="nba-Notice">{trans.__('Derived, computed by no cell: %1', derived.join('; '))}</p>}
      {item.check && <Checked check={item.check} />}
      <footer className="nba-Took">
        {item.seconds > 0 && <span>{duration(item.seconds)}</span>}
        {tokens(usage, trans).map(each => <span key={each}>{each}</span>)}
        {usage?.cost != null && usage.cost > 0 && <span>{dollars(usage.cost)}</span>}
        <Undo turn={item.turn} />
      </footer>
      <TurnActions turn={item.turn} answer={item.text} />
    </article>
  );
});
