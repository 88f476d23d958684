import { caretDownEmptyThinIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { Choices as Begun } from '../assistant';
import { useEnv } from './env';
import { shieldIcon } from './icons';
import { ModelPicker } from './models';

/** The model, and how the code is isolated and what is asked about: each shown, each can be changed. */
export function Choices(): JSX.Element {
  const { assistant, trans } = useEnv();
  const [shown, show] = React.useState<'' | 'model' | 'safety'>('');
  const place = React.useRef<HTMLDivElement>(null);
  const tabbed = React.useRef(false);
  const about = assistant.session?.conversation.about;
  const { wanted } = assistant;
  const { status } = assistant.machine;
  const model = assistant.model || trans.__('Model');
  const shared = !about && assistant.documents?.isShared ? assistant.documents.kernel : null;
  const trust = about?.trust || (shared && !shared.isSandboxed ? trans.__('not isolated') : wanted.trust || status?.trust || '');
  const close = (refocus = true) => {
    if (refocus) {
      place.current?.querySelector<HTMLElement>(`[data-opens=${shown}]`)?.focus();
    }
    show('');
  };
  const isWithin = (target: EventTarget | null) => target === null || place.current!.contains(target as Node);
  React.useEffect(() => {
    const leave = (event: Event) => shown && !isWithin(event.target) && close(false);
    document.addEventListener('pointerdown', leave);
    return () => document.removeEventListener('pointerdown', leave);
  }, [shown]);
  return (
    <div
      ref={place}
      className="nba-Choices"
      onKeyDown={event => {
        if (event.key === 'Escape' && shown) {
          event.stopPropagation();
          close();
        }
        tabbed.current = event.key === 'Tab';
      }}
      onBlur={event => {
        // Not where JupyterLab itself moves the focus, as its launcher does once it is there.
        if (shown && tabbed.current && !isWithin(event.relatedTarget)) {
          close(false);
        }
      }}
    >
      <button
        type="button"
        className="nba-Choice"
        data-opens="model"
        aria-haspopup="dialog"
        aria-expanded={shown === 'model'}
        title={trans.__('The model: %1', model)}
        onClick={() => show(shown === 'model' ? '' : 'model')}
      >
        <span>{short(model)}</span>
        <caretDownEmptyThinIcon.react tag="span" />
      </button>
      <button
        type="button"
        className="nba-Choice"
        data-opens="safety"
        aria-haspopup="dialog"
        aria-expanded={shown === 'safety'}
        title={trans.__('How the code is isolated, and what you are asked about')}
        onClick={() => show(shown === 'safety' ? '' : 'safety')}
      >
        <shieldIcon.react tag="span" />
        <span>{trust}</span>
      </button>
      {shown === 'model' && <ModelPicker current={model} done={close} />}
      {shown === 'safety' && <Safety done={close} />}
    </div>
  );
}

/** A model's name without its provider and folders. */
function short(name: string): string {
  return name.startsWith('replay:') ? 'replay' : name.replace(/^[a-z_]+:/, '').replace(/^.*\//, '');
}

const TRUST = ['isolated', 'sandboxed', 'untrusted', 'trusted'];
const APPROVALS = ['ask', 'auto-edit', 'allow-list', 'never-ask'];

function Safety({ done }: { done: () => void }): JSX.Element {
  const { assistant, trans } = useEnv();
  const { session, wanted } = assistant;
  const { status, engines } = assistant.machine;
  const about = session?.conversation.about;
  const [trust, setTrust] = React.useState(about?.trust || wanted.trust || status?.trust || 'isolated');
  const [engine, setEngine] = React.useState(about?.engine || wanted.engine || status?.engine || '');
  const approvals = about?.approvals ?? (wanted.approvals || status?.approvals || 'never-ask');
  const renewed = session !== null && (trust !== about?.trust || (engine || about?.engine) !== about?.engine);
  const words: { [name: string]: string } = {
    isolated: trans.__('No network; programs may run. For data analysis.'),
    sandboxed: trans.__('Only hosts that you list, or allow when asked, and no programs. For agents that face users.'),
    untrusted: trans.__('No network, no programs, little memory. For code of unknown origin.'),
    trusted: trans.__('The whole network. For code that you wrote yourself.'),
    ask: trans.__('You are asked before each cell, program, file, install and tool.'),
    'auto-edit': trans.__('You are asked before programs, installs and tools of others.'),
    'allow-list': trans.__('You are asked about what you have not allowed yet.'),
    'never-ask': trans.__('You are never asked; the sandbox alone protects you.')
  };
  const asksHosts = trust === 'isolated' || trust === 'untrusted';
  const apply = (next: Begun) => {
    if (session === null) {
      assistant.choose(next);
    }
  };
  return (
    <div className="nba-Popup nba-Safety" role="dialog" aria-label={trans.__('Isolation and approvals')}>
      <label>
        <span>{trans.__('Trust')}</span>
        <select
          autoFocus
          value={trust}
          onChange={event => {
            setTrust(event.target.value);
            apply({ trust: event.target.value, ask_hosts: undefined });
          }}
        >
          {TRUST.map(each => <option key={each}>{each}</option>)}
        </select>
      </label>
      <p className="nba-Note">{words[trust]}</p>
      {session === null && asksHosts && (
        <label className="nba-Check">
          <input
            type="checkbox"
            checked={Boolean(wanted.ask_hosts ?? (wanted.allow_hosts as string[] | undefined)?.length ?? status?.lists_hosts)}
            onChange={event => assistant.choose({ ask_hosts: event.target.checked })}
          />
          <span>{trans.__('Ask me about hosts that the code wants to reach')}</span>
        </label>
      )}
      <label>
        <span>{trans.__('Engine')}</span>
        <select
          value={engine}
          onChange={event => {
            setEngine(event.target.value);
            apply({ engine: event.target.value });
          }}
        >
          <option value="">{trans.__('the best that works')}</option>
          {engines.map(each => (
            <option key={each.name} value={each.name} disabled={!each.starts}>{each.name}</option>
          ))}
          {engine && !engines.some(each => each.name === engine) && <option>{engine}</option>}
        </select>
      </label>
      {engines.filter(each => each.kernel && each.name === engine).map(each => (
        <p key={each.name} className="nba-Note">{trans.__('Runs on %1', each.kernel)}</p>
      ))}
      {engines.filter(each => each.why_not).map(each => (
        <p key={each.name} className="nba-Note">{each.name}: {each.why_not} {each.mend}</p>
      ))}
      <label>
        <span>{trans.__('Approvals')}</span>
        <select value={approvals} onChange={event => assistant.setApprovals(event.target.value)}>
          {APPROVALS.map(each => <option key={each}>{each}</option>)}
        </select>
      </label>
      <p className="nba-Note">{words[approvals]}</p>
      {session === null ? (
        <>
          <label>
            <span>{trans.__('Budget')}</span>
            <input
              className="nba-Input"
              placeholder={status?.budget}
              defaultValue={wanted.budget ?? ''}
              onBlur={event => assistant.choose({ budget: event.target.value.trim() || undefined })}
            />
          </label>
          <p className="nba-Note">{trans.__('For each question, such as: 0.50usd, 20steps')}</p>
        </>
      ) : (
        about?.budget && <p className="nba-Note">{trans.__('A question may use: %1', about.budget)}</p>
      )}
      {renewed && (
        <>
          <p className="nba-Notice nba-mod-warning">
            {trans.__('A session keeps its isolation to its end. A new one can begin with this.')}
          </p>
          <button
            type="button"
            className="nba-Button nba-mod-accept"
            onClick={() => {
              assistant.open(null);
              assistant.choose({ trust, engine });
              done();
            }}
          >
            {trans.__('New session')}
          </button>
        </>
      )}
    </div>
  );
}
