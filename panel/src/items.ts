/** What a conversation is shown as. An item changes in place, and its `version` grows with each change. */
import type { IOutput } from '@jupyterlab/nbformat';

import type { ApprovalAsked, Check, Claim, Usage } from './events';

export interface Base {
  readonly key: string;
  version: number;
  /** The question's number; 0 for what belongs to none. */
  readonly turn: number;
  /** Seconds since the epoch. */
  readonly at: number;
}

export interface Question extends Base {
  readonly kind: 'question';
  readonly text: string;
  readonly model: string;
  readonly replay: boolean;
}

/** Words of the model's between cells. */
export interface Words extends Base {
  readonly kind: 'words';
  text: string;
}

export type Status = 'running' | 'ok' | 'error' | 'timeout' | 'interrupted' | 'died';

export interface Cell extends Base {
  readonly kind: 'cell';
  readonly number: number;
  code: string;
  status: Status;
  outputs: IOutput[];
  /** Seconds; 0 while it runs. */
  duration: number;
  note: string;
  tool: string;
  approver: string;
  /** Where the outputs are whole, if they were too large to be sent. */
  whole: string;
  /** By the place of an error among the outputs, its traceback without what isn't the person's own. */
  own: { readonly [place: string]: string[] };
  /** For each output its display id; empty while the cell runs. */
  displayIds: string[];
  /** When it began, in milliseconds of this page's clock. */
  began: number;
}

export interface Approval extends Base {
  readonly kind: 'approval';
  readonly asked: ApprovalAsked;
  /** How it was answered; empty while it waits. */
  decision: '' | 'approve' | 'edit' | 'reject' | 'dropped';
  by: string;
  reason: string;
  rules: string[];
}

export interface Host extends Base {
  readonly kind: 'host';
  readonly id: string;
  readonly host: string;
  readonly port: number;
  /** When it was asked, in milliseconds of this page's clock. */
  readonly began: number;
  decision: '' | 'allowed' | 'denied' | 'dropped';
  by: string;
}

export interface Answer extends Base {
  readonly kind: 'answer';
  text: string;
  /** Whether it is still being written. */
  live: boolean;
  success: boolean;
  seconds: number;
  usage: Usage | null;
  claims: Claim[];
  check: Check | null;
}

export interface SavedFile {
  /** The number of the record that tells of it. */
  readonly seq: number;
  readonly name: string;
  readonly path: string;
  readonly size: number;
}

/** Files that reached the person after a cell. */
export interface Files extends Base {
  readonly kind: 'files';
  readonly files: SavedFile[];
}

/** A sentence of nbagent's own. */
export interface Notice extends Base {
  readonly kind: 'notice';
  readonly tone: 'told' | 'good' | 'warning' | 'bad';
  readonly text: string;
}

export type Item = Question | Words | Cell | Approval | Host | Answer | Files | Notice;

/** What the session is. */
export interface About {
  engine: string;
  trust: string;
  /** What isolates a kernel that ran before the session, in words; empty for a sandbox of the session's own. */
  isolation: string;
  approvals: string;
  model: string;
  replay: boolean;
  /** What a question may use, in words. */
  budget: string;
  title: string;
  data: string[];
}

/** What models have used in it. */
export interface Spent {
  tokens: number;
  calls: number;
  /** In US dollars; null if a price isn't known. */
  cost: number | null;
}
