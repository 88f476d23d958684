import * as React from 'react';

import type { DiffLine } from '../diff';
import { visible } from '../safe';
import { useEnv } from './env';

/** Lines that stay, go and come, each with its sign, for who sees no colours. */
export function Diff({ lines, label }: { lines: readonly DiffLine[]; label: string }): JSX.Element {
  const { trans } = useEnv();
  const names = { '+': trans.__('added'), '-': trans.__('removed'), ' ': '' };
  return (
    <div className="nba-Diff" role="region" tabIndex={0} aria-label={label}>
      {lines.map(({ sign, text }, at) => (
        <div key={at} className={`nba-DiffLine${sign === '+' ? ' nba-mod-added' : sign === '-' ? ' nba-mod-removed' : ''}`}>
          <span aria-hidden="true">{sign}</span>
          {names[sign] && <span className="nba-Hidden">{names[sign]}: </span>}
          <code>{visible(text) || '\u00a0'}</code>
        </div>
      ))}
    </div>
  );
}
