import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Check } from '../events';
import type { Answer } from '../items';
import { visible } from '../safe';
import { count, duration, useEnv } from './env';
import { LiveMarkdown, Markdown } from './markdown';
import { TurnActions } from './turn';

/** How the second computation of an answer's numbers ended. */
function checked({ cells, again = [], alone = [], new: first = [], reused = [], changed }: Check, trans: TranslationBundle): string {
  if (!cells.length) {
    return trans.__('Not checked: no cell computed it again.');
  }
  if (!again.length && !alone.length && !first.length) {
    return trans.__('Not checked: it has no number that a cell shows.');
  }
  const named = (names: string[]) => visible(names.join(', '));
  return [
    trans.__('Checked by cell %1.', cells.join(', ')),
    again.length ? trans.__('Found again: %1.', named(again)) : '',
    alone.length ? trans.__('Not found again: %1.', named(alone)) : '',
    first.length ? trans.__('Found for the first time: %1.', named(first)) : '',
    reused.length ? trans.__('It used %1 of earlier cells.', named(reused)) : '',
    changed ? trans.__('The answer was another one before.') : ''
  ]
    .filter(Boolean)
    .join(' ');
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
  const unsupported = item.claims.filter(claim => !claim.cell && !claim.noted).map(claim => claim.text);
  const noted = item.claims.filter(claim => claim.noted).map(claim => claim.text);
  const { usage } = item;
  const tokens = usage ? (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0) : 0;
  return (
    <article className={`nba-Answer${item.success ? '' : ' nba-mod-failed'}`} aria-label={trans.__('Answer')}>
      <Markdown text={item.text} />
      {unsupported.length > 0 && (
        <p className="nba-Notice nba-mod-warning">
          {trans.__('No output shows: %1', visible(unsupported.join(', ')))}
        </p>
      )}
      {noted.length > 0 && (
        <p className="nba-Notice">{trans.__('Only notes beside the data say: %1', visible(noted.join(', ')))}</p>
      )}
      {item.check && <p className="nba-Notice">{checked(item.check, trans)}</p>}
      <footer className="nba-Took">
        {item.seconds > 0 && <span>{duration(item.seconds)}</span>}
        {tokens > 0 && <span>{trans.__('%1 tokens', count(tokens))}</span>}
        {usage?.cost != null && usage.cost > 0 && <span>${usage.cost.toFixed(usage.cost < 0.1 ? 4 : 2)}</span>}
      </footer>
      <TurnActions turn={item.turn} answer={item.text} />
    </article>
  );
});
