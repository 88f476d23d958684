/** What the server says of itself: whether it can be asked, what new sessions begin with, its engines and its models. */
import { ISignal, Signal } from '@lumino/signaling';

import { PROTOCOL, type EngineEntry, type EngineList, type ModelList, type Status } from './events';
import { Problem, Server, problemOf } from './request';

/** The server, as far as it has told. */
export class Machine {
  status: Status | null = null;
  /** The engines; empty until the server has tried them. */
  engines: readonly EngineEntry[] = [];
  /** The model that is meant if none is named; null if there is none, undefined until the server has looked. */
  defaultModel: string | null | undefined = undefined;
  /** How many models can be chosen. */
  modelCount = 0;
  /** Why nothing can be done at all; null if something can. */
  problem: Problem | null = null;

  private readonly _changed = new Signal<this, void>(this);

  constructor(private readonly server: Server) {}

  /** Something of it was told. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Ask the server what it is. */
  async load(): Promise<void> {
    const { trans } = this.server;
    try {
      const status = await this.server.get<Status>('status');
      this.status = status;
      this.problem = null;
      if (status.protocol !== PROTOCOL) {
        const older =
          status.protocol < PROTOCOL
            ? trans.__('The server part of nbagent is older than this panel.')
            : trans.__('This panel is older than its server part.');
        const mend = trans.__('Install one nbagent only, start JupyterLab again, and load this page again.');
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

  /** Models whose names have these letters. */
  models(search: string, limit: number): Promise<ModelList> {
    return this.server.get<ModelList>('models', { search, limit });
  }

  /** Why no question can be answered where there is no model. */
  noModel(): Problem {
    const { trans } = this.server;
    const mend = this.modelCount
      ? trans.__('Choose one below the question.')
      : trans.__('Start JupyterLab with a key such as OPENAI_API_KEY in its environment, or start Ollama; then choose a model below. The demo needs none.');
    return new Problem(trans.__('There is no model yet that could answer.'), mend);
  }

  /** Ask which model is meant if none is named. */
  async loadDefaultModel(): Promise<void> {
    const told = await this.models('', 1).catch(() => null);
    // Where the server can't look, as with wrong settings, nothing is waited for; the next question has it look again.
    this.defaultModel = told?.default ?? null;
    this.modelCount = told?.total ?? 0;
    this._changed.emit();
  }
}
