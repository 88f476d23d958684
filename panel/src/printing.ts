/**
 * Printing of notebooks. JupyterLab prints what nbconvert makes of one, whose outputs are cleaned by nobody: a picture in
 * them would be loaded from elsewhere, and its address could tell a secret.
 */
import { Printing } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { ServerConnection } from '@jupyterlab/services';

/** What a page must begin with so that it loads nothing. */
const STILL = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:">
<meta http-equiv="x-dns-prefetch-control" content="off">`;
/** What such a policy does not hold for, or would be of no use below it. */
const IDLE = 'link, meta, base, script, iframe, object, embed';

/** Have a notebook printed so that nothing in it loads, as long as it is under suspicion. */
export function printStill(panel: NotebookPanel, isUnder: () => boolean): void {
  const usual = panel[Printing.symbol].bind(panel);
  panel[Printing.symbol] = () => async () => {
    if (!isUnder()) {
      return usual()();
    }
    const { context } = panel;
    if (context.model.dirty && !context.model.readOnly) {
      await context.save();
    }
    const page = PageConfig.getNBConvertURL({ format: 'html', download: false, path: context.path });
    const reply = await ServerConnection.makeRequest(page, {}, ServerConnection.makeSettings());
    if (!reply.ok) {
      throw new ServerConnection.ResponseError(reply);
    }
    const frame = document.createElement('iframe');
    frame.setAttribute('sandbox', 'allow-modals allow-same-origin'); // no scripts
    frame.className = 'nba-Printed';
    frame.srcdoc = still(await reply.text());
    document.body.append(frame);
    await new Promise(resolve => frame.addEventListener('load', resolve));
    frame.contentWindow!.print();
    // Some browsers return at once; such an event comes once the dialog is gone.
    for (const event of ['mousemove', 'mousedown', 'keydown']) {
      document.addEventListener(event, () => frame.remove(), { once: true, capture: true });
    }
  };
}

/** A page without what loads anything. It is read in a document of its own, which loads nothing. */
function still(html: string): string {
  const page = new DOMParser().parseFromString(html, 'text/html');
  page.querySelectorAll(IDLE).forEach(each => each.remove());
  page.head.insertAdjacentHTML('afterbegin', STILL);
  return `<!DOCTYPE html>${page.documentElement.outerHTML}`;
}
