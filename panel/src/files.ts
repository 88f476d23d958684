/** What stands in the File menu: a session's notebook is exported, and the one in front is verified. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, ICommandPalette, InputDialog, MainAreaWidget, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { Assistant } from './assistant';
import { Job } from './jobs';
import { agentIcon } from './view/icons';
import { VerdictWidget } from './view/verdict';

/** Pixels of a notebook's width in which there is room for a verdict beside it. */
const ROOM = 800;

/** The commands on files. */
export namespace FileCommandIDs {
  export const exportNotebook = 'nbagent:export';
  export const verify = 'nbagent:verify';
}

/** Add the commands on files. */
export function addFileCommands(
  app: JupyterFrontEnd,
  assistant: Assistant,
  tracker: INotebookTracker,
  palette: ICommandPalette | null,
  trans: TranslationBundle
): void {
  const { commands } = app;
  commands.addCommand(FileCommandIDs.exportNotebook, {
    label: trans.__('Export Reproducible Notebook…'),
    caption: trans.__('Write the cells of the open session of nbagent with the exact packages and the hashes of the data'),
    isEnabled: () => assistant.session !== null,
    execute: () => exportNotebook(app, assistant, tracker.currentWidget, trans)
  });
  commands.addCommand(FileCommandIDs.verify, {
    label: trans.__('Verify Notebook'),
    caption: trans.__('Run the notebook again in a fresh sandbox, and compare what it shows'),
    isEnabled: () => tracker.currentWidget !== null,
    execute: () => verify(app, assistant, tracker.currentWidget!, trans)
  });
  for (const command of Object.values(FileCommandIDs)) {
    palette?.addItem({ command, category: 'nbagent' });
  }
  assistant.changed.connect(() => commands.notifyCommandChanged(FileCommandIDs.exportNotebook));
  tracker.currentChanged.connect(() => commands.notifyCommandChanged(FileCommandIDs.verify));
}

async function exportNotebook(
  app: JupyterFrontEnd,
  assistant: Assistant,
  beside: NotebookPanel | null,
  trans: TranslationBundle
): Promise<void> {
  const { id, conversation } = assistant.session!;
  const asked = conversation.items.find(item => item.kind === 'question');
  const title = conversation.about.title || (asked?.kind === 'question' ? asked.text : '') || id;
  const folder = beside ? PathExt.dirname(beside.context.path) : '';
  const { contents } = app.serviceManager;
  let text = PathExt.join(folder, `${named(title)}.ipynb`);
  let label = trans.__('The ending says the form: .ipynb, .html, .md, .py or .zip');
  for (;;) {
    const { value } = await InputDialog.getText({ title: trans.__('Export the session as'), label, text, okLabel: trans.__('Export') });
    if (!value?.trim()) {
      return;
    }
    text = withEnding(value);
    const isThere = await contents.get(text, { content: false }).then(() => true, () => false);
    if (isThere && !(await mayReplace(text, trans))) {
      continue;
    }
    const job = new Job(assistant.server, `sessions/${encodeURIComponent(id)}/export`, { path: text, force: isThere });
    const told = Notification.emit(trans.__('The session is being exported…'), 'in-progress', { autoClose: false });
    await job.run();
    Notification.dismiss(told);
    if (!job.problem) {
      const { path, notes } = job.entry!.exported!;
      Notification.success([trans.__('Exported as %1.', path), ...notes].join(' '), { autoClose: 8000 });
      await app.commands.execute('docmanager:open', { path });
      return;
    }
    // What was refused is there to be mended.
    label = `${job.problem.message} ${job.problem.mend}`.trim();
  }
}

async function mayReplace(path: string, trans: TranslationBundle): Promise<boolean> {
  const { button } = await showDialog({
    title: trans.__('%1 is there already', path),
    body: trans.__('What is in it is lost.'),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Replace it') })]
  });
  return button.accept;
}

/** A name that says no form is that of a notebook. */
function withEnding(name: string): string {
  const path = name.trim();
  return /\.[a-z][a-z0-9]{0,5}$/i.test(path) ? path : `${path}.ipynb`;
}

/** The beginning of a title as a file's name. */
function named(title: string): string {
  return title.split('\n')[0].replace(/[^\p{L}\p{N}._ -]/gu, '').trim().slice(0, 60).trim() || 'session';
}

async function verify(app: JupyterFrontEnd, assistant: Assistant, panel: NotebookPanel, trans: TranslationBundle): Promise<void> {
  const { context } = panel;
  const { path } = context;
  if (context.model.dirty) {
    const { button } = await showDialog({
      title: trans.__('%1 has unsaved changes', PathExt.basename(path)),
      body: trans.__('The file is verified, not what you see.'),
      buttons: [
        Dialog.cancelButton(),
        Dialog.createButton({ label: trans.__('Verify the file'), actions: ['file'] }),
        Dialog.okButton({ label: trans.__('Save and verify') })
      ]
    });
    if (!button.accept) {
      return;
    }
    if (!button.actions.includes('file')) {
      await context.save();
    }
  }
  const job = new Job(assistant.server, 'verify', { path });
  const widget = new MainAreaWidget({ content: new VerdictWidget(job, PathExt.basename(path), trans) });
  widget.title.label = trans.__('Verify: %1', PathExt.basename(path));
  widget.title.icon = agentIcon;
  widget.title.closable = true;
  const mode = panel.node.clientWidth > ROOM ? 'split-right' : 'tab-after';
  app.shell.add(widget, 'main', { mode, ref: panel.id });
  if (widget.isAttached) {
    app.shell.activateById(widget.id);
  } else {
    // A page of Notebook 7 has room for one document.
    void showDialog({ title: widget.title.label, body: widget.content, buttons: [Dialog.okButton({ label: trans.__('Close') })] });
  }
  void job.run();
}
