/**
 * What the panel works with: the session that is open, and what the next question goes off with. Commands and notebooks
 * use it too.
 */
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { Asking, type Attached, type Subject } from './asking';
import { Attachments } from './attachments';
import type { Created, FoundTexts, PageRecord, SessionEntry, SessionList } from './events';
import type { Cell } from './items';
import { Machine } from './machine';
import type { Conversation } from './model';
import type { Documents } from './notebook';
import { Problem, Server, problemOf } from './request';
import { OpenSession } from './session';
import type { Trans } from './translate';

/** Characters of a question. As MAX_QUESTION in nbagent/session/checks.py, whose sentence is for a command line. */
const MOST_ASKED = 200_000;

/** What the panel works with, for plugins that ask in the person's stead. */
export const IAssistant = new Token<Assistant>('@nbagent/panel:IAssistant', 'The session that is open in the panel of nbagent.');

/** What a new session begins with; what is not given is as the server's settings say. */
export interface Choices {
  model?: string;
  trust?: string;
  engine?: string;
  approvals?: string;
  budget?: string;
  data?: string[];
  [option: string]: unknown;
}

/** The panel's state beside the sessions' own. */
export class Assistant {
  session: OpenSession | null = null;
  /** What was asked last, until it is in the log. */
  pending: Asking | null = null;
  /** Why the last thing that was tried failed. */
  failure: Problem | null = null;
  /** What the person chose for new sessions. */
  choices: Choices = {};
  /** Whether a stop is on its way. */
  interrupting = false;
  /** What the next question is about; null for nothing. */
  subject: Subject | null = null;
  /** The notebooks that are open; null where there are none, as in a page for a file. */
  documents: Documents | null = null;
  readonly machine: Machine;
  /** The files that go along with the next question. */
  readonly attachments = new Attachments(this);
  /** Emitted with a question when it is sent off, before anything is done for it. */
  readonly submitted = new Signal<this, string>(this);
  /** Emitted when a question of this page is in the log. */
  readonly asked = new Signal<this, { session: string; turn: number }>(this);

  /** Emitted with a model that the person has chosen, which is then that of new sessions, wherever they begin. */
  readonly modelChosen = new Signal<this, string>(this);

  private preferred: Choices = {};
  /** The turn and the cell that a person had stopped last; they go on for a moment after the owner has heard it. */
  private halted: { conversation: Conversation; asking: number; running: number } | null = null;
  private readonly _changed = new Signal<this, void>(this);

  private readonly trans: Trans;

  constructor(readonly server: Server) {
    this.trans = server.trans;
    this.machine = new Machine(server);
    this.machine.changed.connect(() => this._changed.emit());
  }

  /** Something of it, or of the session that is open, changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether a question is being answered, or is on its way. */
  get busy(): boolean {
    return this.pending !== null || (this.session?.conversation.asking ?? 0) > 0;
  }

  /** Whether what a person had stopped hasn't ended yet. */
  get stopping(): boolean {
    const { conversation, asking, running } = this.halted ?? {};
    const now = this.session?.conversation;
    return this.interrupting || (!!now && now === conversation && ((!!asking && asking === now.asking) || (!!running && running === now.running)));
  }

  /** What new sessions begin with: what was chosen in the panel goes before the settings of JupyterLab. */
  get wanted(): Choices {
    return { ...this.preferred, ...this.choices };
  }

  /** The model that answers next; null if there is none, undefined until the server has looked. */
  get model(): string | null | undefined {
    const { session } = this;
    const { status, defaultModel } = this.machine;
    return session?.model || session?.conversation.about.model || this.wanted.model || status?.model || defaultModel;
  }

  /** Open a session that is there; null for none, so that the next question begins a new one. */
  open(id: string | null): OpenSession | null {
    if (id !== null && this.session?.id === id) {
      return this.session;
    }
    this.session?.close();
    this.failure = null;
    this.session = id === null ? null : new OpenSession(id, this.server);
    this.session?.changed.connect(() => this._changed.emit());
    this._changed.emit();
    return this.session;
  }

  /** Start a session for a question, and open it; if that is stopped meanwhile, the session goes again. */
  private async create(pending: Asking, options: Choices): Promise<Created> {
    const creating = this.server.send<Created>('POST', 'sessions', options);
    creating.then(
      ({ id }) => pending.stopped && this.server.send('DELETE', `sessions/${encodeURIComponent(id)}`).catch(() => undefined),
      () => undefined
    );
    const created = await pending.unlessStopped(creating);
    this.open(created.id);
    return created;
  }

  /** See that a model can answer, before anything is started or downloaded for a question. */
  private async findModel(pending: Asking): Promise<void> {
    if (this.model === null) {
      await pending.unlessStopped(this.machine.loadDefaultModel()); // there may be one by now
    }
    if (this.model === null) {
      throw this.machine.noModel();
    }
  }

  /** What a new session begins with, and where its code runs. */
  private options(): Choices {
    if (!this.documents?.isShared) {
      return this.wanted;
    }
    const { kernel } = this.documents;
    if (!kernel) {
      throw new Problem(
        this.trans.__('The kernel in which the code was to run is gone.'),
        this.trans.__('Open its notebook or start its kernel, or choose a sandbox of its own.')
      );
    }
    // What isolates it was decided when it was started; a level that the person chose here must hold.
    return { ...this.wanted, kernel: kernel.id, engine: undefined, ask_hosts: undefined, trust: this.choices.trust };
  }

  /** Start the demo, which needs no key, and ask its question. */
  async demo(): Promise<void> {
    if (this.busy) {
      return;
    }
    const pending = this.begin('');
    try {
      const { question } = await this.create(pending, { demo: true });
      this.set(null);
      await this.ask(question);
    } catch (error) {
      this.failure = pending.stopped ? null : problemOf(error);
      this.set(null);
    }
  }

