/**
 * The conversation of a session, made of its records. Pure: it knows neither the page nor the server.
 *
 * A view draws again only the items that changed. Node runs the tests of it, so what it imports is named whole, as
 * `./translate.js`.
 */
import type { IOutput } from '@jupyterlab/nbformat';

import type { CellFinished, Event, PageRecord, Usage } from './events';
import type { About, Answer, Approval, Base, Cell, Host, Item, Notice, SavedFile, Spent } from './items';
import { addOutput, updateDisplay } from './outputs.js';
import { sentences, statusWord } from './sentences.js';
import { type Trans, untranslated } from './translate.js';

/** A session, as far as its records were read. */
export class Conversation {
  readonly items: Item[] = [];
  readonly about: About = {
    engine: '',
    trust: '',
    isolation: '',
    approvals: 'never-ask',
    model: '',
    replay: false,
    budget: '',
    title: '',
    data: []
  };
  readonly spent: Spent = { tokens: 0, calls: 0, cost: 0 };
  /** The questions that were undone. */
  readonly undone = new Set<number>();
  /** The number of the question that is being answered; 0 for none. */
  asking = 0;
  /** When it was asked, in milliseconds of this page's clock. */
  askedAt = 0;
  /** What the session does, as a word for `statusText`; empty for nothing. */
  phase = '';
  /** The cell that runs; 0 for none. */
  running = 0;
  /** Grows with each change. */
  version = 0;
  /** The last thing that a person should hear of who does not see the page. */
  news = '';

  private readonly cells = new Map<number, Cell>();
  private readonly questions = new Map<string, Approval | Host>();
  private live: Answer | null = null;

  constructor(private readonly trans: Trans = untranslated) {}

  /**
   * Take the next records.
   *
   * @param now Milliseconds since the epoch, by this page's clock.
   */
  take(records: readonly PageRecord[], now = Date.now()): void {
    for (const { seq, at, event, whole = '', own = {} } of records) {
      this.apply(event, seq, { key: `r${seq}`, version: 0, at }, Math.min(now, at * 1000));
      if (event.type === 'CellFinished') {
        this.change(event.cell, cell => Object.assign(cell, { whole, own }));
      }
    }
    this.version++;
  }

  /** Take words of an answer that is being written. */
  say(turn: number, text: string): void {
    if (turn !== this.asking) {
      return;
    }
    if (this.live === null) {
      this.live = {
        kind: 'answer', key: `live${turn}-${this.items.length}`, version: 0, turn, at: 0,
        text: '', live: true, success: true, seconds: 0, usage: null, claims: [], check: null
      };
      this.items.push(this.live);
    }
    this.live.text += text;
    this.live.version++;
    this.version++;
  }

  /** The approvals and hosts that wait for an answer. */
  get open(): (Approval | Host)[] {
    return [...this.questions.values()];
  }

  /** Take the whole outputs of a cell that were too large to be sent at first. */
  complete(record: PageRecord): void {
    const { event } = record;
    if (event.type === 'CellFinished') {
      this.change(event.cell, cell => {
        cell.outputs = (event.outputs ?? []) as IOutput[];
        cell.whole = '';
      });
      this.version++;
    }
  }

  /** A cell by its number. */
  cell(number: number): Cell | undefined {
    return this.cells.get(number);
  }

