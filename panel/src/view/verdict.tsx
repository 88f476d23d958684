import { ReactWidget } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { DifferenceEntry, Verified, VerifiedCell } from '../events';
import type { Job } from '../jobs';
import { visible } from '../safe';
import { duration, useChanged } from './env';

/** What a verification found, in a tab of its own. */
export class VerdictWidget extends ReactWidget {
  constructor(
    private readonly job: Job,
    private readonly name: string,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.id = `nbagent-verdict-${Date.now()}`;
    this.addClass('nba-Panel');
    this.addClass('nba-Verdict');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Verification of %1', name));
  }

  override dispose(): void {
    void this.job.stop();
    super.dispose();
  }

  protected override render(): JSX.Element {
    return <Verdict job={this.job} name={this.name} trans={this.trans} />;
  }
}

interface Given {
  readonly job: Job;
  readonly trans: TranslationBundle;
}

function Verdict({ job, name, trans }: Given & { name: string }): JSX.Element {
  useChanged(job.changed);
  const { problem, entry } = job;
  const found = entry?.verified;
  return (
    <div className="nba-VerdictPage">
      <h2>{name}</h2>
      {problem && (
        <p role="alert"><strong>{visible(problem.message)}</strong> {visible(problem.mend)}</p>
      )}
      {job.runs && (
        <p role="status" className="nba-Turn">
          <span className="nba-Spinner" aria-hidden="true" />
          {trans.__('Its cells run again in a fresh sandbox…')}
          <button className="nba-Button" onClick={() => void job.stop()}>{trans.__('Stop')}</button>
        </p>
      )}
      {found && <Found found={found} job={job} trans={trans} />}
    </div>
  );
}

function Found({ found, job, trans }: Given & { found: Verified }): JSX.Element {
  const bad = found.cells.filter(each => each.result === 'differs').length;
  const said = {
    same: trans.__('It shows the same.'),
    differs: bad ? trans.__('%1 of %2 cells differ.', bad, found.cells.length) : trans.__('It differs.'),
    'not run': trans.__('It could not be run.')
  }[found.result];
  return (
    <>
      <p role="status" className={`nba-Result nba-mod-${found.result === 'same' ? 'good' : 'bad'}`}>
        <strong>{said ?? found.result}</strong>{' '}
        {found.error
          ? visible(found.error)
          : trans._n(
              'Run once by %2, %3. Numbers are the same within %4.',
              'Run %1 times by %2, %3. Numbers are the same within %4.',
              found.runs, found.engine, duration(found.seconds), found.tolerance
            )}
      </p>
      {found.problems.length > 0 && <Sentences items={found.problems} />}
      {found.cells.length > 0 && (
        <table className="nba-Table">
          <thead>
            <tr>
              <th scope="col">{trans.__('Cell')}</th>
              <th scope="col">{trans.__('Result')}</th>
              <th scope="col">{trans.__('Time')}</th>
            </tr>
          </thead>
          {found.cells.map(cell => (
            <Row key={cell.number} cell={cell} job={job} trans={trans} />
          ))}
        </table>
      )}
      {found.notes.length > 0 && <Sentences items={found.notes} />}
    </>
  );
}

function Row({ cell, job, trans }: Given & { cell: VerifiedCell }): JSX.Element {
  const words = { same: trans.__('same'), differs: trans.__('differs'), 'not run': trans.__('not run') };
  const pictures = job.entry!.pictures.filter(name => name.startsWith(`${cell.number}-`));
  const same = cell.result === 'same';
  const isTold = cell.note || cell.differences.length || cell.depends.length || pictures.length || (same && cell.excused.length);
  return (
    <tbody className={same ? '' : 'nba-mod-bad'}>
      <tr>
        <th scope="row">{RANDOM.test(cell.id) ? trans.__('Code cell %1', cell.number) : visible(cell.id)}</th>
        <td>{words[cell.result as keyof typeof words] ?? cell.result}</td>
        <td>{duration(cell.seconds)}</td>
      </tr>
      {isTold ? (
        <tr>
          <td colSpan={3}>
            {cell.note && <p>{visible(cell.note)}</p>}
            {same && cell.excused.length > 0 && <p>{trans.__('same but for %1', cell.excused.join(', '))}</p>}
            {cell.differences.map((each, at) => (
              <Difference key={at} found={each} trans={trans} />
            ))}
            {cell.depends.map(each => (
              <p key={each}>{trans.__('depends on %1', visible(each))}</p>
            ))}
            {pictures.map(name => (
              <Picture key={name} name={name} job={job} trans={trans} />
            ))}
          </td>
        </tr>
      ) : null}
    </tbody>
  );
}

function Difference({ found, trans }: { found: DifferenceEntry; trans: TranslationBundle }): JSX.Element {
  return (
    <div className="nba-Difference">
      <p>{[found.what, found.where].filter(Boolean).map(visible).join(', ')}{found.cause && ` (${visible(found.cause)})`}</p>
      {(found.stored || found.fresh) && (
        <dl>
          <dt>{trans.__('in the notebook')}</dt>
          <dd><code>{visible(found.stored)}</code></dd>
          <dt>{trans.__('now')}</dt>
          <dd><code>{visible(found.fresh)}</code></dd>
        </dl>
      )}
    </div>
  );
}

/** Ids that Jupyter gives, which no page shows. */
const RANDOM = /^[0-9a-f-]{8,36}$/;

/** The picture has both figures side by side, and where they differ. */
function Picture({ name, job, trans }: Given & { name: string }): JSX.Element {
  const [address, setAddress] = React.useState('');
  React.useEffect(() => {
    let made = '';
    let gone = false;
    job.picture(name).then(
      blob => {
        if (!gone) {
          made = URL.createObjectURL(blob);
          setAddress(made);
        }
      },
      () => undefined
    );
    return () => {
      gone = true;
      URL.revokeObjectURL(made);
    };
  }, [job, name]);
  return (
    <figure className="nba-Figure">
      {address && (
        <a href={address} target="_blank" title={trans.__('Show it in its own size')}>
          <img src={address} alt={trans.__('The figure in the notebook, the one of now, and where they differ')} />
        </a>
      )}
      <figcaption>{trans.__('in the notebook, now, and where they differ')}</figcaption>
    </figure>
  );
}

function Sentences({ items }: { items: readonly string[] }): JSX.Element {
  return (
    <ul className="nba-Sentences">
      {items.map((each, at) => (
        <li key={at}>{visible(each)}</li>
      ))}
    </ul>
  );
}
