/** What `%agent insert` asks of a notebook, over a comm of its kernel: cells below the one that it was typed in. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { PartialJSONObject } from '@lumino/coreutils';

import { inOneUndo, sharedOf } from './shared';

const TARGET = 'nbagent.cells';

/** A cell of code, as far as it says which message it waits for an answer to. */
interface Running {
  readonly outputArea?: { readonly future?: Kernel.IShellFuture | null };
}

/** A cell that is put in, with what its metadata say of how it came about. */
interface Made {
  readonly source: string;
  readonly facts: PartialJSONObject;
}

/** Have each notebook put cells in for the magic in its kernel. */
export function serveMagic(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, panel) => {
    const listen = () => {
      panel.sessionContext.session?.kernel?.registerCommTarget(TARGET, (comm, opened) => answer(tracker, comm, opened.parent_header));
    };
    panel.sessionContext.kernelChanged.connect(listen);
    listen();
  });
}

/** Say that cells can be put in, and put in those that come then; other windows, and other views, have not run the cell. */
function answer(tracker: INotebookTracker, comm: Kernel.IComm, asked: object): void {
  const id = 'msg_id' in asked ? asked.msg_id : null;
  const at = (panel: NotebookPanel) => panel.content.widgets.findIndex(cell => (cell as Running).outputArea?.future?.msg.header.msg_id === id);
  const panel = tracker.find(each => at(each) >= 0);
  if (!panel || panel.content.model?.readOnly) {
    return;
  }
  comm.onMsg = ({ content }) => {
    comm.onMsg = () => undefined; // once, and below a cell that runs
    if (at(panel) < 0) {
      return;
    }
    const cells = (content.data.cells as unknown as Made[]).map(({ source, facts }) => ({ cell_type: 'code' as const, source, metadata: { nbagent: facts }, outputs: [], execution_count: null }));
    inOneUndo(sharedOf(panel)!, shared => shared.insertCells(at(panel) + 1, cells));
  };
  comm.send({ ready: true });
}