  /**
   * Ask a question in the session that is open, or in a new one. What goes wrong is in `failure`.
   *
   * @returns Whether it was asked.
   */
  async ask(question: string, files: readonly Attached[] = [], subject: Subject | null = null): Promise<boolean> {
    if (this.busy) {
      return false;
    }
    this.submitted.emit(question);
    const pending = this.begin(question);
    try {
      if (question.length > MOST_ASKED) {
        throw new Problem(
          this.trans.__('The question has %1 characters.', question.length.toLocaleString()),
          this.trans.__('Attach long material as a file, and ask about that.')
        );
      }
      if (!this.session) {
        await this.findModel(pending);
        await this.create(pending, this.options());
        delete this.choices.data;
        delete this.choices.budget; // the shield, which tells it, is closed when a later one begins
      }
      const session = this.session!;
      await pending.resume(session, this.wanted.model);
      const uploaded = await pending.send(session, files);
      const whole = subject ? `${question}\n\n${subject.text}` : question;
      const { turn } = await pending.ask(session, whole, uploaded, error => this.fail(error));
      this.asked.emit({ session: session.id, turn });
      this.subject = this.subject === subject ? null : this.subject;
      return true;
    } catch (error) {
      this.failure = pending.stopped ? null : problemOf(error);
      return false;
    } finally {
      if (this.pending === pending) {
        this.set(null);
      }
    }
  }

  /** Take back what a question did, in the kernel and in the notebook, or have it back; what goes wrong is in `failure`. */
  async undo(turn: number, undo: boolean): Promise<void> {
    const { session } = this;
    if (!session || this.busy) {
      return;
    }
    const pending = this.begin('');
    try {
      await pending.resume(session, this.wanted.model);
      await pending.undo(session, turn, undo);
      await this.documents?.undo(session, turn, undo);
    } catch (error) {
      this.failure = pending.stopped ? null : problemOf(error);
    } finally {
      this.set(null);
    }
  }

  /** Have what is shown drawn again, since something beside it changed. */
  touch(): void {
    this._changed.emit();
  }

  /** Have the next question be about something. */
  discuss(subject: Subject | null): void {
    this.subject = subject;
    this._changed.emit();
  }

  /** Stop what runs, at whatever step it is. */
  async stop(): Promise<void> {
    const { pending, session } = this;
    if (pending) {
      pending.stop();
      this._changed.emit();
    }
    if (session?.conversation.asking || session?.conversation.running || pending?.step === 'asking' || pending?.step === 'undoing') {
      this.interrupting = true;
      this.halted = session && { conversation: session.conversation, asking: session.conversation.asking, running: session.conversation.running };
      this._changed.emit();
      await this.call('interrupt');
      this.interrupting = false;
      this._changed.emit();
    }
  }

  /** Take what the person's settings of JupyterLab say of new sessions; what is chosen in the panel goes before it. */
  prefer(choices: Choices): void {
    const given = Object.entries(choices).filter(([, value]) => value);
    this.preferred = Object.fromEntries(given);
    this._changed.emit();
  }

  /** Have the next session see files and folders of the server, by their paths. */
  setData(data: readonly string[]): void {
    this.choose({ data: [...new Set(data)] });
  }

  /** Have new sessions begin with something else. */
  choose(choices: Choices): void {
    this.choices = { ...this.choices, ...choices };
    this._changed.emit();
  }

  /** Have this model answer from now on, in the open session too. */
  setModel(model: string): void {
    const { session } = this;
    if (session) {
      session.model = model;
    }
    this.choose({ model });
    if (!model.startsWith('replay:')) {
      this.modelChosen.emit(model);
    }
    if (session?.channel.state === 'running') {
      void this.call('use_model', { name: model });
    }
  }

  /** Set what the person is asked about from now on, in the open session too. */
  setApprovals(mode: string): void {
    this.choose({ approvals: mode });
    if (this.session?.channel.state === 'running') {
      void this.call('set_approvals', { mode });
    }
  }

  /** Call something of the open session's; what goes wrong is in `failure`. */
  async call<T>(name: string, given: { [name: string]: unknown } = {}): Promise<T | undefined> {
    try {
      return await this.session?.channel.call<T>(name, given);
    } catch (error) {
      this.fail(error);
      return undefined;
    }
  }

  /** Fetch the outputs of a cell that were too large to be sent. */
  async fetchWhole(cell: Cell): Promise<void> {
    try {
      this.session?.conversation.complete(await this.server.get<PageRecord>(cell.whole));
      this._changed.emit();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Show why something failed. */
  fail(error: unknown): void {
    const problem = problemOf(error);
    // The banner tells of a connection; a session that the person has left goes on without the panel.
    if (problem.kind !== 'Lost' && problem.kind !== 'Left') {
      this.failure = problem;
      this._changed.emit();
    }
  }

  /** The person has read it. */
  forgive(): void {
    this.failure = null;
    this._changed.emit();
  }

  /** The sessions, or those in which a text was found. */
  async sessions(search = ''): Promise<SessionEntry[]> {
    if (!search) {
      return (await this.server.get<SessionList>('sessions', { limit: 200 })).sessions;
    }
    const { hits } = await this.server.get<FoundTexts>('sessions', { search });
    const byId = new Map(hits.map(({ session }) => [session.id, session]));
    return [...byId.values()];
  }

  private begin(question: string): Asking {
    this.failure = null;
    const pending = new Asking(this.server, question, () => this._changed.emit());
    this.set(pending);
    return pending;
  }

  private set(pending: Asking | null): void {
    this.pending = pending;
    this._changed.emit();
  }
}
