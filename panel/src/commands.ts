/** What a person can have done with a cell: it is asked about, explained, or its error fixed. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { IOutput } from '@jupyterlab/nbformat';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { exceptionsIcon, infoIcon } from '@jupyterlab/ui-components';

import type { Assistant } from './assistant';
import type { Documents } from './notebook';
import { AskedCell, about, explainQuestion, failed, fixQuestion } from './question';
import { Problem } from './request';
import { agentIcon } from './view/icons';

/** The commands on cells. */
export namespace CellCommandIDs {
  export const fix = 'nbagent:fix-cell';
  export const explain = 'nbagent:explain-cell';
  export const ask = 'nbagent:ask-about-cell';
}

/** Add the commands on the active cell. */
export function addCellCommands(
  { commands, shell }: JupyterFrontEnd,
  assistant: Assistant,
  documents: Documents,
  tracker: INotebookTracker,
  palette: ICommandPalette | null,
  trans: TranslationBundle
): void {
  const isCode = () => tracker.activeCell?.model.type === 'code';
  const hasFailed = () => isCode() && failed(outputs(tracker));
  const send = (question: string, fixes: boolean) => {
    shell.activateById('nbagent-panel');
    if (assistant.busy) {
      assistant.fail(new Problem(trans.__('A question is being answered.'), trans.__('Wait for its end, or stop it.')));
      return;
    }
    documents.fixes = fixes;
    void assistant.ask(question).finally(() => (documents.fixes = false));
  };
  commands.addCommand(CellCommandIDs.fix, {
    label: trans.__('Fix This Error'),
    caption: trans.__('Ask nbagent for a cell without this error; you see the change before it is made'),
    icon: exceptionsIcon,
    isVisible: hasFailed,
    isEnabled: hasFailed,
    execute: () => send(fixQuestion(active(tracker)), true)
  });
  commands.addCommand(CellCommandIDs.explain, {
    label: trans.__('Explain This Cell'),
    caption: trans.__('Have nbagent explain the cell and what it shows'),
    icon: infoIcon,
    // JupyterLab hides a toolbar that is wider than half of its cell.
    isVisible: given => isCode() && !(given.toolbar && hasFailed()),
    isEnabled: isCode,
    execute: () => send(explainQuestion(active(tracker)), false)
  });
  commands.addCommand(CellCommandIDs.ask, {
    label: trans.__('Ask About This Cell'),
    caption: trans.__('Ask nbagent a question of your own about the cell'),
    icon: agentIcon,
    isVisible: isCode,
    isEnabled: isCode,
    execute: () => {
      assistant.discuss({ label: trans.__('Cell %1 of %2', ...placeOf(tracker)), text: about(active(tracker)) });
      shell.activateById('nbagent-panel');
    }
  });
  const look = () => Object.values(CellCommandIDs).forEach(id => commands.notifyCommandChanged(id));
  tracker.activeCellChanged.connect(look);
  NotebookActions.executed.connect(look);
  for (const command of Object.values(CellCommandIDs)) {
    palette?.addItem({ command, category: 'nbagent' });
  }
}

/** The number of the active cell, and the name of its notebook. */
function placeOf({ currentWidget }: INotebookTracker): [number, string] {
  return [currentWidget!.content.activeCellIndex + 1, currentWidget!.context.path.split('/').pop()!.replace(/\s+/g, ' ')];
}

function active(tracker: INotebookTracker): AskedCell {
  const [number, name] = placeOf(tracker);
  return { place: `cell ${number} of ${name}`, source: tracker.activeCell!.model.sharedModel.getSource(), outputs: outputs(tracker) };
}

function outputs(tracker: INotebookTracker): IOutput[] {
  return (tracker.activeCell?.model.toJSON() as { outputs?: IOutput[] } | undefined)?.outputs ?? [];
}
