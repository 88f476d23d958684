/**
 * What sandboxed kernels show is harmless when it comes from the server. Here is a second wall: JupyterLab trusts what a
 * cell shows that was run, and draws the HTML of what it trusts as it is.
 */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import { openStill } from './results';
import { SANDBOXED } from './shared';

type CellModel = NotebookPanel['content']['widgets'][number]['model'];

/** Sees to it that no cell of a notebook with a sandboxed kernel is trusted. */
export class Distrust {
  /** Whether the person trusts them all the same; the server reads the same setting. */
  allowed = false;
  private readonly known = new WeakSet<CellModel>();

  constructor(app: JupyterFrontEnd, tracker: INotebookTracker) {
    // Browsers look up the names in links before anybody follows one, which could tell a secret to a name server.
    document.head.insertAdjacentHTML('beforeend', '<meta http-equiv="x-dns-prefetch-control" content="off">');
    openStill(app, () => this.allowed);
    tracker.widgetAdded.connect((_, panel) => this.watch(panel));
    tracker.forEach(panel => this.watch(panel));
  }

  private watch({ content, sessionContext }: NotebookPanel): void {
    const check = (model: CellModel) => {
      if (!this.allowed && model.type === 'code' && model.trusted && sessionContext.session?.kernel?.name.startsWith(SANDBOXED)) {
        model.trusted = false;
        model.deleteMetadata('trusted'); // by which the server would sign the notebook
      }
    };
    const look = () => {
      for (const model of content.model?.cells ?? []) {
        if (!this.known.has(model)) {
          this.known.add(model);
          model.stateChanged.connect(() => check(model));
        }
        check(model);
      }
    };
    const listen = () => {
      content.model?.cells.changed.connect(look);
      look();
    };
    content.modelChanged.connect(listen);
    sessionContext.kernelChanged.connect(look);
    listen();
  }
}
