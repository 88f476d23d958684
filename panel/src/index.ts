/** Wiring: what JupyterLab finds of nbagent, and where it puts it. */
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { PathExt } from '@jupyterlab/coreutils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, type TranslationBundle, nullTranslator } from '@jupyterlab/translation';

import { Assistant, IAssistant } from './assistant';
import { notebook } from './extension';
import { findMentions } from './mentions';
import { Problem, Server } from './request';
import { sealed } from './safe';
import { agentIcon, shieldIcon } from './view/icons';
import { Panel } from './view/panel';

/** The commands of the panel. */
export namespace CommandIDs {
  export const open = 'nbagent:open';
  export const focus = 'nbagent:focus';
  export const stop = 'nbagent:stop';
  export const fresh = 'nbagent:new-session';
  export const notebook = 'nbagent:new-sandboxed-notebook';
}

const STATE = 'nbagent:panel';

const panel: JupyterFrontEndPlugin<Assistant> = {
  id: '@nbagent/panel:plugin',
  description: 'The assistant beside the notebook.',
  autoStart: true,
  provides: IAssistant,
  requires: [IRenderMimeRegistry, IEditorLanguageRegistry, IEditorServices],
  optional: [ILayoutRestorer, ICommandPalette, ILauncher, ITranslator, ISettingRegistry, IStateDB, IDefaultFileBrowser],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    languages: IEditorLanguageRegistry,
    editors: IEditorServices,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    translator: ITranslator | null,
    settings: ISettingRegistry | null,
    state: IStateDB | null,
    browser: IDefaultFileBrowser | null
  ): Assistant => {
    const trans = (translator ?? nullTranslator).load('nbagent');
    const assistant = new Assistant(new Server(app.serviceManager.serverSettings, trans));
    const { commands } = app;
    let enterSends = true;
    const widget = new Panel({
      assistant,
      trans,
      rendermime: sealed(rendermime),
      languages,
      editors,
      mentions: word => findMentions(word, assistant, app.serviceManager.contents, [folderInFront(app), browser?.model.path ?? '']),
      attach: paths => assistant.attachments.addPaths(paths, app.serviceManager),
      run: (command, given) => void commands.execute(command, given),
      enterSends: () => enterSends
    });
    app.shell.add(widget, 'right', { rank: 900, type: 'nbagent' });
    restorer?.add(widget, widget.id);

    commands.addCommand(CommandIDs.open, {
      label: trans.__('nbagent'),
      caption: trans.__('Ask about your data; the code runs in a sandbox'),
      icon: agentIcon,
      execute: () => app.shell.activateById(widget.id)
    });
    commands.addCommand(CommandIDs.focus, {
      label: trans.__('Ask nbagent'),
      execute: given => {
        // The shortcut leads there and back.
        const behind = given.back && widget.node.contains(document.activeElement) ? app.shell.currentWidget : null;
        app.shell.activateById(behind?.id ?? widget.id);
      }
    });
    commands.addCommand(CommandIDs.stop, {
      label: trans.__('Stop nbagent'),
      isEnabled: () => assistant.busy,
      execute: () => assistant.stop()
    });
    commands.addCommand(CommandIDs.fresh, {
      label: trans.__('New session of nbagent'),
      execute: () => {
        assistant.open(null);
        app.shell.activateById(widget.id);
      }
    });
    for (const command of [CommandIDs.focus, CommandIDs.stop, CommandIDs.fresh]) {
      palette?.addItem({ command, category: 'nbagent' });
    }
    leaveOut(launcher);
    launcher?.add({ command: CommandIDs.open, category: trans.__('Other'), rank: 0.1 });
    addNotebook(app, assistant, trans);
    launcher?.add({ command: CommandIDs.notebook, category: trans.__('Other'), rank: 0.2 });
    palette?.addItem({ command: CommandIDs.notebook, category: 'nbagent' });

    void settings?.load(panel.id).then(loaded => {
      const read = () => {
        const given = loaded.composite as { [name: string]: any };
        enterSends = given.enterSends !== false;
        const { model, trust, engine, approvals, allowHosts } = given;
        assistant.prefer({ model, trust, engine, approvals, allow_hosts: allowHosts?.length ? allowHosts : undefined });
      };
      read();
      loaded.changed.connect(read);
      assistant.modelChosen.connect((_, name) => void loaded.set('model', name).catch(() => undefined));
    });
    void assistant.machine.load();
    if (state) {
      void remember(app, assistant, state);
    }
    return assistant;
  }
};

/** Leave cards out of the launcher for kernels that the server says can't start; see lab/kernelspecs.py. */
function leaveOut(launcher: ILauncher | null): void {
  const model = launcher as (ILauncher & { items?(): Iterable<ILauncher.IItemOptions> }) | null;
  const items = model?.items?.bind(model);
  if (items) {
    const isAbsent = (each: ILauncher.IItemOptions) => (each.metadata?.kernel as any)?.nbagent?.absent === true;
    model!.items = () => [...items()].filter(each => !isAbsent(each))[Symbol.iterator]();
  }
}

/** The folder of the document in front; the server's root folder if none is. */
function folderInFront({ shell }: JupyterFrontEnd): string {
  const document = shell.currentWidget as { readonly context?: { readonly path: string } } | null;
  return PathExt.dirname(document?.context?.path ?? '');
}

/** A notebook whose kernel is in the sandbox that new sessions get; if none works here, the panel says why. */
function addNotebook(app: JupyterFrontEnd, assistant: Assistant, trans: TranslationBundle): void {
  const { commands } = app;
  commands.addCommand(CommandIDs.notebook, {
    label: args => (args.isPalette ? trans.__('New sandboxed notebook') : trans.__('Sandboxed notebook')),
    caption: trans.__('A notebook whose code runs in a sandbox without a network'),
    icon: shieldIcon,
    execute: async (args: { cwd?: string }) => {
      const { machine } = assistant;
      if (machine.engines.length === 0) {
        await machine.loadEngines();
      }
      const known = (await app.serviceManager.kernelspecs.ready, app.serviceManager.kernelspecs.specs?.kernelspecs) ?? {};
      const able = machine.engines.filter(each => each.starts && `nbagent-${each.name}` in known);
      const engine = able.find(each => each.chosen) ?? able[0];
      if (engine === undefined) {
        const why = machine.engines.map(each => `${each.name}: ${each.why_not} ${each.mend}`).join(' ');
        assistant.fail(new Problem(trans.__('No sandboxed kernel can start here.'), why));
        return commands.execute(CommandIDs.open);
      }
      return commands.execute('notebook:create-new', { kernelName: `nbagent-${engine.name}`, cwd: args.cwd ?? '' });
    }
  });
}

/** Open the session that was open before the page was loaded again, and note which one is open. */
async function remember(app: JupyterFrontEnd, assistant: Assistant, state: IStateDB): Promise<void> {
  await app.restored;
  const saved = (await state.fetch(STATE)) as { session?: string } | undefined;
  if (saved?.session && assistant.session === null && !assistant.busy) {
    assistant.open(saved.session);
  }
  let noted = assistant.session?.id;
  assistant.changed.connect(() => {
    const now = assistant.session?.id;
    if (now !== noted) {
      noted = now;
      void state.save(STATE, { session: now ?? '' });
    }
  });
}

export default [panel, notebook];
