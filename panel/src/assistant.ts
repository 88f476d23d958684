/**
 * What the panel works with: the server's status, and the session that is open. Commands and notebooks use it too.
 */
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { Asking, type Attached, type Subject } from './asking';
import { PROTOCOL, type Created, type EngineEntry, type EngineList, type FileEntry, type FileList, type FoundTexts, type ModelList, type PageRecord, type SessionEntry, type SessionList, type Status } from './events';
import type { Cell } from './items';
import type { Documents } from './notebook';
import { Problem, Server, problemOf } from './request';
import { OpenSession } from './session';
import type { Trans } from './translate';

const MIB = 1024 * 1024;

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
  status: Status | null = null;
  /** The engines; empty until the server has tried them. */
  engines: readonly EngineEntry[] = [];
  /** The model that is meant if none is named; null if there is none, undefined until the server has looked. */
  defaultModel: string | null | undefined = undefined;
  /** How many models can be chosen. */
  modelCount = 0;
  /** Why nothing can be done at all; null if something can. */
  problem: Problem | null = null;
  session: OpenSession | null = null;
  /** What was asked last, until it is in the log. */
  pending: Asking | null = null;
  /** Why the last thing that was tried failed. */
  failure: Problem | null = null;
  /** What the person chose for new sessions. */
  choices: Choices = {};
  /** The files that go along with the next question. */
  attached: readonly Attached[] = [];
  /** Whether a stop is on its way. */
  stopping = false;

  /** What the next question is about; null for nothing. */
  subject: Subject | null = null;
  /** The notebooks that are open; null where there are none, as in a page for a file. */
  documents: Documents | null = null;
  /** Emitted with a question when it is sent off, before anything is done for it. */
  readonly submitted = new Signal<this, string>(this);
  /** Emitted when a question of this page is in the log. */
  readonly asked = new Signal<this, { session: string; turn: number }>(this);

  private preferred: Choices = {};
  private readonly _changed = new Signal<this, void>(this);

  private readonly trans: Trans;

  constructor(readonly server: Server) {
    this.trans = server.trans;
  }

  /** Something of it, or of the session that is open, changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether a question is being answered, or is on its way. */
  get busy(): boolean {
    return this.pending !== null || (this.session?.conversation.asking ?? 0) > 0;
  }

  /** What new sessions begin with: what was chosen in the panel goes before the settings of JupyterLab. */
  get wanted(): Choices {
    return { ...this.preferred, ...this.choices };
  }

  /** The model that answers next; null if there is none, undefined until the server has looked. */
  get model(): string | null | undefined {
    const { session, status, defaultModel } = this;
    return session?.model || session?.conversation.about.model || this.wanted.model || status?.model || defaultModel;
  }

  /** Ask the server what it is. */
  async load(): Promise<void> {
    try {
      const status = await this.server.get<Status>('status');
      this.status = status;
      this.problem = null;
      if (status.protocol !== PROTOCOL) {
        const older = status.protocol < PROTOCOL 
          ? this.trans.__('The server part of nbagent is older than this panel.')
          : this.trans.__('This panel is older than its server part.');
        const mend = this.trans.__('Install one nbagent only, start JupyterLab again, and load this page again.');
        this.problem = new Problem(older, mend, 'Version');
      }
    } catch (error) {
      this.problem = problemOf(error);
    }
    this._changed.emit();
    if (this.problem === null) {
      // These take seconds, for which nothing waits.
      await Promise.all([this.loadEngines(), this.loadDefaultModel()]);
    }
  }

  /** Ask which engines would start a sandbox. */
  async loadEngines(): Promise<void> {
    const told = await this.server.get<EngineList>('engines').catch(() => null);
    this.engines = told?.engines ?? [];
    this._changed.emit();
  }

  private async loadDefaultModel(): Promise<void> {
    const told = await this.models('', 1).catch(() => null);
    this.defaultModel = told?.default;
    this.modelCount = told?.total ?? 0;
    this._changed.emit();
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

  /** Start a session, and open it. */
  async create(choices: Choices = {}): Promise<OpenSession> {
    const wanted = { ...this.wanted, ...choices };
    if (this.documents?.isShared && !choices.demo) {
      const { kernel } = this.documents;
      if (!kernel) {
        throw new Problem(
          this.trans.__('The kernel in which the code was to run is gone.'),
          this.trans.__('Open its notebook or start its kernel, or choose a sandbox of its own.')
        );
      }
      // What isolates it was decided when it was started; a level that the person chose here must hold.
      Object.assign(wanted, { kernel: kernel.id, engine: undefined, trust: this.choices.trust });
    }
    const { id } = await this.server.send<Created>('POST', 'sessions', wanted);
    delete this.choices.data;
    return this.open(id)!;
  }

  /** Start the demo, which needs no key, and ask its question. */
  async demo(): Promise<void> {
    if (this.busy) {
      return;
    }
    const pending = this.begin('');
    try {
      const { id, question } = await pending.unlessStopped(this.server.send<Created>('POST', 'sessions', { demo: true }));
      this.open(id);
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
      // A session that is stopped while it starts is open nevertheless, for the next question.
      const session = this.session ?? (await this.create());
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
      this.stopping = true;
      this._changed.emit();
      await this.call('interrupt');
      this.stopping = false;
      this._changed.emit();
    }
  }

  /** Take what the person's settings of JupyterLab say of new sessions; what is chosen in the panel goes before it. */
  prefer(choices: Choices): void {
    const given = Object.entries(choices).filter(([, value]) => value);
    this.preferred = Object.fromEntries(given);
    this._changed.emit();
  }

  /** Have files go along with the next question; those that are larger than the server takes are refused. */
  attach(files: Iterable<File>): void {
    const most = this.status?.max_upload_mb || Infinity;
    const large: string[] = [];
    for (const file of files) {
      if (file.size > most * MIB) {
        large.push(file.name);
      } else {
        this.attached = [...this.attached, { name: this.freeName(file.name || 'pasted'), content: file }];
      }
    }
    if (large.length) {
      this.failure = new Problem(
        this.trans.__('Larger than the %1 MB that can be uploaded: %2.', most, large.join(', ')),
        this.trans.__('Put it into the list of files at the left, and drag it here: data of a new session may be of any size.')
      );
    }
    this._changed.emit();
  }

  /** Have what was dropped or pasted go along. A browser hands over no folder. */
  attachFrom({ items }: DataTransfer): void {
    const found = [...items].filter(item => item.kind === 'file');
    const folders = found.flatMap(item => item.webkitGetAsEntry()).filter(entry => entry?.isDirectory);
    if (folders.length) {
      this.failure = new Problem(
        this.trans.__('%1 is a folder.', folders[0]!.name),
        this.trans.__('Drop the files in it, or drag it here from the list of files at the left, as data of a new session.')
      );
    }
    this.attach(found.filter(item => !item.webkitGetAsEntry()?.isDirectory).flatMap(item => item.getAsFile() ?? []));
  }

  /** A name that no attached file has: browsers give all pasted pictures the same. */
  private freeName(name: string): string {
    const [, stem, ending] = /^(.*?)(\.[^.]*)?$/s.exec(name)!;
    let free = name;
    for (let number = 2; this.attached.some(each => each.name === free); number++) {
      free = `${stem}-${number}${ending ?? ''}`;
    }
    return free;
  }

  /** Have the next session see files and folders of the server, by their paths. */
  setData(data: readonly string[]): void {
    this.choose({ data: [...new Set(data)] });
  }

  /** Leave a file out again; without a name, all of them. */
  leaveOut(name?: string): void {
    this.attached = name === undefined ? [] : this.attached.filter(each => each.name !== name);
    this._changed.emit();
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

  /** Models whose names have these letters. */
  models(search: string, limit: number): Promise<ModelList> {
    return this.server.get<ModelList>('models', { search, limit });
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

  /** The variables of the session's kernel, each as `name: type`; none while it is at work, for which nothing waits. */
  async variables(): Promise<string[]> {
    const { session } = this;
    if (session?.channel.state !== 'running' || this.busy || session.conversation.running) {
      return [];
    }
    return session.channel.call<string[]>('variables').catch(() => []);
  }

  /** The session's files whose paths have these letters. */
  async files(word: string): Promise<FileEntry[]> {
    const { session } = this;
    if (session?.channel.state !== 'running') {
      return [];
    }
    const { files } = await this.server.get<FileList>(`sessions/${encodeURIComponent(session.id)}/files`);
    return files.filter(each => each.kind === 'file' && each.path.toLowerCase().includes(word.toLowerCase()));
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
