/** The document of a notebook, which all who have it open share, and changes of it that are one undo each. */
import { PageConfig } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';

/** How the kernels are called whose code is under suspicion. */
export const SANDBOXED = 'nbagent-';

/** The folder into which files go that their code saves. As `RESULTS` in nbagent/core/folders.py. */
export const RESULTS = 'nbagent-output';

/** Whether code under suspicion has saved a file. */
export function isResult(path: string): boolean {
  // A path may begin with the name of a drive, such as that of shared documents.
  return `${PageConfig.getOption('serverRoot')}/${path}`.split(/[/\\:]/).some(each => each === RESULTS || each.startsWith(`${RESULTS}-Copy`));
}

type Shared = NonNullable<NotebookPanel['content']['model']>['sharedModel'] & {
  readonly awareness?: { getStates(): Map<number, { readonly user?: object }> };
};

export function sharedOf(panel: NotebookPanel): Shared | undefined {
  return panel.content.model?.sharedModel as Shared | undefined;
}

/** Change a notebook or a cell so that one undo takes exactly this back. */
export function inOneUndo<T extends { transact(change: () => void): void }>(shared: T, change: (shared: T) => void): void {
  // It is in JupyterLab's classes only, not in their interfaces.
  const { undoManager } = shared as { undoManager?: { stopCapturing(): void } | null };
  // What was typed just before and will be typed just after is undone by itself.
  undoManager?.stopCapturing();
  shared.transact(() => change(shared));
  undoManager?.stopCapturing();
}
