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
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import { PLOTLY } from './plotly';
import { harmless, sealed } from './safe';
import { SANDBOXED } from './shared';
import type { Trans } from './translate';

/** What is left out of HTML, though a chart may need it. */
const SCRIPTED = /<(?:script|iframe|object|embed)\b/i;

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

/** Sees to it that nothing is trusted which sandboxed kernels show, and says so once where that is seen. */
export class Distrust {
  /** Whether the person trusts it all the same. */
  allowed = false;
  private readonly told = new Set<boolean>();
  private readonly known = new WeakSet<object>();

  constructor(private readonly app: JupyterFrontEnd, tracker: INotebookTracker, private readonly trans: Trans) {
    tracker.widgetAdded.connect((_, { content, sessionContext }) => {
      const saved = () => content.model?.defaultKernelName; // while it is being opened
      const look = this.guard(sessionContext, content.rendermime, () => content.model?.cells ?? [], saved);
      const listen = () => {
        content.model?.cells.changed.connect(look);
        look();
      };
      content.modelChanged.connect(listen);
      listen();
    });
    const consoles = () => {
      for (const { console: found } of app.shell.widgets('main') as Iterable<ConsolePanel>) {
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

  /** Whether what a kernel shows is not trusted; a person may have made a kernel of another name that is sandboxed, too. */
  private suspects(name: string): boolean {
    const facts = this.app.serviceManager.kernelspecs.specs?.kernelspecs[name]?.metadata?.kernel_provisioner as { provisioner_name?: unknown } | undefined;
    return !this.allowed && [name, facts?.provisioner_name].some(each => typeof each === 'string' && each.startsWith(SANDBOXED));
  }

  /** Distrust the cells of a kernel, now and whenever one becomes trusted; returns what is to be called for more cells. */
  private guard(
    context: ISessionContext, rendermime: IRenderMimeRegistry, cells: () => Iterable<CellModel>, saved?: () => string | undefined
  ): () => void {
    const isUnder = () => {
      const kernel = context.session?.kernel?.name || context.kernelPreference.name || saved?.() || '';
      return this.suspects(kernel);
    };
    const check = (model: CellModel) => {
      if (model.trusted && model.type === 'code' && isUnder()) {
        model.trusted = false;
        model.deleteMetadata('trusted'); // by which the server would sign the notebook
      }
    };
    const look = () => {
      for (const model of cells()) {
        if (!this.known.has(model)) {
          this.known.add(model);
          model.stateChanged.connect(() => check(model));
        }
        check(model);
      }
    };
    const arrived = () => {
      const kernel = context.session?.kernel;
      if (kernel && !this.known.has(kernel)) {
        this.known.add(kernel);
        const isIt = () => this.suspects(kernel.name);
        // The models of widgets can run scripts before anything is shown.
        const { handleComms } = kernel;
        Object.defineProperty(kernel, 'handleComms', { get: () => handleComms && !isIt() });
        kernel.anyMessage.connect((_, { msg: { content } }) => {
          if ('payload' in content && isIt()) {
            content.payload = []; // by which it would write cells, which may run elsewhere next
          }
        });
      }
      look();
    };
    if (!this.known.has(rendermime)) {
      this.known.add(rendermime);
      seal(rendermime, isUnder, isPlotly => this.tell(isPlotly));
    }
    context.kernelChanged.connect(arrived);
    arrived();
    return look;
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

/**
 * Have a registry draw outputs without what loads or runs, whatever JupyterLab trusts, as long as a kernel is under suspicion;
 * and tell where one looks otherwise for that.
 */
function seal(rendermime: IRenderMimeRegistry, isUnder: () => boolean, tell: (isPlotly: boolean) => void): void {
  const strict = sealed(rendermime);
  const shown = (data: unknown) => harmless({ output_type: 'display_data', data: data as IMimeBundle }).data as IMimeBundle;
  const { clone, createRenderer, preferredMimeType, sanitizer, markdownParser } = rendermime;
  // By these, the table of contents reads headings in outputs. The person's own cells of Markdown have clones.
  Object.defineProperty(rendermime, 'sanitizer', { get: () => (isUnder() ? strict.sanitizer : sanitizer) });
  Object.defineProperty(rendermime, 'markdownParser', { get: () => (isUnder() ? strict.markdownParser : markdownParser) });
  rendermime.clone = options => clone.call(rendermime, { sanitizer, markdownParser: markdownParser ?? undefined, ...options });
  rendermime.preferredMimeType = (bundle, safe) => {
    if (!isUnder()) {
      return preferredMimeType.call(rendermime, bundle, safe);
    }
    const best = preferredMimeType.call(rendermime, bundle, 'any');
    const drawn = strict.preferredMimeType(shown(bundle));
    const html = drawn === 'text/html' ? String(bundle[drawn]) : '';
    if (PLOTLY in bundle && !rendermime.mimeTypes.includes(PLOTLY)) {
      tell(true);
    } else if (best !== drawn || (SCRIPTED.test(html) && !LOADER.test(html))) {
      tell(false);
    }
    return drawn;
  };
  rendermime.createRenderer = mime => {
    if (!isUnder()) {
      return createRenderer.call(rendermime, mime);
    }
    const renderer = strict.createRenderer(mime);
    const { renderModel } = renderer;
    renderer.renderModel = model =>
      renderModel.call(renderer, Object.create(model, { trusted: { value: false }, data: { value: shown(model.data) } }) as IRenderMime.IMimeModel);
    return renderer;
  };
}
