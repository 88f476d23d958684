/**
 * The notebooks that are open: which one a question was asked beside, and the cells of its answer in it.
 *
 * Cells go in through the shared model, all of an answer in one transaction, so that one undo takes them out, and
 * everybody who has the document open sees the same. No file is written: saving is the person's.
 */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IStateDB } from '@jupyterlab/statedb';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';

import type { Assistant } from './assistant';
import { DiffLine, diffLines } from './diff';
import { sha256 } from './digest';
import type { Cell } from './items';
import type { Conversation } from './model';
import { Places } from './places';
import { cellOf, provenances } from './provenance';
import { proposed } from './question';
import { Problem } from './request';
import type { OpenSession } from './session';
import { inOneUndo, SANDBOXED, sharedOf } from './shared';

/** When the cells of an answer go into the notebook: at a click, after the person has seen them, or by themselves. */
export type InsertMode = 'click' | 'ask' | 'auto';

/** A cell as an answer says that it should be. */
export interface Proposal {
  readonly name: string;
  /** The change, from what is in the cell now; empty if it can't be made any more, or was decided. */
  readonly lines: readonly DiffLine[];
  readonly code: string;
  /** What became of it, or why it can't be made. */
  readonly told: string;
}

/** What can be done with the cells of an answer. */
export interface TurnState {
  /** The notebook's name; empty if none is open and none was in front. */
  readonly name: string;
  readonly path: string;
  readonly state: 'ready' | 'inserted' | 'closed' | 'refused';
  /** Why it is refused. */
  readonly why: string;
  /** How many others have the notebook open. */
  readonly others: number;
}

/** The notebooks that are open, for the panel. */
export class Documents {
  mode: InsertMode = 'click';
  /** Whether the question that is sent off next is to fix the active cell. */
  fixes = false;
  /** Whether new sessions run in the kernel of the notebook in front. */
  isShared = false;
  /** The question whose cells are shown before they go in; null for none. */
  shown: { session: string; turn: number } | null = null;

