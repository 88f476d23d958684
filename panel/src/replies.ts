/** What a kernel's replies may do to the page. Pure. */
import type { KernelMessage } from '@jupyterlab/services';

/** Kinds that no renderer makes more of than text or a picture. */
const STILL = ['text/plain', 'image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** What is known of the language of sandboxed kernels, whatever one says: a notebook keeps it, and exporters run by it. */
const PYTHON = {
  name: 'python',
  mimetype: 'text/x-python',
  file_extension: '.py',
  codemirror_mode: { name: 'ipython', version: 3 },
  pygments_lexer: 'ipython3',
  nbconvert_exporter: 'python'
};

/**
 * Take out of a message by what the kernel would act on the page, beside outputs: JupyterLab draws some replies with
 * registries of its own, in which scripts run; writes cells; makes links in its menu, and lets the server import what
 * a notebook names for exports.
 */
export function tame(message: KernelMessage.IMessage): void {
  if (message.channel === 'iopub') {
    return;
  }
  const content = message.content as { [name: string]: any };
  if ('payload' in content) {
    content.payload = []; // by which it would write cells, which may run elsewhere next
  }
  if ('help_links' in content) {
    content.help_links = [];
  }
  if ('language_info' in content) {
    const version = String(content.language_info?.version ?? '').replace(/[^\d.]/g, '').slice(0, 20);
    content.language_info = { ...PYTHON, version };
  }
  for (const holder of [content, content.body]) {
    if (typeof holder?.data === 'object' && holder.data !== null) {
      holder.data = Object.fromEntries(Object.entries(holder.data).filter(([kind, each]) => STILL.includes(kind) && typeof each === 'string'));
    }
  }
}
