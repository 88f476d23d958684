/**
 * Outputs of sandboxed kernels. JupyterLab trusts what a cell shows that was run, and lets scripts in it do all that the
 * page can: also start a kernel that nothing isolates. So what a sandboxed kernel's cells show is not trusted.
 */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import { SANDBOXED } from './shared';

type CellModel = NotebookPanel['content']['widgets'][number]['model'];

/** A console's widget, whose token this extension does not require. */
interface ConsolePanel extends Widget {
  readonly console?: {
    readonly sessionContext: ISessionContext;
    readonly cells: Iterable<{ readonly model: CellModel }> & { readonly changed: ISignal<unknown, unknown> };
  };
}

/** Sees to it that nothing is trusted which sandboxed kernels show. */
export class Distrust {
  /** Whether the person trusts it all the same. */
  allowed = false;
  private readonly known = new WeakSet<object>();

  constructor(app: JupyterFrontEnd, tracker: INotebookTracker) {
    tracker.widgetAdded.connect((_, { content, sessionContext }) => {
      const look = this.guard(sessionContext, () => content.model?.cells ?? []);
      const listen = () => {
        content.model?.cells.changed.connect(look);
        look();
      };
      content.modelChanged.connect(listen);
      listen();
    });
    const consoles = () => {
      for (const { console: found } of app.shell.widgets('main') as Iterable<ConsolePanel>) {
        if (found?.cells && !this.known.has(found)) {
          this.known.add(found);
          found.cells.changed.connect(this.guard(found.sessionContext, () => [...found.cells].map(cell => cell.model)));
        }
      }
    };
    app.shell.currentChanged?.connect(consoles);
    consoles();
  }

  /** Distrust the cells of a kernel, now and whenever one becomes trusted; returns what is to be called for more cells. */
  private guard(context: ISessionContext, cells: () => Iterable<CellModel>): () => void {
    const check = (model: CellModel) => {
      const kernel = context.session?.kernel?.name ?? context.kernelPreference.name ?? '';
      if (model.trusted && model.type === 'code' && !this.allowed && kernel.startsWith(SANDBOXED)) {
        model.trusted = false;
        model.deleteMetadata('trusted'); // by which the server would sign the notebook
      }
    };
    const look = () => {
      for (const model of cells()) {
        if (!this.known.has(model)) {
          this.known.add(model);
          model.stateChanged.connect(() => check(model));
        }
        check(model);
      }
    };
    context.kernelChanged.connect(look);
    look();
    return look;
  }
}
