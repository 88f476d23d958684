/** Wiring of what nbagent does in notebooks. */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Assistant, IAssistant } from './assistant';
import { Badges } from './badges';
import { addCellCommands } from './commands';
import { Distrust } from './distrust';
import { addFileCommands } from './files';
import { tellDeaths, tellFirstStart } from './kernels';
import { askForSandboxes, serveMagic } from './magic';
import { Documents, InsertMode } from './notebook';

const ID = '@nbagent/panel:notebook';

/** The notebooks that are open: cells of answers go into them. */
export const notebook: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Puts cells of nbagent into the notebook beside which they were asked for.',
  autoStart: true,
  requires: [IAssistant, INotebookTracker],
  optional: [ITranslator, ISettingRegistry, IStateDB, ICommandPalette, IDocumentManager],
  activate: (
    app: JupyterFrontEnd,
    assistant: Assistant,
    tracker: INotebookTracker,
    translator: ITranslator | null,
    settings: ISettingRegistry | null,
    saved: IStateDB | null,
    palette: ICommandPalette | null,
    opener: IDocumentManager | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('nbagent');
    const documents = new Documents(assistant, tracker, trans, saved);
    const distrust = new Distrust(app, tracker, opener);
    new Badges(tracker, trans);
    serveMagic(tracker);
    askForSandboxes(tracker, assistant, documents, () => app.shell.activateById('nbagent-panel'), trans);
    tellFirstStart(tracker, assistant.server);
    tellDeaths(tracker, assistant.server);
    addFileCommands(app, assistant, tracker, palette, trans);
    addCellCommands(app, assistant, documents, tracker, palette, trans);
    void settings?.load(ID).then(loaded => {
      const read = () => {
        documents.set(loaded.composite.insertCells as InsertMode);
        distrust.allowed = loaded.composite.trustSandboxes as boolean;
      };
      read();
      loaded.changed.connect(read);
    });
  }
};
