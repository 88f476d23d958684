/** The outputs of a cell while they come. Pure. */
import type { IOutput, IStream } from '@jupyterlab/nbformat';

import type { Cell } from './items';

/** Characters of a stream that are kept while its cell runs: its end. */
const MAX_LIVE = 64 * 1024;

/** Add an output; a piece of a stream continues the one before. */
export function addOutput(outputs: IOutput[], output: IOutput): void {
  const last = outputs[outputs.length - 1];
  if (output.output_type === 'stream' && last?.output_type === 'stream' && last.name === output.name) {
    const text = textOf(last) + textOf(output);
    outputs[outputs.length - 1] = { ...last, text: text.length > MAX_LIVE ? text.slice(-MAX_LIVE) : text };
  } else {
    outputs.push(output);
  }
}

function textOf(output: IOutput): string {
  const { text } = output as IStream;
  return Array.isArray(text) ? text.join('') : text;
}

/** Change a display. While a cell runs, the display that changes is taken for its last one; afterwards it is known by its id. */
export function updateDisplay(cell: Cell, id: string, data: object, metadata: object): void {
  const { outputs, displayIds, status } = cell;
  const ended = status !== 'running';
  for (let place = outputs.length - 1; place >= 0; place--) {
    if (ended ? displayIds[place] === id : outputs[place].output_type === 'display_data') {
      outputs[place] = { ...outputs[place], data, metadata } as IOutput;
      if (!ended) {
        return;
      }
    }
  }
}