  private apply(event: Event, seq: number, base: { key: string; version: number; at: number }, now: number): void {
    const turn = 'turn' in event && typeof event.turn === 'number' ? event.turn : this.asking;
    const place = { ...base, turn };
    switch (event.type) {
      case 'SessionStarted':
        Object.assign(this.about, { engine: event.engine, trust: event.trust, isolation: event.isolation ?? '' });
        this.about.data = (event.data ?? []).map(each => each.path);
        break;
      case 'SessionResumed':
        this.about.engine = event.engine || this.about.engine;
        this.rest();
        this.notice(place, event.kept ? 'told' : 'warning', event.note);
        break;
      case 'SessionEnded':
        this.rest();
        this.notice(place, 'told', event.reason ? this.trans.__('The session has ended: %1', event.reason) : this.trans.__('The session has ended.'));
        break;
      case 'Renamed':
        this.about.title = event.title;
        break;
      case 'ApprovalsSet':
        this.about.approvals = event.mode;
        break;
      case 'Asked':
        this.asking = event.turn;
        this.askedAt = now;
        this.phase = 'thinking';
        this.news = ''; // what is said twice is heard twice
        Object.assign(this.about, { model: event.model || this.about.model, replay: event.replay ?? false, budget: event.budget ?? '' });
        this.about.title ||= event.question.split('\n')[0].slice(0, 120);
        this.items.push({
          kind: 'question', ...place, text: event.question, model: event.model ?? '', replay: event.replay ?? false
        });
        break;
      case 'TurnUndone':
        this.undone[event.undone === false ? 'delete' : 'add'](event.turn);
        this.items.filter(item => item.turn === event.turn).forEach(item => item.version++);
        break;
      case 'ModelReplied':
        this.phase = event.tools?.length ? 'working' : 'finishing';
        this.spend(event.usage);
        if (event.tools?.length) {
          this.unsay();
          if (event.text) {
            this.items.push({ kind: 'words', ...place, text: event.text });
          }
        }
        break;
      case 'ModelFailed':
        this.unsay();
        this.spend(event.usage);
        this.notice(place, 'warning', event.wait ? `${event.reason} ${this.trans.__('Asking again in %1 s.', event.wait.toFixed(0))}` : event.reason);
        break;
      case 'Reflected':
        this.spend(event.usage);
        break;
      case 'CellStarted':
        this.begin(event, place, now);
        break;
      case 'CellWaits':
        this.phase = 'queued';
        break;
      case 'OutputAdded':
        this.phase = this.running ? 'cell' : this.phase;
        // How a cell failed is shown when it has ended: it may go on after an install.
        if (event.output.output_type !== 'error') {
          this.change(event.cell, cell => addOutput(cell.outputs, event.output as IOutput));
        }
        break;
      case 'LateOutputAdded':
        this.change(event.cell, cell => addOutput(cell.outputs, event.output as IOutput));
        break;
      case 'OutputUpdated':
        for (const number of new Set([event.cell, ...(event.changed ?? [])])) {
          this.change(number, cell => updateDisplay(cell, event.display_id, event.data, event.metadata ?? {}));
        }
        break;
      case 'OutputsCleared':
        this.change(event.cell, cell => cell.outputs.splice(0));
        break;
      case 'CellFinished':
        this.finish(event);
        break;
      case 'ApprovalAsked':
        this.phase = 'approval';
        this.ask(event.id, { kind: 'approval', ...place, asked: event, decision: '', by: '', reason: '', rules: [] });
        this.news = this.trans.__('Approval needed: %1', event.what);
        break;
      case 'ApprovalGiven':
        this.settle(event.id, item => {
          Object.assign(item, { decision: event.decision, by: event.by, reason: event.reason ?? '', rules: event.rules ?? [] });
        });
        break;
      case 'HostAsked':
        this.phase = 'host';
        this.ask(event.id, { kind: 'host', ...place, id: event.id, host: event.host, port: event.port, began: now, decision: '', by: '' });
        this.news = this.trans.__('The code asks for the host %1', event.host);
        break;
      case 'HostDecided':
        if (event.id) {
          this.settle(event.id, item => {
            Object.assign(item, { decision: event.allowed ? 'allowed' : 'denied', by: event.by });
          });
        } else if (!event.allowed) {
          this.notice(place, 'warning', this.trans.__('The code was not let to %1:%2. %3', event.host, event.port, event.reason ?? '').trim());
        }
        break;
      case 'FileSaved':
        this.save(place, {
          seq, name: event.path.split('/').pop() ?? event.path, path: event.path, size: event.size
        });
        break;
      case 'Answered':
        this.answer(event, place);
        break;
      default:
        for (const [tone, text] of sentences(event, this.trans)) {
          this.notice(place, tone, text);
        }
    }
  }

  private notice(base: Base, tone: Notice['tone'], text: string): void {
    if (text) {
      this.items.push({ kind: 'notice', ...base, tone, text });
    }
  }

