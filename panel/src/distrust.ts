/**
 * Outputs of sandboxed kernels. JupyterLab trusts what a cell shows that was run, and lets scripts in it do all that the
 * page can: also start a kernel that nothing isolates. So what a sandboxed kernel's cells show is not trusted. Of what is
 * not trusted, JupyterLab still draws charts whose grammar runs scripts, buttons for its commands, and pictures from
 * anywhere, by which secrets leave. So a sandboxed kernel's outputs are drawn as in the panel.
 */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { type ISessionContext, Notification } from '@jupyterlab/apputils';
import type { IMimeBundle } from '@jupyterlab/nbformat';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Kernel } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import { PLOTLY } from './plotly';
import { printStill } from './printing';
import { tame } from './replies';
import { openStill } from './results';
import { harmless, sealed } from './safe';
import { isResult, SANDBOXED } from './shared';
import type { Trans } from './translate';

/** What is left out of HTML, though a chart may need it. */
const SCRIPTED = /<(?:script|iframe|object|embed)\b/i;

/** In the metadata of a cell: its outputs are of a sandboxed kernel, whichever kernel the notebook has by now. */
const MARK = 'nbagent_sandboxed';

/** What Plotly shows once, before its first figure: a script, of which nothing is seen. */
const LOADER = /^\s*<script[^>]*>\s*window\.PlotlyConfig\b/;

/** How long the notification is open; later it is behind the bell. */
const SHOWN_MS = 20_000;

type CellModel = NotebookPanel['content']['widgets'][number]['model'];

/** A console's widget, whose token this extension does not require. */
interface ConsolePanel extends Widget {
  readonly console?: {
    readonly sessionContext: ISessionContext;
    readonly rendermime: IRenderMimeRegistry;
    readonly cells: Iterable<{ readonly model: CellModel }> & { readonly changed: ISignal<unknown, unknown> };
  };
}

/** The parts of a registry by which it draws. */
type Drawing = Pick<IRenderMimeRegistry, 'createRenderer' | 'markdownParser' | 'preferredMimeType' | 'sanitizer'>;

/** What is known of the registry of a notebook or a console. */
interface Registry {
  readonly plain: Drawing;
  readonly strict: Drawing;
  /** Whether its kernel is under suspicion now. */
  isUnder: () => boolean;
  /** Whether it has been since this was opened. */
  wasUnder: () => boolean;
  /** Whether its notebook itself was saved by code under suspicion. */
  isResult: () => boolean;
}

/** Sees to it that nothing is trusted which sandboxed kernels show, and says so once where that is seen. */
export class Distrust {
  /** Whether the person trusts it all the same. */
  allowed = false;
  private readonly told = new Set<boolean>();
  private readonly known = new WeakSet<object>();
  private readonly registries = new WeakMap<object, Registry>();

  constructor(
    private readonly app: JupyterFrontEnd, tracker: INotebookTracker, factory: NotebookPanel.IContentFactory, private readonly trans: Trans
  ) {
    // Browsers look up the names in links before anybody follows one, which could tell a secret to a name server.
    document.head.insertAdjacentHTML('beforeend', '<meta http-equiv="x-dns-prefetch-control" content="off">');
    openStill(app, () => this.allowed);
    const { kernels } = app.serviceManager;
    const { connectTo } = kernels;
    kernels.connectTo = options => this.muzzle(connectTo.call(kernels, options));
    const { createCodeCell, createMarkdownCell } = factory;
    factory.createCodeCell = options =>
      createCodeCell.call(factory, { ...options, rendermime: this.ofCell(options.rendermime, options.model) });
    factory.createMarkdownCell = options =>
      createMarkdownCell.call(factory, { ...options, rendermime: this.ofText(options.rendermime) });
    const add = (panel: NotebookPanel) => {
      const { content, sessionContext } = panel;
      const saved = () => content.model?.defaultKernelName; // while it is being opened
      const registry = this.registry(content.rendermime);
      registry.isResult = () => !this.allowed && isResult(panel.context.path);
      const look = this.guard(sessionContext, content.rendermime, () => content.model?.cells ?? [], saved);
      const listen = () => {
        content.model?.cells.changed.connect(look);
        look();
      };
      content.modelChanged.connect(listen);
      listen();
      const isMarked = () => !this.allowed && [...(content.model?.cells ?? [])].some(model => model.getMetadata(MARK) === true);
      const isUnder = () => isMarked() || registry.wasUnder() || registry.isResult();
      printStill(panel, isUnder);
      withoutWidgets(panel, isUnder);
    };
    tracker.widgetAdded.connect((_, panel) => add(panel));
    tracker.forEach(add);
    const consoles = () => {
      const areas = ['main', 'down', 'left', 'right']; // a person's settings say where consoles are
      for (const { console: found } of areas.flatMap(area => [...app.shell.widgets(area)]) as Iterable<ConsolePanel>) {
        if (found?.cells && !this.known.has(found)) {
          this.known.add(found);
          found.cells.changed.connect(this.guard(found.sessionContext, found.rendermime, () => [...found.cells].map(cell => cell.model)));
        }
      }
    };
    app.shell.currentChanged?.connect(consoles);
    (app.shell as { readonly layoutModified?: ISignal<unknown, unknown> }).layoutModified?.connect(consoles); // one that was opened behind others
    consoles();
  }

