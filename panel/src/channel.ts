/**
 * The socket of a session.
 *
 * A `Channel` is told every record of its session once and in order, whatever happens to the connection: when it comes
 * back, it asks for what came since the last record it had.
 */
import { ISignal, Signal } from '@lumino/signaling';

import type { PageRecord } from './events';
import { Problem, Server, problemOf } from './request';
import type { Trans } from './translate';

const FIRST_WAIT = 250;
const LONGEST_WAIT = 8000;
/** Bytes of a message that the server takes. As MAX_MESSAGE_BYTES in nbagent/faces/lab/channel.py. */
const MOST_BYTES = 2 * 1024 * 1024;

/** How the connection of a channel is. */
export type Connection = 'connecting' | 'open' | 'lost' | 'refused' | 'closed';

/** What the server says of a session. */
export type SessionState = 'running' | 'waiting' | 'ended' | 'gone' | '';

interface Waiting {
  resolve: (value: any) => void;
  reject: (problem: Problem) => void;
}

/** The socket of one session. */
export class Channel {
  /** The number of the last record that was received. */
  last = 0;
  connection: Connection = 'connecting';
  state: SessionState = '';
  /** Whether all that happened until now has come over the present connection. */
  isWhole = false;
  /** With the state `gone` or the connection `refused`: why, and what can be done. */
  problem: Problem | null = null;

  private readonly trans: Trans;
  private socket: WebSocket | null = null;
  private number = 0;
  private waits = 0;
  private timer = 0;
  private readonly waiting = new Map<number, Waiting>();
  private unsent: string[] = [];
  private readonly _records = new Signal<this, PageRecord[]>(this);
  private readonly _words = new Signal<this, { turn: number; text: string }>(this);
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Server,
    readonly session: string
  ) {
    this.trans = server.trans;
    this.connect();
    window.addEventListener('online', this.retry);
    document.addEventListener('visibilitychange', this.retry);
  }

  /** Records that came, in order. */
  get records(): ISignal<this, PageRecord[]> {
    return this._records;
  }

  /** Words of an answer that is being written; the whole of it comes as a record. */
  get words(): ISignal<this, { turn: number; text: string }> {
    return this._words;
  }

  /** The connection or the session's state changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /**
   * Call something of the session's. A call that was not sent yet when the connection was lost is sent when it is back;
   * one that was sent fails, and what came of it is told by the records.
   */
  call<T = unknown>(name: string, given: { [name: string]: unknown } = {}): Promise<T> {
    const number = ++this.number;
    const message = JSON.stringify({ call: number, name, arguments: given });
    return new Promise<T>((resolve, reject) => {
      if (this.connection === 'closed' || this.connection === 'refused') {
        reject(this.over);
        return;
      }
      if (new Blob([message]).size > MOST_BYTES) {
        // The server would close the connection, again each time that this is sent.
        reject(new Problem(this.trans.__('This is too long to be sent.'), this.trans.__('Shorten it, or attach it as a file.')));
        return;
      }
      this.waiting.set(number, { resolve, reject });
      if (this.socket?.readyState === WebSocket.OPEN) {
        this.socket.send(message);
      } else {
        this.unsent.push(message);
      }
    });
  }

  /** Why nothing can be called any more, once that is so. */
  get over(): Problem {
    return this.problem ?? new Problem(this.trans.__('This session is not open any more.'), '', this.connection === 'closed' ? 'Left' : '');
  }

  /** Close it for good. */
  close(): void {
    this.connection = 'closed';
    window.clearTimeout(this.timer);
    window.removeEventListener('online', this.retry);
    document.removeEventListener('visibilitychange', this.retry);
    this.drop();
    this.fail(new Problem(this.trans.__('This session is not open any more.'), '', 'Left'));
    Signal.clearData(this);
  }

  /** Connect again at once, if the connection is lost. */
  readonly retry = (): void => {
    if (this.connection === 'lost' && document.visibilityState === 'visible') {
      window.clearTimeout(this.timer);
      this.connect();
    }
  };

  /** Each connection is in the place of the one before: two would both tell the words of an answer. */
  private connect(): void {
    window.clearTimeout(this.timer);
    this.drop();
    this.isWhole = false;
    const { WebSocket: Socket } = this.server.settings;
    const socket = new Socket(this.server.socketAddress(this.session, this.last));
    this.socket = socket;
    socket.onopen = () => {
      this.waits = 0;
      this.problem = null;
      for (const message of this.unsent.splice(0)) {
        socket.send(message);
      }
      this.set('open');
    };
    socket.onmessage = event => this.take(JSON.parse(event.data));
    socket.onclose = event => {
      if (this.socket === socket) {
        void this.lost(event);
      }
    };
  }

  private take(message: any): void {
    if (message.records) {
      const fresh = (message.records as PageRecord[]).filter(record => record.seq > this.last);
      if (fresh.length > 0) {
        this.last = fresh[fresh.length - 1].seq;
        this._records.emit(fresh);
      }
    } else if (message.returned !== undefined) {
      const waiting = this.waiting.get(message.returned);
      this.waiting.delete(message.returned);
      if (message.failure) {
        const { message: said, mend, kind } = message.failure;
        waiting?.reject(new Problem(said, mend, kind));
      } else {
        waiting?.resolve(message.value);
      }
    } else if (message.words) {
      this._words.emit(message.words);
    } else if (message.state) {
      this.state = message.state;
      this.isWhole = true;
      this.problem = message.message || message.mend ? new Problem(message.message ?? '', message.mend ?? '') : null;
      this._changed.emit();
    }
  }

  /** The connection is gone: find out whether to try again. */
  private async lost(event: CloseEvent): Promise<void> {
    this.drop();
    this.fail(new Problem(this.trans.__('The connection to the server was lost.'), this.trans.__('What ran goes on; the panel shows it again soon.'), 'Lost'));
    this.isWhole = false;
    this.set('lost');
    // A page isn't told why its socket was refused; a request is.
    let problem: Problem | null = null;
    try {
      await this.server.get('status');
      if (event.code === 4404 || this.waits >= 3) {
        await this.server.get(`sessions/${encodeURIComponent(this.session)}`);
      }
    } catch (error) {
      problem = problemOf(error);
    }
    if (this.connection !== 'lost' || this.socket !== null) {
      return;
    }
    this.problem = problem;
    if (problem && [401, 403, 404].includes(problem.status)) {
      this.set('refused');
      return;
    }
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.waits++);
    this.timer = window.setTimeout(() => this.connect(), wait * (0.75 + Math.random() / 2));
    this._changed.emit();
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  private fail(problem: Problem): void {
    // Those that were not sent wait on.
    const unsent = new Set(this.unsent.map(message => JSON.parse(message).call));
    for (const [number, { reject }] of this.waiting) {
      if (this.connection === 'closed' || !unsent.has(number)) {
        this.waiting.delete(number);
        reject(problem);
      }
    }
  }

  private set(connection: Connection): void {
    this.connection = connection;
    this._changed.emit();
  }
}