  private spend(usage: Usage | undefined): void {
    if (usage) {
      this.spent.tokens += (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
      this.spent.calls += usage.calls ?? 0;
      const cost = usage.cost ?? (usage.calls ? null : 0);
      this.spent.cost = this.spent.cost === null || cost === null ? null : this.spent.cost + cost;
    }
  }

  private begin(event: Extract<Event, { type: 'CellStarted' }>, base: Base, now: number): void {
    this.running = event.cell;
    this.phase = 'cell';
    let cell = this.cells.get(event.cell);
    if (cell === undefined) {
      cell = {
        kind: 'cell', ...base, key: `c${event.cell}`, number: event.cell, code: '', status: 'running', outputs: [],
        duration: 0, note: '', tool: event.tool ?? '', approver: event.approver ?? '', whole: '', own: {}, displayIds: [], began: now
      };
      this.cells.set(event.cell, cell);
      this.items.push(cell);
    }
    // The same cell runs again after an install.
    Object.assign(cell, { code: event.code, status: 'running', began: now });
    cell.outputs.splice(0);
    cell.version++;
  }

  private finish(event: CellFinished): void {
    this.running = this.running === event.cell ? 0 : this.running;
    this.phase = this.asking ? 'thinking' : '';
    this.change(event.cell, cell => {
      cell.status = event.status;
      cell.duration = event.duration ?? 0;
      cell.note = event.note ?? '';
      cell.outputs = (event.outputs ?? []) as IOutput[];
      cell.displayIds = event.display_ids ?? [];
    });
    if (event.status !== 'ok') {
      this.news = this.trans.__('Cell %1: %2', event.cell, statusWord(event.status, this.trans));
    }
  }

  private change(number: number, change: (cell: Cell) => void): void {
    const cell = this.cells.get(number);
    if (cell) {
      change(cell);
      cell.version++;
    }
  }

  private ask(id: string, item: Approval | Host): void {
    this.questions.set(id, item);
    this.items.push(item);
  }

  private settle(id: string, change: (item: Approval | Host) => void): void {
    const item = this.questions.get(id);
    if (item) {
      this.questions.delete(id);
      change(item);
      item.version++;
      this.phase = 'working';
    }
  }

  /** Nothing runs, and nobody waits for the answers any more. */
  private rest(): void {
    this.asking = this.running = 0;
    this.phase = '';
    for (const item of this.questions.values()) {
      item.decision = 'dropped';
      item.version++;
    }
    this.questions.clear();
    this.unsay();
    for (const cell of this.cells.values()) {
      if (cell.status === 'running') {
        cell.status = 'interrupted';
        cell.version++;
      }
    }
  }

  /** The words that were shown live come again, as a record. */
  private unsay(): void {
    if (this.live) {
      this.items.splice(this.items.indexOf(this.live), 1);
      this.live = null;
    }
  }

  private save(base: Base, file: SavedFile): void {
    const last = this.items[this.items.length - 1];
    if (last?.kind === 'files' && last.turn === base.turn) {
      const at = last.files.findIndex(each => each.path === file.path);
      last.files.splice(at < 0 ? last.files.length : at, at < 0 ? 0 : 1, file);
      last.version++;
    } else {
      this.items.push({ kind: 'files', ...base, files: [file] });
    }
  }

  private answer(event: Extract<Event, { type: 'Answered' }>, base: Base): void {
    const said = this.live;
    this.live = null;
    this.rest();
    const told = {
      text: event.text, live: false, success: event.success, seconds: event.seconds ?? 0, usage: event.usage ?? null,
      claims: event.claims ?? [], check: event.check ?? null
    };
    if (said && said === this.items[this.items.length - 1]) {
      // It stays where it was written.
      Object.assign(said, told, { version: said.version + 1 });
    } else {
      this.items.splice(said ? this.items.indexOf(said) : this.items.length, said ? 1 : 0);
      this.items.push({ kind: 'answer', ...base, ...told });
    }
    this.news = event.success ? this.trans.__('Answered.') : this.trans.__('The question has ended: %1', event.text.split('\n')[0].slice(0, 200));
  }
}
