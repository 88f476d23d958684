/** Exports and verifications: work of the server's that may take as long as the cells of a notebook. */
import { Signal } from '@lumino/signaling';

import type { JobEntry } from './events';
import { Problem, Server, problemOf } from './request';

const FIRST_WAIT = 200;
const LONGEST_WAIT = 2000;

/** A job, followed until its end. */
export class Job {
  entry: JobEntry | null = null;
  problem: Problem | null = null;
  readonly changed = new Signal<this, void>(this);
  private stopped = false;

  /**
   * @param path Below the API, where it is begun.
   * @param wanted What is sent there.
   */
  constructor(
    readonly server: Server,
    private readonly path: string,
    private readonly wanted: object
  ) {}

  /** Whether it has not ended. */
  get runs(): boolean {
    return this.problem === null && (this.entry === null || this.entry.state === 'running');
  }

  /** Begin it, and wait for its end. */
  async run(): Promise<this> {
    try {
      this.take(await this.server.send<JobEntry>('POST', this.path, this.wanted));
      for (let wait = FIRST_WAIT; this.runs; wait = Math.min(LONGEST_WAIT, wait * 1.5)) {
        await new Promise(resolve => window.setTimeout(resolve, wait));
        this.take(await this.server.get<JobEntry>(`jobs/${this.entry!.job}`));
      }
    } catch (error) {
      this.fail(problemOf(error));
    }
    return this;
  }

  /** Stop it. */
  async stop(): Promise<void> {
    if (this.runs) {
      this.stopped = true;
      this.fail(new Problem(this.server.trans.__('Stopped.')));
      if (this.entry) {
        await this.server.send('DELETE', `jobs/${this.entry.job}`).catch(() => undefined);
      }
    }
  }

  /** A picture that shows how a figure differs. */
  async picture(name: string): Promise<Blob> {
    return new Blob([await this.server.bytes(`jobs/${this.entry!.job}/pictures/${name}`)], { type: 'image/png' });
  }

  private take(entry: JobEntry): void {
    this.entry = entry;
    const { refusal } = entry;
    if (this.stopped) {
      void this.server.send('DELETE', `jobs/${entry.job}`).catch(() => undefined);
    } else if (entry.state === 'failed' && refusal) {
      this.fail(new Problem(refusal.message, refusal.mend, refusal.kind));
    }
    this.changed.emit();
  }

  private fail(problem: Problem): void {
    this.problem ??= problem;
    this.changed.emit();
  }
}
