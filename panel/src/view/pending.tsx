import { closeIcon } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Assistant } from '../assistant';
import type { Status } from '../events';
import { useEnv, useNow, duration } from './env';

/** Milliseconds between two looks at what a first sandbox waits for. */
const LOOK_MS = 1500;

/** What happens now, in a line: what was asked and is on its way, what runs, what waits for the person. */
export function Progress(): JSX.Element | null {
  const { assistant, trans } = useEnv();
  const { pending, busy, session } = assistant;
  const now = useNow(busy, 500);
  const making = useMaking(pending?.step === 'starting' || pending?.step === 'resuming');
  if (!busy) {
    const rests = session?.ready && session.channel.connection === 'open' && !['running', 'gone'].includes(session.channel.state);
    return rests ? <Rests waits={session.channel.state === 'waiting'} /> : null;
  }
  const since = pending?.began ?? session!.conversation.askedAt;
  return (
    <div className="nba-Progress">
      {pending?.question && <article className="nba-Question"><p>{pending.question}</p></article>}
      <p role="status">
        <span className="nba-Spinner" aria-hidden="true" />
        <span>{doing(assistant, trans)}</span>
        {making && <span className="nba-Note" aria-hidden="true">{making}</span>}
        {since > 0 && <span className="nba-Elapsed" aria-hidden="true">{duration(Math.max(0, (now - since) / 1000))}</span>}
      </p>
    </div>
  );
}

/** What is made for a first sandbox, and how far that is, while one starts; empty if nothing is. */
function useMaking(starts: boolean): string {
  const { server } = useEnv().assistant;
  const [making, set] = React.useState('');
  React.useEffect(() => {
    set('');
    const look = () => void server.get<Status>('status').then(status => set(status.making), () => undefined);
    const timer = starts ? window.setInterval(look, LOOK_MS) : 0;
    return () => window.clearInterval(timer);
  }, [starts, server]);
  return starts ? making : '';
}

/** The session does not run: the next question starts it again. */
function Rests({ waits }: { waits: boolean }): JSX.Element {
  const { trans } = useEnv();
  return (
    <div className="nba-Progress">
      <p>
        {waits
          ? trans.__('This session rests with its variables; a question wakes it.')
          : trans.__('This session has ended; a question starts it again, with a new kernel.')}
      </p>
    </div>
  );
}

function doing({ pending, session, stopping, documents }: Assistant, trans: TranslationBundle): string {
  const conversation = session?.conversation;
  if (stopping || pending?.stopped) {
    return conversation?.running ? trans.__('Stopping cell %1…', conversation.running) : trans.__('Stopping…');
  }
  if (pending) {
    return {
      starting: documents?.isShared ? trans.__('Joining the kernel of the notebook…') : trans.__('Starting a sandbox…'),
      resuming: trans.__('Starting the session again…'),
      uploading: trans.__('Uploading the files…'),
      asking: trans.__('Asking…'),
      undoing: trans.__('Running the other cells again…')
    }[pending.step];
  }
  switch (conversation?.phase) {
    case 'cell':
      return trans.__('Cell %1 runs', conversation.running);
    case 'queued':
      return trans.__('Waits until the kernel has run what is before it');
    case 'approval':
      return trans.__('Waits for your approval');
    case 'host':
      return trans.__('The code waits for your answer');
    case 'finishing':
      return trans.__('Checking the answer');
    case 'working':
      return trans.__('Working');
    default:
      return trans.__('Thinking');
  }
}

/** What went wrong, with what can be done about it. */
export function Failure(): JSX.Element | null {
  const { assistant, trans } = useEnv();
  const { failure, session } = assistant;
  const channel = session?.channel;
  const loadAgain = <button className="nba-Button" onClick={() => window.location.reload()}>{trans.__('Load again')}</button>;
  const { problem } = assistant.machine;
  if (problem && session) {
    return (
      <Banner message={problem.message} mend={problem.mend}>
        <button className="nba-Button" onClick={() => void assistant.machine.load()}>{trans.__('Look again')}</button>
      </Banner>
    );
  }
  if (channel?.connection === 'refused') {
    const login = channel.problem?.status === 401;
    return (
      <Banner message={channel.problem?.message ?? ''} mend={channel.problem?.mend ?? ''}>
        {login && loadAgain}
        {!login && <button className="nba-Button" onClick={() => assistant.open(null)}>{trans.__('New session')}</button>}
      </Banner>
    );
  }
  if (channel?.connection === 'lost') {
    return (
      <Banner message={trans.__('The connection to the server was lost.')} mend={trans.__('What ran goes on; this is whole again once it is back.')}>
        <button className="nba-Button" onClick={channel.retry}>{trans.__('Try now')}</button>
      </Banner>
    );
  }
  if (channel?.state === 'gone') {
    return (
      <Banner message={trans.__('This session was deleted.')} mend="">
        <button className="nba-Button" onClick={() => assistant.open(null)}>{trans.__('New session')}</button>
      </Banner>
    );
  }
  if (failure) {
    return (
      <Banner message={failure.message} mend={failure.mend}>
        {failure.kind === 'Login' && loadAgain}
        <button className="nba-IconButton" aria-label={trans.__('Dismiss')} onClick={() => assistant.forgive()}>
          <closeIcon.react tag="span" />
        </button>
      </Banner>
    );
  }
  return null;
}

function Banner(props: { message: string; mend: string; children?: React.ReactNode }): JSX.Element {
  return (
    <div className="nba-Banner" role="alert">
      <p>
        <strong>{props.message}</strong> {props.mend}
      </p>
      {props.children}
    </div>
  );
}
