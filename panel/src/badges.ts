/** Which cells of a notebook nbagent has written, and which of these were edited since. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { PanelLayout } from '@lumino/widgets';
import { Widget } from '@lumino/widgets';

import { sha256 } from './digest';
import type { Provenance } from './provenance';

type CellWidget = NotebookPanel['content']['widgets'][number];

/** Puts a line above each such cell, and keeps it true. */
export class Badges {
  private readonly badges = new WeakMap<CellWidget, Badge>();
  private readonly frames = new WeakMap<NotebookPanel, number>();

  constructor(
    tracker: INotebookTracker,
    private readonly trans: TranslationBundle
  ) {
    tracker.widgetAdded.connect((_, panel) => this.watch(panel));
    tracker.forEach(panel => this.watch(panel));
  }

  private watch(panel: NotebookPanel): void {
    void panel.context.ready.then(() => {
      panel.content.model?.contentChanged.connect(() => this.soon(panel));
      panel.content.modelChanged.connect(() => this.soon(panel));
      this.soon(panel);
    });
  }

  /** Once a frame, however much is typed. */
  private soon(panel: NotebookPanel): void {
    if (!this.frames.has(panel)) {
      const draw = () => {
        this.frames.delete(panel);
        if (!panel.isDisposed) {
          panel.content.widgets.forEach(cell => this.draw(cell));
        }
      };
      this.frames.set(panel, requestAnimationFrame(draw));
    }
  }

  private draw(cell: CellWidget): void {
    const facts = cell.model.getMetadata('nbagent') as (Provenance & { sha256?: string }) | undefined;
    const digest = facts?.source_sha256 ?? facts?.sha256;
    const known = this.badges.get(cell);
    if (facts?.role !== 'cell' || typeof digest !== 'string') {
      known?.dispose();
      this.badges.delete(cell);
      return;
    }
    const badge = known ?? new Badge(this.trans);
    if (!known) {
      this.badges.set(cell, badge);
      (cell.layout as PanelLayout).insertWidget(0, badge);
    }
    badge.show_(facts, digest, cell.model.sharedModel.getSource());
  }
}

/** The line above a cell. */
class Badge extends Widget {
  private readonly about = document.createElement('span');
  private readonly edited = document.createElement('strong');
  private source: string | null = null;

  constructor(private readonly trans: TranslationBundle) {
    super();
    this.addClass('nba-Badge');
    this.node.setAttribute('role', 'note');
    this.edited.textContent = trans.__('edited since');
    this.node.append(this.about, this.edited);
  }

  /** Say what is known of the cell, whose metadata anybody may have written. */
  show_(facts: Partial<Provenance>, digest: string, source: string): void {
    if (source === this.source) {
      return;
    }
    this.source = source;
    const { trans } = this;
    const words = [trans.__('nbagent'), trans.__('question %1, cell %2', Number(facts.turn), Number(facts.cell))];
    if (facts.engine) {
      words.push(`${String(facts.engine)}, ${String(facts.trust)}`.slice(0, 60));
    }
    this.about.textContent = words.join(' · ');
    this.node.title = trans.__('By %1, at %2', String(facts.model ?? '?').slice(0, 120), String(facts.time ?? '?').slice(0, 40));
    this.edited.hidden = sha256(source) === digest;
  }
}
