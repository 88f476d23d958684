/** Cells of answers as cells of a notebook, and what nbagent notes in these. */
import type { IMimeBundle, IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { sha256 } from './digest';
import type { Cell } from './items';
import type { Conversation } from './model';

/** What nbagent writes into the metadata of a cell that it inserts, as `nbagent`. */
export interface Provenance {
  readonly role: 'cell';
  readonly session: string;
  readonly turn: number;
  readonly cell: number;
  readonly status: string;
  readonly seconds: number;
  readonly tool: string;
  readonly approver: string;
  readonly model: string;
  readonly engine: string;
  readonly trust: string;
  /** When it ran in the session. */
  readonly time: string;
  /** The hash of the source as it ran. */
  readonly source_sha256: string;
}

/** What nbagent says of each cell of a notebook. */
export function provenances(panel: NotebookPanel): (Provenance | undefined)[] {
  return [...(panel.content.model?.cells ?? [])].map(cell => cell.getMetadata('nbagent') as Provenance | undefined);
}

/** The cell of a notebook that shows what a cell of a session did. */
export function cellOf(cell: Cell, { about, items }: Conversation, session: string): any {
  const asked = items.find(item => item.kind === 'question' && item.turn === cell.turn);
  const facts: Provenance = {
    role: 'cell',
    session,
    turn: cell.turn,
    cell: cell.number,
    status: cell.status,
    seconds: Math.round(cell.duration * 1000) / 1000,
    tool: cell.tool,
    approver: cell.approver,
    model: asked?.kind === 'question' ? asked.model : about.model,
    engine: about.engine,
    trust: about.trust,
    time: new Date(cell.at * 1000).toISOString(),
    source_sha256: sha256(cell.code)
  };
  return {
    cell_type: 'code',
    source: cell.code,
    metadata: { nbagent: facts },
    // It ran in the session, not in the notebook's kernel, whose count this is.
    execution_count: null,
    outputs: cell.outputs.map(output => uncounted(output))
  };
}

function uncounted(output: IOutput): IOutput {
  const { transient, ...kept } = output as IOutput & { transient?: IMimeBundle };
  return 'execution_count' in kept ? { ...kept, execution_count: null } : kept;
}
