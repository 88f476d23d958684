/**
 * The one file that talks to the server: requests, and the socket of a session.
 *
 * A `Channel` is told every record of its session once and in order, whatever happens to the connection: when it comes
 * back, it asks for what came since the last record it had.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

import { PROTOCOL, type PageRecord } from './events';
import { type Trans, untranslated } from './translate';

export { PROTOCOL };

const FIRST_WAIT = 250;
const LONGEST_WAIT = 8000;

/** An error as the server tells it: what happened, and what can be done about it. */
export class Problem extends Error {
  constructor(
    message: string,
    readonly mend = '',
    readonly kind = '',
    readonly status = 0
  ) {
    super(message);
  }
}

/** Whatever was thrown, as a problem that can be shown. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) {
    return error;
  }
  return new Problem(error instanceof Error ? error.message : String(error));
}

/** The requests of the panel, below `nbagent/api/` of the Jupyter server. */
export class Server {
  constructor(
    readonly settings: ServerConnection.ISettings,
    readonly trans: Trans = untranslated
  ) {}

  /** GET a JSON value. */
  get<T>(path: string, query: { [name: string]: string | number } = {}): Promise<T> {
    return this.send<T>('GET', path + URLExt.objectToQueryString(query));
  }

  /** Send JSON with another method. */
  send<T>(method: string, path: string, body?: unknown): Promise<T> {
    return this.request<T>(path, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body)
    });
  }

  /** Send the bytes of a file. */
  upload<T>(path: string, file: Blob, signal?: AbortSignal): Promise<T> {
    return this.request<T>(path, { method: 'POST', body: file, signal });
  }

  /** GET the bytes of a file. */
  async bytes(path: string): Promise<ArrayBuffer> {
    const response = await this.response(path, { method: 'GET' });
    if (!response.ok) {
      throw refusal(response.status, null, path, this.trans);
    }
    return response.arrayBuffer();
  }

  /** The address of a file, for a link that downloads it. */
  address(path: string): string {
    const { baseUrl, appendToken, token } = this.settings;
    const address = URLExt.join(baseUrl, 'nbagent', 'api', path);
    return appendToken && token ? `${address}?token=${encodeURIComponent(token)}` : address;
  }

  /** Open the socket of a session. */
  channel(session: string, since = 0): Channel {
    return new Channel(this, session, since);
  }

  /** The address of a session's socket. */
  socketAddress(session: string, since: number): string {
    const { wsUrl, appendToken, token } = this.settings;
    const path = URLExt.join(wsUrl, 'nbagent', 'api', 'sessions', encodeURIComponent(session), 'channel');
    const login = appendToken && token ? `&token=${encodeURIComponent(token)}` : '';
    return `${path}?since=${since}${login}`;
  }

  private async response(path: string, init: RequestInit): Promise<Response> {
    const [place, query = ''] = path.split('?', 2);
    const address = URLExt.join(this.settings.baseUrl, 'nbagent', 'api', place) + (query && `?${query}`);
    try {
      return await ServerConnection.makeRequest(address, init, this.settings);
    } catch (error) {
      throw new Problem(
        this.trans.__('The Jupyter server does not answer.'),
        this.trans.__('The panel goes on by itself once it does.'),
        (error as Error).name,
        0
      );
    }
  }

  private async request<T>(path: string, init: RequestInit): Promise<T> {
    const response = await this.response(path, init);
    const text = await response.text();
    let value: any = null;
    try {
      value = text ? JSON.parse(text) : null;
    } catch {
      // A login page, or a proxy's own words.
    }
    if (response.ok && (value !== null || !text)) {
      return value as T;
    }
    throw refusal(response.status, value, path, this.trans);
  }
}

function refusal(status: number, value: any, path: string, trans: Trans): Problem {
  if (status === 404 && path.startsWith('status')) {
    return new Problem(
      trans.__('This Jupyter server has the panel of nbagent, but not its server part.'),
      trans.__('Install nbagent in the environment that JupyterLab runs in, and start JupyterLab again.'),
      'Missing',
      404
    );
  }
  if (status === 401 || status === 403 || (status === 200 && value === null)) {
    return new Problem(trans.__('Your login to this Jupyter server has expired.'), trans.__('Load the page again to log in.'), 'Login', 401);
  }
  const message = value?.message || trans.__('The Jupyter server answered with %1.', status);
  return new Problem(message, value?.mend ?? '', value?.kind ?? '', status);
}

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
  last: number;
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
    readonly session: string,
    since: number
  ) {
    this.last = since;
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
    if (problem?.status === 401 || problem?.status === 404) {
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
