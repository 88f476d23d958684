/** Files that code under suspicion has saved: JupyterLab draws some kinds, such as charts, with scripts in its page. */
import type { JupyterFrontEnd } from '@jupyterlab/application';

import { isResult } from './shared';

/** The ways to open a file in which nothing of it runs in the page; notebooks are drawn as what they are (`distrust.ts`). */
const STILL = new Set([
  'Notebook', 'Editor', 'Image', 'Image (Text)', 'AudioViewer', 'VideoViewer', 'PDF', 'HTML Viewer', 'JSON', 'JSONLines', 'CSVTable', 'TSVTable'
]);

/** Have such files opened as text that would be opened in another way. */
export function openStill({ docRegistry: registry }: JupyterFrontEnd, isAllowed: () => boolean): void {
  // The second one opens what a link in an output leads to.
  for (const choice of ['defaultWidgetFactory', 'defaultRenderedWidgetFactory'] as const) {
    const choose = registry[choice];
    registry[choice] = (path: string) => {
      const usual = choose.call(registry, path);
      const text = registry.getWidgetFactory('Editor');
      return text && isResult(path ?? '') && !isAllowed() && !STILL.has(usual?.name ?? '') ? text : usual;
    };
  }
}
