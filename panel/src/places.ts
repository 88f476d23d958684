/** Beside which notebook each question was asked, also after a refresh of the page. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IStateDB } from '@jupyterlab/statedb';

const STATE = 'nbagent:places';
/** Places that are remembered over a refresh of the page. */
const MOST_PLACES = 100;

/** Where in a notebook a question was asked. */
export interface Place {
  readonly path: string;
  /** The id of the cell that was active. */
  readonly cell: string;
  /** Its place, for when it is gone. */
  readonly index: number;
  /** Whether what the mode says is still to be done after the answer. */
  waits: boolean;
  /** Whether the answer is to have this cell as it should be. */
  readonly fixes: boolean;
  /** What became of that. */
  outcome: '' | 'accepted' | 'rejected';
  /** Whether its cells were taken out when the question was undone. */
  removed?: boolean;
}

/** The places of questions. */
export class Places {
  private captured: Place | null = null;
  private readonly places = new Map<string, Place>();
  /** Where each place is, for as long as that is open, whatever its name becomes. */
  private readonly panels = new WeakMap<Place, NotebookPanel>();

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly saved: IStateDB | null
  ) {}

  /** Where a question was asked; undefined if no notebook was in front. */
  get(session: string, turn: number): Place | undefined {
    return this.places.get(`${session}/${turn}`);
  }

  /** Note where a question that is sent off now belongs. */
  capture(wanted: Pick<Place, 'waits' | 'fixes'>): void {
    this.captured = null;
    const panel = this.tracker.currentWidget;
    if (panel?.content.model) {
      const { activeCell, activeCellIndex: index } = panel.content;
      this.captured = { path: panel.context.path, cell: activeCell?.model.id ?? '', index, ...wanted, outcome: '' };
      this.panels.set(this.captured, panel);
    }
  }

  /** The question that was sent off has this number. */
  bind(session: string, turn: number): void {
    if (this.captured) {
      this.places.set(`${session}/${turn}`, this.captured);
      this.captured = null;
      this.save();
    }
  }

  /** The notebook that the cells of an answer belong into: where it was asked, else the one in front. */
  notebook(session: string, turn: number): NotebookPanel | null {
    const place = this.get(session, turn);
    if (!place) {
      return this.tracker.currentWidget;
    }
    const known = this.panels.get(place);
    return known && !known.isDisposed ? known : (this.tracker.find(panel => panel.context.path === place.path) ?? null);
  }

  /** Remember them over a refresh of the page. */
  save(): void {
    const kept = [...this.places].slice(-MOST_PLACES).map(([name, place]) => ({
      ...place,
      name,
      path: this.panels.get(place)?.context.path ?? place.path
    }));
    void this.saved?.save(STATE, { places: kept });
  }

  /** Take those that are remembered. */
  async restore(): Promise<void> {
    const found = (await this.saved?.fetch(STATE)) as { places?: (Place & { name: string })[] } | undefined;
    for (const { name, ...place } of found?.places ?? []) {
      if (!this.places.has(name)) {
        this.places.set(name, place);
      }
    }
  }
}
