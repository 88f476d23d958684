/** Files that code under suspicion has saved: JupyterLab draws some kinds, such as charts, with scripts in its page. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IDocumentManager } from '@jupyterlab/docmanager';

import { isResult } from './shared';

/** The ways to open a file in which nothing of it runs in the page; notebooks are drawn as what they are (`distrust.ts`). */
const STILL = new Set([
  'Notebook', 'Editor', 'Image', 'Image (Text)', 'AudioViewer', 'VideoViewer', 'PDF', 'HTML Viewer', 'JSON', 'JSONLines', 'CSVTable', 'TSVTable'
]);

/** Have such files opened as text that would be opened in another way. */
export function openStill({ docRegistry: registry }: JupyterFrontEnd, documents: IDocumentManager | null, isAllowed: () => boolean): void {
  const mayAct = (path: string, name: string) => isResult(path) && !isAllowed() && !STILL.has(name);
  // The second one opens what a link in an output leads to.
  for (const choice of ['defaultWidgetFactory', 'defaultRenderedWidgetFactory'] as const) {
    const choose = registry[choice];
    registry[choice] = (path: string) => {
      const usual = choose.call(registry, path);
      const text = registry.getWidgetFactory('Editor');
      return text && mayAct(path ?? '', usual?.name ?? '') ? text : usual;
    };
  }
  if (documents) {
    // Addresses in Notebook 7 and saved layouts name what draws a file, whatever it is.
    const open = documents.open;
    documents.open = (path, name = 'default', ...more) =>
      open.call(documents, path, name !== 'default' && mayAct(path, name) ? 'Editor' : name, ...more);
  }
}
