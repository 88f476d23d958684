/** What JupyterLab doesn't tell of the kernels of its notebooks: what a first start waits for, and why one has died. */
import { ISessionContext, Notification } from '@jupyterlab/apputils';
import type { IOutput } from '@jupyterlab/nbformat';
import { type INotebookTracker, type Notebook, NotebookActions } from '@jupyterlab/notebook';

import type { Loss, Status } from './events';
import type { Server } from './request';
import { SANDBOXED } from './shared';

const LOOK_MS = 1500;
/** Looks that see nothing made, after which a notebook waits for something else: a person's choice, or a busy machine. */
const LOOKS_IN_VAIN = 4;

/** While a notebook waits for its kernel, tell what the server makes for it, and how far that is. */
export function tellFirstStart(tracker: INotebookTracker, server: Server): void {
  const waiting = new Set<ISessionContext>();
  let telling = false;
  const waits = (context: ISessionContext) =>
    !context.isDisposed && ['initializing', 'starting'].includes(context.kernelDisplayStatus);

  const tell = async () => {
    telling = true;
    let shown = '';
    let hidden = false;
    let inVain = 0;
    const clicked = ({ target }: Event) => {
      hidden ||= (target as Element).closest('button')?.closest('.Toastify__toast')?.id === shown;
    };
    document.addEventListener('click', clicked, true);
    while (inVain < LOOKS_IN_VAIN) {
      await new Promise(resolve => setTimeout(resolve, LOOK_MS));
      waiting.forEach(each => waits(each) || waiting.delete(each));
      if (waiting.size === 0) {
        break;
      }
      const making = (await server.get<Status>('status').catch(() => null))?.making;
      inVain = making ? 0 : inVain + 1;
      const message = making && `nbagent: ${making}`;
      if (message && shown) {
        // One that a person has hidden is shown again by an update, unless it closes at once.
        Notification.update({ id: shown, message, autoClose: hidden ? 0 : false });
      } else if (message) {
        shown = Notification.emit(message, 'in-progress', { autoClose: false });
      }
    }
    document.removeEventListener('click', clicked, true);
    if (shown) {
      Notification.dismiss(shown);
    }
    telling = false;
  };

  const watch = (context: ISessionContext) => {
    if (waits(context)) {
      waiting.add(context);
      if (!telling) {
        void tell();
      }
    }
  };

  tracker.widgetAdded.connect((_, { sessionContext }) => {
    sessionContext.statusChanged.connect(watch);
    watch(sessionContext);
  });
}

type Scheduled = Notebook['widgets'][number];
type Code = Scheduled & { readonly model: { readonly outputs: { add(output: IOutput): number } } };

/** When a sandboxed kernel dies and is restarted, have the cell that ran in it say why, as it would in a session. */
export function tellDeaths(tracker: INotebookTracker, server: Server): void {
  const scheduled = new Set<Scheduled>();
  NotebookActions.executionScheduled.connect((_, { cell }) => void scheduled.add(cell));
  NotebookActions.executed.connect((_, { cell }) => void scheduled.delete(cell));

  const tell = async (kernel: string, cell: Scheduled) => {
    const told = await server.send<Loss>('POST', `kernels/${encodeURIComponent(kernel)}/loss`, {}).catch(() => null);
    if (told?.loss && !cell.isDisposed) {
      const text = `${server.trans.__('nbagent: the kernel %1', told.loss)}\n`;
      (cell as Code).model.outputs.add({ output_type: 'stream', name: 'stderr', text });
    }
  };

  tracker.widgetAdded.connect((_, { content, sessionContext }) => {
    sessionContext.statusChanged.connect((_, status) => {
      const kernel = sessionContext.session?.kernel;
      if (status !== 'autorestarting' || !kernel?.name.startsWith(SANDBOXED)) {
        return;
      }
      const lost = [...scheduled].filter(each => content.widgets.includes(each));
      lost.forEach(each => scheduled.delete(each));
      if (lost.length) {
        void tell(kernel.id, lost[0]); // those behind it had not begun
      }
    });
  });
}
