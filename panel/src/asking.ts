/** The way of one question into the log of its session, whatever happens to the connection meanwhile. */
import type { Question } from './items';
import { Problem, Server, problemOf } from './request';
import type { OpenSession } from './session';

/** A file that goes along with a question, and its name in the sandbox. */
export interface Attached {
  readonly name: string;
  readonly content: File;
}

/** A part of a notebook that the next question is about. */
export interface Subject {
  readonly label: string;
  /** What is added to the question. */
  readonly text: string;
}

/** What is being done for a question. */
export type Step = 'starting' | 'uploading' | 'asking' | 'resuming' | 'undoing';

const AGAIN = 500;

/** A question that was asked and is not in the log yet. */
export class Asking {
  step: Step = 'starting';
  stopped = false;
  /** In milliseconds of this page's clock. */
  readonly began = Date.now();
  private halt: (problem: Problem) => void = () => undefined;
  private readonly halted: Promise<never>;
  private upload: AbortController | null = null;

  /**
   * @param changed Called when the step is another one.
   */
  constructor(
    private readonly server: Server,
    readonly question: string,
    private readonly changed: () => void
  ) {
    this.halted = new Promise((_, reject) => (this.halt = reject));
    this.halted.catch(() => undefined); // nobody may be waiting
  }

  /** Have it not asked, if it was not sent yet; what waits for that ends with a problem. */
  stop(): void {
    this.stopped = true;
    this.upload?.abort();
    this.halt(new Problem('', '', 'Stopped'));
  }

  /** What comes first of a promise and of the person's stop. */
  unlessStopped<T>(promise: Promise<T>): Promise<T> {
    return Promise.race([promise, this.halted]);
  }

  /**
   * Have a session run that was opened: resumed if it rests, once it is known whether it does.
   *
   * @param wanted The model for a session that had recorded replies, which are not found again by their name.
   */
  async resume(session: OpenSession, wanted: string | undefined): Promise<void> {
    for (;;) {
      await this.unlessStopped(session.settled());
      if (session.channel.state === 'running') {
        return;
      }
      this.at('resuming');
      const { about } = session.conversation;
      const model = session.model || (about.replay ? wanted : about.model) || null;
      try {
        await this.unlessStopped(session.channel.call('resume', { model }));
        return;
      } catch (error) {
        if (!isLost(error)) {
          throw error;
        }
      }
    }
  }

  /** Take back what a question did to the kernel, or have it back: its other cells run again. */
  async undo(session: OpenSession, turn: number, undo: boolean): Promise<void> {
    this.at('undoing');
    await session.channel.call('undo_turn', { turn, undo });
  }

  /** Put files into the sandbox; returns their paths there. */
  async send(session: OpenSession, files: readonly Attached[]): Promise<string[]> {
    const paths = [];
    for (const { name, content } of files) {
      this.at('uploading');
      await content.slice(0, 1).arrayBuffer().catch(() => {
        throw new Problem(
          this.server.trans.__("%1 can't be read any more.", name),
          this.server.trans.__('It was changed or removed since it was attached: attach it again.')
        );
      });
      this.upload = new AbortController();
      const path = `sessions/${encodeURIComponent(session.id)}/uploads?name=${encodeURIComponent(name)}`;
      const done = await this.unlessStopped(this.server.upload<{ path: string }>(path, content, this.upload.signal));
      paths.push(done.path);
    }
    return paths;
  }

  /**
   * Ask it, and wait until it is in the log.
   *
   * If the connection is lost before that, nobody knows whether it has arrived: once the connection is back, the log
   * tells, or the question is asked again, which the session refuses for as long as it has it already.
   *
   * @param failed Told of what fails later, when the question is in the log.
   */
  async ask(session: OpenSession, whole: string, uploaded: string[], failed: (error: unknown) => void): Promise<Question> {
    this.at('asking');
    const { conversation, channel } = session;
    const seen = conversation.items.length;
    const wasLost = { yes: false };
    const find = () =>
      conversation.items
        .slice(seen)
        .find((item): item is Question => item.kind === 'question' && (!wasLost.yes || item.text === whole.trim()));
    for (;;) {
      try {
        // Who stops it now interrupts the session, of which its call tells.
        return await inLog(session, find, channel.call('ask', { question: whole, uploaded }), failed);
      } catch (error) {
        if (isLost(error)) {
          wasLost.yes = true;
        } else if (!wasLost.yes || problemOf(error).kind !== 'QuestionRuns' || conversation.asking > 0) {
          throw error;
        } else {
          await this.unlessStopped(new Promise(resolve => window.setTimeout(resolve, AGAIN)));
        }
      }
      await this.unlessStopped(session.settled());
      const question = find();
      if (question) {
        return question;
      }
    }
  }

  private at(step: Step): void {
    this.step = step;
    this.changed();
  }
}

/** Wait until a question is in the log, or its call has failed before. */
function inLog(
  session: OpenSession,
  find: () => Question | undefined,
  called: Promise<unknown>,
  failed: (error: unknown) => void
): Promise<Question> {
  return new Promise((resolve, reject) => {
    const look = () => {
      const question = find();
      if (question) {
        session.changed.disconnect(look);
        resolve(question);
      }
    };
    session.changed.connect(look);
    called.then(look, error => {
      session.changed.disconnect(look);
      // What ended with an answer, as what was stopped does, is told by that.
      if (find() && session.conversation.asking > 0 && problemOf(error).kind !== 'Cancelled') {
        failed(error);
      }
      reject(error);
    });
  });
}

function isLost(error: unknown): boolean {
  return problemOf(error).kind === 'Lost';
}