  /** Whether a kernel is sandboxed; a person may have made one of another name that is, too. */
  private isSandboxed(name: string): boolean {
    const facts = this.app.serviceManager.kernelspecs.specs?.kernelspecs[name]?.metadata?.kernel_provisioner as { provisioner_name?: unknown } | undefined;
    return [name, facts?.provisioner_name].some(each => typeof each === 'string' && each.startsWith(SANDBOXED));
  }

  /** Distrust the cells of a kernel, now and whenever one becomes trusted; returns what is to be called for more cells. */
  private guard(
    context: ISessionContext, rendermime: IRenderMimeRegistry, cells: () => Iterable<CellModel>, saved?: () => string | undefined
  ): () => void {
    const hasSandbox = () => this.isSandboxed(context.session?.kernel?.name || context.kernelPreference.name || saved?.() || '');
    const isUnder = () => !this.allowed && hasSandbox();
    const check = (model: CellModel) => {
      if (model.type !== 'code' || !model.trusted) {
        return;
      }
      if (!hasSandbox()) {
        model.deleteMetadata(MARK); // it is run by another kernel, or a person trusts it
        return;
      }
      model.setMetadata(MARK, true);
      if (!this.allowed) {
        model.trusted = false;
        model.deleteMetadata('trusted'); // by which the server would sign the notebook
      }
    };
    const registry = this.registry(rendermime);
    let has = false;
    let had = false;
    const look = () => {
      const left = has;
      has = hasSandbox();
      had ||= has;
      for (const model of cells()) {
        if (!this.known.has(model)) {
          this.known.add(model);
          model.stateChanged.connect(() => check(model));
        }
        // It may have run before there were such marks; what code has saved is copied, and saved elsewhere.
        if (((left && !has) || registry.isResult()) && model.type === 'code' && !model.trusted) {
          model.setMetadata(MARK, true);
        }
        check(model);
      }
    };
    const arrived = () => {
      const kernel = context.session?.kernel;
      if (kernel) {
        this.muzzle(kernel);
      }
      look();
    };
    registry.isUnder = isUnder;
    if (!this.known.has(rendermime)) {
      this.known.add(rendermime);
      // The log of a notebook has its outputs for longer than the notebook has the kernel.
      registry.wasUnder = () => !this.allowed && (had || hasSandbox());
      seal(rendermime, registry);
    }
    context.kernelChanged.connect(arrived);
    arrived();
    return look;
  }

  /** Have a connection to a kernel pass on nothing by which the kernel could act on the page beside what its cells show. */
  private muzzle(kernel: Kernel.IKernelConnection): Kernel.IKernelConnection {
    if (!this.known.has(kernel)) {
      this.known.add(kernel);
      const isIt = () => !this.allowed && this.isSandboxed(kernel.name);
      // The models of widgets can run scripts before anything is shown.
      const { clone, handleComms } = kernel;
      Object.defineProperty(kernel, 'handleComms', { get: () => handleComms && !isIt() });
      kernel.clone = options => this.muzzle(clone.call(kernel, options));
      kernel.anyMessage.connect((_, { msg, direction }) => {
        if (direction === 'recv' && isIt()) {
          tame(msg);
        }
      });
    }
    return kernel;
  }

  /** The registry of a cell: that of its notebook, which draws outputs of a sandboxed kernel as such after another one has come, too. */
  private ofCell(rendermime: IRenderMimeRegistry, model: CellModel): IRenderMimeRegistry {
    const registry = this.registry(rendermime);
    const isOfSandbox = () => model.getMetadata(MARK) === true || (registry.isResult() && !model.trusted);
    const isUnder = () => registry.isUnder() || (!this.allowed && isOfSandbox());
    return new Proxy(rendermime, {
      get: (_, name) => {
        const drawing = isUnder() ? registry.strict : registry.plain;
        const found = Reflect.get(name in drawing ? drawing : rendermime, name);
        return typeof found === 'function' ? found.bind(rendermime) : found;
      }
    });
  }