  private readonly places: Places;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly assistant: Assistant,
    private readonly tracker: INotebookTracker,
    private readonly trans: TranslationBundle,
    saved: IStateDB | null
  ) {
    assistant.documents = this;
    this.places = new Places(tracker, saved);
    assistant.submitted.connect(() => this.places.capture({ waits: this.mode !== 'click' && !this.fixes, fixes: this.fixes }));
    assistant.asked.connect((_, { session, turn }) => {
      this.places.bind(session, turn);
      this._changed.emit();
    });
    assistant.changed.connect(() => this.proceed());
    tracker.currentChanged.connect(() => this._changed.emit());
    tracker.widgetAdded.connect((_, panel) => {
      void panel.context.ready.then(() => {
        panel.content.model?.contentChanged.connect(() => this._changed.emit());
        panel.sessionContext.kernelChanged.connect(() => this._changed.emit());
        panel.sessionContext.statusChanged.connect((_, status) => status === 'dead' && this._changed.emit());
        this._changed.emit();
        this.proceed();
      });
      panel.disposed.connect(() => this._changed.emit());
    });
    void this.places.restore().then(() => this._changed.emit());
  }

  /** Something that the panel shows of notebooks changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The cells of an answer that go into a notebook: those that worked. */
  cells(conversation: Conversation, turn: number): Cell[] {
    return conversation.items.filter(
      (item): item is Cell => item.kind === 'cell' && item.turn === turn && item.status === 'ok' && item.tool !== 'person'
    );
  }

  /** What can be done with the cells of an answer. */
  state(session: string, turn: number): TurnState {
    const place = this.places.get(session, turn);
    const panel = this.places.notebook(session, turn);
    const path = panel?.context.path ?? place?.path ?? '';
    const told = { path, name: path.split('/').pop()! };
    if (!panel) {
      return { ...told, state: 'closed', why: '', others: 0 };
    }
    const { model } = panel.content;
    // The server takes part without being anybody.
    const people = [...(sharedOf(panel)?.awareness?.getStates().values() ?? [])].filter(each => each.user);
    const others = Math.max(0, people.length - 1);
    if (!model || !panel.context.isReady) {
      return { ...told, state: 'refused', why: this.trans.__('%1 is still being opened.', told.name), others };
    }
    if (model.readOnly || panel.context.contentsModel?.writable === false) {
      const why = this.trans.__('%1 is read-only. Save a copy of it, and ask beside that.', told.name);
      return { ...told, state: 'refused', why, others };
    }
    return { ...told, state: this.inserted(panel, session, turn) ? 'inserted' : 'ready', why: '', others };
  }

  /** Take what the person's settings say. */
  set(mode: InsertMode): void {
    this.mode = mode;
    this._changed.emit();
    this.proceed();
  }

  /** The kernel of the notebook in front; null for none. */
  get kernel(): { id: string; notebook: string; isSandboxed: boolean } | null {
    const panel = this.tracker.currentWidget;
    const kernel = panel?.sessionContext.session?.kernel;
    if (!panel || !kernel || kernel.isDisposed || kernel.status === 'dead') {
      return null;
    }
    const notebook = panel.context.path.split('/').pop()!;
    return { id: kernel.id, notebook, isSandboxed: kernel.name.startsWith(SANDBOXED) };
  }

  /** Have new sessions run in the kernel of the notebook in front, or in sandboxes of their own. */
  share(isShared: boolean): void {
    this.isShared = isShared;
    this._changed.emit();
    this.assistant.touch();
  }

  /** Show what would go in, or no longer. */
  show(shown: { session: string; turn: number } | null): void {
    this.shown = shown;
    this._changed.emit();
  }

  /** Put the cells of an answer into the notebook beside which it was asked; why they are not is shown in the panel. */
  async insert(session: string, turn: number): Promise<void> {
    const open = this.assistant.session;
    const panel = this.places.notebook(session, turn);
    const { state, why, name } = this.state(session, turn);
    if (open?.id !== session || state === 'inserted') {
      return;
    }
    if (!panel || state !== 'ready') {
      const closed = name
        ? new Problem(this.trans.__('The notebook %1 is not open any more.', name), this.trans.__('Open it, and insert the cells then.'))
        : new Problem(this.trans.__('No notebook is open.'), this.trans.__('Open one, and insert the cells then.'));
      this.assistant.fail(state === 'closed' ? closed : new Problem(why));
      return;
    }
    await this.put(panel, open, turn);
  }

  /** Put the cells of an answer that are not in the notebook into it. */
  private async put(panel: NotebookPanel, { id: session, conversation }: OpenSession, turn: number): Promise<void> {
    const found = this.cells(conversation, turn);
    await Promise.all(found.filter(cell => cell.whole).map(cell => this.assistant.fetchWhole(cell)));
    if (panel.isDisposed) {
      return;
    }
    const there = provenances(panel).filter(each => each?.session === session && each.turn === turn).map(each => each!.cell);
    const cells = found.filter(cell => !there.includes(cell.number)).map(cell => cellOf(cell, conversation, session));
    if (cells.length === 0) {
      return;
    }
    const at = this.position(panel, session, turn);
    inOneUndo(sharedOf(panel)!, shared => shared.insertCells(at, cells));
    const place = this.places.get(session, turn);
    if (place) {
      place.waits = false;
      this.places.save();
    }
    this.shown = null;
    this._changed.emit();
  }

  /** Take the cells of an answer that was undone out of their notebook, but for edited ones, or put them in again. */
  async undo(open: OpenSession, turn: number, undo: boolean): Promise<void> {
    const session = open.id;
    const place = this.places.get(session, turn);
    const panel = place && this.places.notebook(session, turn);
    const { state } = this.state(session, turn);
    if (!panel || (undo ? state !== 'inserted' : !place.removed || !['inserted', 'ready'].includes(state))) {
      return;
    }
    place.removed = undo;
    this.places.save();
    if (!undo) {
      return this.put(panel, open, turn);
    }
    const cells = [...panel.content.model!.cells];
    const found = provenances(panel).map((each, at) =>
      each?.session === session && each.turn === turn && each.source_sha256 === sha256(cells[at].sharedModel.getSource()) ? at : -1
    );
    inOneUndo(sharedOf(panel)!, shared => found.filter(at => at >= 0).reverse().forEach(at => shared.deleteCell(at)));
    this._changed.emit();
  }

  /** The cell that an answer proposes in the place of the one that failed; null if it was not asked for that. */
  proposal(session: string, turn: number, answer: string): Proposal | null {
    const place = this.places.get(session, turn);
    const code = proposed(answer);
    if (!place?.fixes || !code) {
      return null;
    }
    const { name, state, why } = this.state(session, turn);
    const nothing = { name, code, lines: [] };
    if (place.outcome) {
      return { ...nothing, told: place.outcome === 'accepted' ? this.trans.__('Accepted. Undo in the cell takes it back.') : this.trans.__('Rejected.') };
    }
    const cell = this.places.notebook(session, turn)?.content.widgets.find(each => each.model.id === place.cell);
    if (!cell || state === 'refused') {
      return { ...nothing, told: why || (state === 'closed' ? this.trans.__('%1 is closed.', name) : this.trans.__('The cell is not in %1 any more.', name)) };
    }
    const source = cell.model.sharedModel.getSource();
    if (source === code) {
      return { ...nothing, told: this.trans.__('The cell is so already.') };
    }
    return { name, code, lines: diffLines(source, code), told: '' };
  }

  /** Make the change that an answer proposes, as one undo, or note that the person does not want it. */
  decide(session: string, turn: number, answer: string, accept: boolean): void {
    const place = this.places.get(session, turn);
    const found = this.proposal(session, turn, answer);
    const cell = this.places.notebook(session, turn)?.content.widgets.find(each => each.model.id === place?.cell);
    if (!place || !cell || !found?.lines.length) {
      return;
    }
    if (accept) {
      inOneUndo(cell.model.sharedModel, shared => shared.setSource(found.code));
    }
    place.outcome = accept ? 'accepted' : 'rejected';
    this.places.save();
    this._changed.emit();
  }

  private inserted(panel: NotebookPanel, session: string, turn: number): boolean {
    return provenances(panel).some(each => each?.session === session && each.turn === turn);
  }

  /** Behind the cell that was active, and what this session has inserted there; before one that is empty. */
  private position(panel: NotebookPanel, session: string, turn: number): number {
    const cells = [...panel.content.model!.cells];
    const place = this.places.get(session, turn);
    let at = place ? cells.findIndex(each => each.id === place.cell) : panel.content.activeCellIndex;
    if (at < 0) {
      at = Math.min(place?.index ?? cells.length, cells.length - 1);
    }
    if (cells[at]?.type === 'code' && !cells[at].sharedModel.getSource().trim()) {
      return at;
    }
    const found = provenances(panel);
    do {
      at++;
    } while (found[at]?.session === session && found[at]!.turn < turn);
    return at;
  }

  /** Do what the mode says with the answers that have come. */
  private proceed(): void {
    const { session } = this.assistant;
    if (!session || this.mode === 'click') {
      return;
    }
    for (const item of session.conversation.items) {
      if (item.kind !== 'answer' || item.live) {
        continue;
      }
      const place = this.places.get(session.id, item.turn);
      if (!place?.waits || this.state(session.id, item.turn).state !== 'ready') {
        continue;
      }
      place.waits = false;
      this.places.save();
      if (this.cells(session.conversation, item.turn).length === 0) {
        continue;
      }
      if (this.mode === 'auto') {
        void this.insert(session.id, item.turn);
      } else {
        this.show({ session: session.id, turn: item.turn });
      }
    }
  }
}
