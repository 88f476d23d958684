import { refreshIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { useEnv } from './env';
import { agentIcon } from './icons';

/** What a person sees before the first question: what is ready, what is missing, and what to click next. */
export function Welcome({ ask }: { ask: () => void }): JSX.Element {
  const { assistant, trans } = useEnv();
  const { problem, status, engines, modelCount } = assistant.machine;
  if (problem) {
    return (
      <div className="nba-Welcome">
        <agentIcon.react tag="div" className="nba-Mark" aria-hidden="true" />
        <div role="alert">
          <h3>{problem.message}</h3>
          <p>{problem.mend}</p>
        </div>
        <button className="nba-Button" onClick={() => void assistant.machine.load()}>
          <refreshIcon.react tag="span" />
          {trans.__('Look again')}
        </button>
      </div>
    );
  }
  const chosen = engines.find(each => each.chosen && each.starts) ?? engines.find(each => each.starts);
  const { model } = assistant;
  const hasModel = Boolean(model);
  return (
    <div className="nba-Welcome">
      <agentIcon.react tag="div" className="nba-Mark" aria-hidden="true" />
      <h3>{trans.__('Ask about your data')}</h3>
      <p>{trans.__('You see the code, and it runs in a sandbox. Every answer is a notebook that runs again.')}</p>
      {status && (
        <ul className="nba-Checks">
          {engines.length > 0 && (
            <Check good={chosen !== undefined} text={chosen ? trans.__('A sandbox is ready: %1', chosen.name) : trans.__('No sandbox works here')}>
              {!chosen && engines.map(each => <p key={each.name}><b>{each.name}</b>: {each.why_not} {each.mend}</p>)}
            </Check>
          )}
          <Check
            good={model === undefined ? null : hasModel}
            text={model ? trans.__('A model: %1', model) : model === undefined ? trans.__('Looking for a model…') : trans.__('No model yet')}
          >
            {model === null && modelCount > 0 && <p>{trans._n('Choose it below: there is one.', 'Choose one of %1 below.', modelCount)}</p>}
            {model === null && modelCount === 0 && <p>{trans.__('Start JupyterLab with a key such as OPENAI_API_KEY in its environment, or start Ollama; then choose a model below.')}</p>}
          </Check>
          <Check good={null} text={trans.__('Data: attach, drag or paste files into the question, or name one after @')} />
        </ul>
      )}
      {status?.problem && <p className="nba-Notice nba-mod-warning">{status.problem}</p>}
      <div className="nba-Buttons">
        {hasModel && <button className="nba-Button nba-mod-accept" onClick={ask}>{trans.__('Ask a question')}</button>}
        <button className={`nba-Button${hasModel ? '' : ' nba-mod-accept'}`} onClick={() => void assistant.demo()}>
          {trans.__('Try the demo, without a key')}
        </button>
      </div>
    </div>
  );
}

function Check({ good, text, children }: { good: boolean | null; text: string; children?: React.ReactNode }): JSX.Element {
  const sign = good === null ? '•' : good ? '✓' : '!';
  return (
    <li className={good === false ? 'nba-mod-bad' : good ? 'nba-mod-good' : ''}>
      <span className="nba-Sign" aria-hidden="true">{sign}</span>
      <div>
        <span>{text}</span>
        {children}
      </div>
    </li>
  );
}