  /** The registry of a cell of Markdown: of a notebook that code under suspicion has saved, its words are no person's. */
  private ofText(rendermime: IRenderMimeRegistry): IRenderMimeRegistry {
    return this.registry(rendermime).isResult() ? sealed(rendermime) : rendermime;
  }

  private registry(rendermime: IRenderMimeRegistry): Registry {
    let found = this.registries.get(rendermime);
    if (found === undefined) {
      const { createRenderer, preferredMimeType, sanitizer, markdownParser } = rendermime;
      const plain = {
        createRenderer: createRenderer.bind(rendermime),
        preferredMimeType: preferredMimeType.bind(rendermime),
        sanitizer,
        markdownParser
      };
      const no = () => false;
      found = { plain, strict: strictly(rendermime, plain, isPlotly => this.tell(isPlotly)), isUnder: no, wasUnder: no, isResult: no };
      this.registries.set(rendermime, found);
    }
    return found;
  }

  private tell(isPlotly: boolean): void {
    if (this.told.has(isPlotly)) {
      return;
    }
    const { app, trans } = this;
    this.told.add(isPlotly);
    // JupyterLab cuts what is longer than 140 characters, and what stays open would cover the panel's Stop.
    if (isPlotly) {
      Notification.info(trans.__('Figures of Plotly are drawn if it is beside JupyterLab: pip install plotly there, and start JupyterLab again.'), { autoClose: SHOWN_MS });
      return;
    }
    const told = trans.__('A widget or chart is not drawn: its scripts could do all that you can. To trust them: "Trust what sandboxed kernels show" in Settings.');
    const open = () => void app.commands.execute('settingeditor:open', { query: trans.__('nbagent in notebooks') });
    Notification.info(told, { autoClose: SHOWN_MS, actions: [{ label: trans.__('Settings'), callback: open }] });
  }
}

/** Draw outputs without what loads or runs, whatever JupyterLab trusts; and tell where one looks otherwise for that. */
function strictly(rendermime: IRenderMimeRegistry, plain: Drawing, tell: (isPlotly: boolean) => void): Drawing {
  const strict = sealed(rendermime);
  const shown = (data: unknown) => harmless({ output_type: 'display_data', data: data as IMimeBundle }).data as IMimeBundle;
  return {
    sanitizer: strict.sanitizer,
    markdownParser: strict.markdownParser,
    preferredMimeType: bundle => {
      const best = plain.preferredMimeType(bundle, 'any');
      const drawn = strict.preferredMimeType(shown(bundle));
      const html = drawn === 'text/html' ? String(bundle[drawn]) : '';
      if (PLOTLY in bundle && !rendermime.mimeTypes.includes(PLOTLY)) {
        tell(true);
      } else if (best !== drawn || (SCRIPTED.test(html) && !LOADER.test(html))) {
        tell(false);
      }
      return drawn;
    },
    createRenderer: mime => {
      const renderer = strict.createRenderer(mime);
      const { renderModel } = renderer;
      renderer.renderModel = model =>
        renderModel.call(renderer, Object.create(model, { trusted: { value: false }, data: { value: shown(model.data) } }) as IRenderMime.IMimeModel);
      return renderer;
    }
  };
}

/** Have a registry draw so as long as its kernel is under suspicion, or was. */
function seal(rendermime: IRenderMimeRegistry, registry: Registry): void {
  const { plain, strict } = registry;
  const { clone } = rendermime;
  const { sanitizer, markdownParser } = plain;
  const drawing = () => (registry.wasUnder() ? strict : plain);
  Object.defineProperty(rendermime, 'sanitizer', { get: () => drawing().sanitizer });
  Object.defineProperty(rendermime, 'markdownParser', { get: () => drawing().markdownParser });
  // The person's own cells of Markdown have clones.
  rendermime.clone = options => clone.call(rendermime, { sanitizer, markdownParser: markdownParser ?? undefined, ...options });
  rendermime.preferredMimeType = (bundle, safe) => drawing().preferredMimeType(bundle, safe);
  rendermime.createRenderer = mime => drawing().createRenderer(mime);
}

/** Have nobody read the widgets that a notebook holds as long as it is under suspicion: their models run once it is open, trusted or not. */
function withoutWidgets({ context }: NotebookPanel, isUnder: () => boolean): void {
  const { model } = context;
  const { getMetadata } = model;
  model.getMetadata = name => (name === 'widgets' && isUnder() ? undefined : getMetadata.call(model, name));
}
