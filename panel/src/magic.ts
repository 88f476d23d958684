/** What `%agent` has the panel do: put cells below the one that it was typed in, or ask for a kernel that reaches no model. */
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { PartialJSONObject } from '@lumino/coreutils';

import type { Assistant } from './assistant';
import type { Documents } from './notebook';
import { inOneUndo, sharedOf } from './shared';
import type { Trans } from './translate';

const TARGET = 'nbagent.cells';
/** Without a question or with one that has variables: in the kernel of the notebook, they are there. */
const CALL = /^%{1,2}agent(?:[ \t]+-[io][ \t]+\S+)*(?:[ \t]+(?!-)(.*))?$/;
const SUBCOMMAND = /^(?:(?:status|stop|reset|history|usage|verify|files|undo|fix|explain|help)|(?:export|model|trust|approve|install|insert)(?:\s+(?:\S+|"[^"]*"|'[^']*'))?)$/;

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

/** The question of a cell with `%agent` or `%%agent`; empty if it has none, or options that a new session would need. */
export function questionOf(source: string): string {
  const [first, ...below] = source.trim().split('\n');
  const found = CALL.exec(first);
  const isMany = first.startsWith('%%');
  if (!found || (below.length > 0 && !isMany)) {
    return '';
  }
  const question = [found[1] ?? '', ...below].join('\n').trim();
  return isMany || !SUBCOMMAND.test(question) ? question : '';
}

/**
 * Ask in the panel what a person's cell asks in a sandboxed kernel, from which no model is reached: the assistant's cells
 * run in that kernel. Only a cell that was run asks, never what its code says.
 */
export function askForSandboxes(tracker: INotebookTracker, assistant: Assistant, documents: Documents, show: () => void, trans: Trans): void {
  const sessions = new Map<string, string>(); // by their kernels
  NotebookActions.executed.connect((_, { notebook, cell }) => {
    const { kernel } = documents;
    const question = questionOf(cell.model.sharedModel.getSource());
    if (!question || !kernel?.isSandboxed || tracker.currentWidget?.content !== notebook) {
      return;
    }
    if (assistant.busy) {
      Notification.warning(trans.__('nbagent answers another question: run the cell again after it.'), { autoClose: 10_000 });
      return;
    }
    const wasShared = documents.isShared;
    show();
    assistant.open(sessions.get(kernel.id) ?? null);
    documents.share(true);
    void assistant.ask(question).then(isAsked => {
      documents.share(wasShared);
      if (isAsked && assistant.session) {
        sessions.set(kernel.id, assistant.session.id);
      }
    });
  });
}
