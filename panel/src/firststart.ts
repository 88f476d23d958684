/** What a first start of a sandboxed kernel waits for: the kernel's packages, for a minute or more without any sign. */
import { ISessionContext, Notification } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';

import type { Status } from './events';
import type { Server } from './request';

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
    let inVain = 0;
    while (inVain < LOOKS_IN_VAIN) {
      await new Promise(resolve => setTimeout(resolve, LOOK_MS));
      waiting.forEach(each => waits(each) || waiting.delete(each));
      if (waiting.size === 0) {
        break;
      }
      const making = (await server.get<Status>('status').catch(() => null))?.making;
      inVain = making ? 0 : inVain + 1;
      const message = making && `nbagent: ${making}`;
      if (message && !(shown && Notification.update({ id: shown, message }))) {
        shown = Notification.emit(message, 'in-progress', { autoClose: false });
      }
    }
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
