/** Requests to the server, and what is said of those that fail; `channel.ts` has the socket of a session. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { type Trans, untranslated } from './translate';

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
  // Who is logged in and may not do something is told that, by nbagent's own kind of error.
  if (status === 401 || (status === 403 && !value?.kind) || (status === 200 && value === null)) {
    return new Problem(trans.__('Your login to this Jupyter server has expired.'), trans.__('Load the page again to log in.'), 'Login', 401);
  }
  const message = value?.message || trans.__('The Jupyter server answered with %1.', status);
  return new Problem(message, value?.mend ?? '', value?.kind ?? '', status);
}
