// Made by .ci/panel_types.py of nbagent/core/events, nbagent/core/text.py and the messages in nbagent/faces/lab: change those.

/** The number of the protocol that these are of. */
export const PROTOCOL = 1;
/** Letters, marks and symbols that nobody sees, as a class of a regular expression has them. */
export const BLANK = String.raw`\u{34f}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}-\u{180d}\u{180f}\u{2800}\u{3164}\u{fe00}-\u{fe0f}\u{ffa0}\u{13441}\u{13442}\u{16fe4}\u{1d159}\u{e0100}-\u{e01ef}`;
/** A file or folder that the sandbox sees read-only. */
export interface DataSeen {
  path: string;
  source: string;
  size: number;
  state?: string;
}
/** A distribution that was installed for a session. */
export interface Package {
  name: string;
  version: string;
  sha256: string;
  requested?: boolean;
}
/** A new session has an engine, and its kernel is up. */
export interface SessionStarted {
  type: 'SessionStarted';
  session: string;
  engine: string;
  trust: string;
  environment: string;
  python: string;
  nbagent: string;
  data?: DataSeen[];
  plain_names?: boolean;
  sandbox?: string;
  limits?: { [name: string]: number | null };
  machine?: { [name: string]: any };
  security?: { [name: string]: any };
  accepted?: string[];
  packages?: Package[];
  seconds?: number;
  isolation?: string;
  kernelspec?: string;
}
/** A person asked a question; `turn` counts from 1. */
export interface Asked {
  type: 'Asked';
  turn: number;
  question: string;
  model?: string;
  replay?: boolean;
  budget?: string;
}
/** A person took back what a question had done to the kernel, or (`undone` is False) wants it after all. */
export interface TurnUndone {
  type: 'TurnUndone';
  turn: number;
  cells: number[];
  undone?: boolean;
}
/** A question entered a phase. */
export interface PhaseEntered {
  type: 'PhaseEntered';
  turn: number;
  phase: 'comprehension' | 'orchestration' | 'reasoning' | 'evaluation' | 'conversation';
  text?: string;
  sent_back?: boolean;
}
/** The tokens and calls that the model used. */
export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  calls?: number;
  cached_tokens?: number;
  cost?: number | null;
}
/** The model gave a reply: words, and calls of tools. */
export interface ModelReplied {
  type: 'ModelReplied';
  turn: number;
  text: string;
  tools?: string[];
  usage?: Usage;
  model?: string;
}
/** Something that was sent to a model. */
export interface Piece {
  source: string;
  size: number;
  sha256: string;
  redacted?: string[];
}
/** A request was sent to a model. Each attempt is an event, also one that fails. */
export interface SentToModel {
  type: 'SentToModel';
  turn: number;
  model: string;
  host: string;
  size: number;
  pieces: Piece[];
  resent?: number;
  purpose?: 'answer' | 'critique';
}
/** The model replied with code as a structured object. Its dependencies are installed before it runs. */
export interface CodeGenerated {
  type: 'CodeGenerated';
  turn: number;
  code: string;
  dependencies?: string[];
  reasoning?: string;
  confidence: number;
}
/** The agent reacted to code that failed, or to replies that did the same several times. */
export interface Reflected {
  type: 'Reflected';
  turn: number;
  attempt: number;
  state: 'critique' | 'retry' | 'gave up';
  error: string;
  critique?: string;
  usage?: Usage;
}
/** A model gave no complete reply; it is asked again after `wait` seconds, or not at all. */
export interface ModelFailed {
  type: 'ModelFailed';
  turn: number;
  model: string;
  reason: string;
  usage?: Usage;
  wait?: number | null;
}
/** A cell is about to run: emitted before its code is sent to the kernel. */
export interface CellStarted {
  type: 'CellStarted';
  cell: number;
  turn: number;
  code: string;
  tool?: string;
  approver?: string;
}
/** A cell waits until another client's cell in the same kernel has ended; that doesn't count against its time. */
export interface CellWaits {
  type: 'CellWaits';
  cell: number;
}
/** A program was executed in the sandbox, as process 1 of the sandbox saw. */
export interface CommandRun {
  type: 'CommandRun';
  cell: number;
  argv: string[];
  pid: number;
}
/** An output of the running cell arrived. For a stream it has the new text only; `CellFinished` has all outputs. */
export interface OutputAdded {
  type: 'OutputAdded';
  cell: number;
  output: { [name: string]: any };
}
/** Code replaced the data of a display, in every cell that shows it. */
export interface OutputUpdated {
  type: 'OutputUpdated';
  cell: number;
  display_id: string;
  data: { [name: string]: any };
  metadata?: { [name: string]: any };
  during?: number | null;
  changed?: number[];
}
/** `clear_output()` took effect: the outputs that the cell showed so far are gone. */
export interface OutputsCleared {
  type: 'OutputsCleared';
  cell: number;
}
/** The package index is about to be asked for these names, which so leave the machine. */
export interface IndexAsked {
  type: 'IndexAsked';
  cell: number;
  names: string[];
  unknown?: string[];
}
/** Packages were added to the folder of the session's packages. */
export interface PackagesInstalled {
  type: 'PackagesInstalled';
  cell: number;
  packages: Package[];
  reason?: string;
  seconds?: number;
}
/** Packages were requested and not installed; the environment is as it was. */
export interface InstallFailed {
  type: 'InstallFailed';
  cell: number;
  requirements: string[];
  reason: string;
  refused?: boolean;
  seconds?: number;
}
/** Code asked for a host that isn't listed, and waits until a face answers by `id`. The kernel emits it. */
export interface HostAsked {
  type: 'HostAsked';
  id: string;
  host: string;
  port: number;
}
/** It was decided whether code may reach a host; the proxy emits one event for each host, port and answer. */
export interface HostDecided {
  type: 'HostDecided';
  id?: string;
  host: string;
  port: number;
  allowed: boolean;
  by: 'list' | 'person' | 'policy';
  reason?: string;
  address?: string;
}
/** The model asked to do something that needs approval; the turn waits until a face answers by `id`. */
export interface ApprovalAsked {
  type: 'ApprovalAsked';
  id: string;
  turn: number;
  kind: string;
  tool: string;
  what: string;
  code?: string;
  packages?: string[];
  note?: string;
  rules?: string[];
  allows?: string;
}
/** A question was answered, by a person or by the policy for when nobody is there. */
export interface ApprovalGiven {
  type: 'ApprovalGiven';
  decision: 'approve' | 'edit' | 'reject';
  by: string;
  code?: string;
  reason?: string;
  rules?: string[];
  id: string;
  turn: number;
}
/** The approval mode was set. Before the first of these events it is `never-ask`. */
export interface ApprovalsSet {
  type: 'ApprovalsSet';
  mode: string;
}
/** It was set what is hidden from models. Before the first of these events, that is `secrets`. */
export interface RedactionSet {
  type: 'RedactionSet';
  what: string;
}
/** A file in the sandbox. */
export interface FileSeen {
  path: string;
  size: number;
}
/** A cell ended. The events of files that are collected after it follow. */
export interface CellFinished {
  type: 'CellFinished';
  cell: number;
  turn?: number;
  code?: string;
  status: 'running' | 'ok' | 'error' | 'timeout' | 'interrupted' | 'died';
  outputs?: ({ [name: string]: any })[];
  execution_count?: number | null;
  duration?: number;
  note?: string;
  installed?: Package[];
  state_lost?: string;
  restored?: string;
  files?: string[];
  total_files?: number;
  changed?: FileSeen[];
  display_ids?: string[];
  memory_peak?: number | null;
  memory_limit?: number | null;
  exit_code?: number | null;
}
/** Output arrived for a cell that had ended. It claims to belong to `cell`, which code can forge. */
export interface LateOutputAdded {
  type: 'LateOutputAdded';
  cell: number;
  output: { [name: string]: any };
  during?: number | null;
}
/** The kernel was replaced: its variables, imports and files under /workspace and /tmp are gone. */
export interface StateLost {
  type: 'StateLost';
  cell: number;
  reason: string;
  kept?: string[];
}
/** After a loss, cells that had succeeded were run again in the new kernel; their outputs aren't shown again. */
export interface StateRestored {
  type: 'StateRestored';
  cell: number;
  cells: number[];
  failed?: number;
  skipped?: number[];
  reason?: string;
  seconds?: number;
  text?: string;
}
/** Widgets changed while a cell ran: emitted by the session after the cell. */
export interface WidgetsChanged {
  type: 'WidgetsChanged';
  state: { [name: string]: any };
}
/** A file reached the host: one that a cell saved in `/tmp/output` or `/workspace`, or the exported notebook. */
export interface FileSaved {
  type: 'FileSaved';
  path: string;
  size: number;
  sha256: string;
  cell?: number;
  source?: string;
}
/** A file that a cell saved and that did not reach the host. */
export interface FileLeft {
  path: string;
  why: string;
}
/** Files that a cell saved in /tmp/output or /workspace could not be brought to the host. */
export interface FilesLeft {
  type: 'FilesLeft';
  cell: number;
  files: FileLeft[];
}
/** The session's quota on the host's disk was used up: further output is cut, and files stay in the sandbox. */
export interface QuotaReached {
  type: 'QuotaReached';
  cell: number;
  limit: number;
}
/** A cell made or changed files under /tmp, which stay in the sandbox. */
export interface FilesChanged {
  type: 'FilesChanged';
  cell: number;
  files: FileSeen[];
  more?: number;
}
/** Parts of the data are not shown to code: links that lead out of it, hidden names, sockets. */
export interface DataLeftOut {
  type: 'DataLeftOut';
  reason: string;
  paths: string[];
  total: number;
  text: string;
}
/** A column of a table, and its type as Polars names it. */
export interface ColumnType {
  name: string;
  dtype: string;
}
/** The columns of the data were read, inside of the sandbox: what this says is as untrusted as the data. */
export interface DataDescribed {
  type: 'DataDescribed';
  schemas: { [name: string]: ColumnType[] };
}
/** The data was hashed, as it was at the session's start; or a variable that was uploaded. Cells may run already. */
export interface DataHashed {
  type: 'DataHashed';
  hashes: { [name: string]: string };
}
/** A person put a file, or the files of an archive, into the sandbox. */
export interface FileUploaded {
  type: 'FileUploaded';
  path: string;
  name: string;
  size: number;
  sha256: string;
  source?: string;
  unpacked?: number;
}
/** A person fetched a file from the sandbox. */
export interface FileDownloaded {
  type: 'FileDownloaded';
  path: string;
  size: number;
  sha256: string;
  to?: string;
}
/** An MCP server was started or reached, failed, or was closed. */
export interface McpServerChanged {
  type: 'McpServerChanged';
  server: string;
  state: 'ready' | 'failed' | 'closed';
  reason?: string;
  version?: string;
  protocol?: string;
  seconds?: number;
}
/** A server's tools differ from those that were first seen, or last accepted. */
export interface McpToolsChanged {
  type: 'McpToolsChanged';
  server: string;
  changed?: string[];
  added?: string[];
  removed?: string[];
  unusable?: { [name: string]: string };
}
/** MCP tools were selected for a question; the model is offered these. The agent emits it. */
export interface McpToolsSelected {
  type: 'McpToolsSelected';
  tools: string[];
  confidence: number;
  missing?: string[];
  reasons?: string[];
}
/** A request of a server was refused: for a reply of the model, an answer of the person, or the person's folders. */
export interface McpRequestDeclined {
  type: 'McpRequestDeclined';
  server: string;
  method: string;
}
/** The model called a tool of an MCP server, which runs outside of the sandbox. The agent emits it afterwards. */
export interface McpToolCalled {
  type: 'McpToolCalled';
  server: string;
  tool: string;
  arguments: { [name: string]: any };
  status: 'ok' | 'error' | 'failed';
  text: string;
  seconds: number;
}
/** A tool that the forge makes has entered a stage, see `nbagent.forge`. The forge emits it. */
export interface ToolStageEntered {
  type: 'ToolStageEntered';
  tool: string;
  version: number;
  stage: 'dormant' | 'creating' | 'installing' | 'testing' | 'active' | 'cleanup';
  reason?: string;
  seconds?: number;
  code?: string;
  tests?: string;
  dependencies?: string[];
  packages?: Package[];
  sha256?: string;
}
/** A tool of the library, or the whole library, was refused because its file was changed. The agent emits it. */
export interface ToolRefused {
  type: 'ToolRefused';
  tool: string;
  reason: string;
}
/** A number in an answer, and where it comes from. */
export interface Claim {
  text: string;
  cell?: number;
  output?: number;
  shown?: string;
  again?: number;
  noted?: boolean;
  written?: boolean;
  derived?: string;
  sources?: number[];
}
/** A second computation of an answer's numbers from the data, before the person saw it. */
export interface Check {
  cells: number[];
  again?: string[];
  alone?: string[];
  new?: string[];
  reused?: string[];
  changed?: boolean;
  usage?: Usage;
  seconds?: number;
}
/** A cell, as the kernel, the log, the notebook and every face know it. */
export interface Cell {
  cell: number;
  turn?: number;
  code?: string;
  status: 'running' | 'ok' | 'error' | 'timeout' | 'interrupted' | 'died';
  outputs?: ({ [name: string]: any })[];
  execution_count?: number | null;
  duration?: number;
  note?: string;
  installed?: Package[];
  state_lost?: string;
  restored?: string;
  files?: string[];
  total_files?: number;
  changed?: FileSeen[];
  display_ids?: string[];
  memory_peak?: number | null;
  memory_limit?: number | null;
  exit_code?: number | null;
}
/** A turn ended. Its cells, files and packages have events of their own, and are not in this one. */
export interface Answered {
  type: 'Answered';
  turn: number;
  text: string;
  success: boolean;
  attempts: number;
  usage?: Usage;
  seconds?: number;
  claims?: Claim[];
  check?: Check | null;
  cells?: Cell[];
  files?: string[];
  installed?: Package[];
}
/** A session was resumed by a new owner. */
export interface SessionResumed {
  type: 'SessionResumed';
  kept: boolean;
  note: string;
  engine?: string;
  environment?: string;
  python?: string;
  packages?: Package[];
  sandbox?: string;
}
/** A person gave the session a title, or removed it with an empty one. */
export interface Renamed {
  type: 'Renamed';
  title: string;
}
/** The sandbox was stopped on purpose. */
export interface SessionEnded {
  type: 'SessionEnded';
  reason?: string;
}
/** What happened. */
export type Event = SessionStarted | Asked | TurnUndone | PhaseEntered | ModelReplied | SentToModel | CodeGenerated | Reflected | ModelFailed | CellStarted | CellWaits | CommandRun | OutputAdded | OutputUpdated | OutputsCleared | IndexAsked | PackagesInstalled | InstallFailed | HostAsked | HostDecided | ApprovalAsked | ApprovalGiven | ApprovalsSet | RedactionSet | CellFinished | LateOutputAdded | StateLost | StateRestored | WidgetsChanged | FileSaved | FilesLeft | QuotaReached | FilesChanged | DataLeftOut | DataDescribed | DataHashed | FileUploaded | FileDownloaded | McpServerChanged | McpToolsChanged | McpToolsSelected | McpRequestDeclined | McpToolCalled | ToolStageEntered | ToolRefused | Answered | SessionResumed | Renamed | SessionEnded;
/** An event with its place in the log. */
export interface Record {
  seq: number;
  at: number;
  event: Event;
}
/** The reply to a request that is refused, with the HTTP status that says of what kind it is. */
export interface Refusal {
  message: string;
  mend: string;
  kind: string;
}
/** What a page needs to know of this server first. */
export interface Status {
  version: string;
  protocol: number;
  model: string | null;
  trust: string;
  engine: string | null;
  approvals: string;
  budget: string;
  lists_hosts: boolean;
  max_upload_mb: number;
  problem: string;
  making: string;
}
/** How a kernel ended last, as the rest of a sentence about it; empty if it runs its first. */
export interface Loss {
  loss: string;
}
/** An engine. */
export interface EngineEntry {
  name: string;
  starts: boolean;
  chosen: boolean;
  kernel: string;
  why_not: string;
  mend: string;
}
/** The engines of this machine. */
export interface EngineList {
  engines: EngineEntry[];
}
/** A provider of models. */
export interface ModelProvider {
  name: string;
  key: string;
  problem: string;
}
/** Models that can be named. */
export interface ModelList {
  models: string[];
  total: number;
  default: string | null;
  providers: ModelProvider[];
}
/** A session in a list; the times are seconds since the epoch. */
export interface SessionEntry {
  id: string;
  title: string;
  state: 'running' | 'waiting' | 'ended';
  started: number;
  changed: number;
  engine: string;
  trust: string;
  questions: number;
  cells: number;
  tokens: number;
  cost: number | null;
}
/** The sessions of this person, the latest first. */
export interface SessionList {
  sessions: SessionEntry[];
  total: number;
}
/** A session in which something was found; see `nbagent.session.manager.SearchHit`. */
export interface FoundText {
  session: SessionEntry;
  turn: number;
  where: string;
  text: string;
}
/** The result of a search; `is_whole` says whether all sessions were searched. */
export interface FoundTexts {
  hits: FoundText[];
  is_whole: boolean;
}
/** What a page may say of a new session; see `nbagent.core.options` for each. None for what the settings say. */
export interface NewSession {
  model?: string | null;
  trust?: string | null;
  engine?: string | null;
  approvals?: string | null;
  allow?: string[] | null;
  unattended?: string | null;
  data?: string[] | null;
  timeout?: number | null;
  memory_mb?: number | null;
  accept?: string[] | null;
  budget?: string | null;
  allow_hosts?: string[] | null;
  ask_hosts?: boolean | null;
  install?: boolean | null;
  restore?: string | null;
  replies?: string | null;
  fallback?: string[] | null;
  critic?: string | null;
  redact?: string | null;
  forge?: boolean | null;
  keep_minutes?: number | null;
  kernel?: string | null;
  demo?: boolean;
}
/** A session that was started; `question` is the one that the demo's recorded replies answer. */
export interface Created {
  id: string;
  question: string;
}
/** Another title for a session; an empty one stands for its first question. */
export interface NewTitle {
  title: string;
}
/** A file that is in the sandbox now; its size is in bytes, `unpacked` the number of files it was unpacked to. */
export interface UploadedFile {
  path: string;
  size: number;
  sha256: string;
  unpacked: number;
}
/** A file or folder in the sandbox; `modified` is in seconds since the epoch, `size` in bytes. */
export interface FileEntry {
  path: string;
  kind: string;
  size: number;
  modified: number;
}
/** A file that reached the host, or a figure; see `nbagent.state.Artifact`. */
export interface ArtifactEntry {
  id: string;
  name: string;
  content_type: string;
  size: number;
  sha256: string;
  created: number;
  cell: number;
}
/** The files of a session. */
export interface FileList {
  files: FileEntry[];
  total: number;
  artifacts: ArtifactEntry[];
  is_running: boolean;
}
/** What a page may say of an export; see `nbagent export` for the last three. */
export interface ExportWanted {
  path: string;
  force?: boolean;
  keep_attempts?: boolean;
  environment?: boolean;
}
/** What a page may say of a verification. */
export interface VerifyWanted {
  path: string;
  sweep?: boolean;
  write?: boolean;
}
/** An export that was written; `notes` are sentences for a person. */
export interface Exported {
  path: string;
  notes: string[];
}
/** Something that differs; see `nbagent.notebook.compare.texts.Difference`. */
export interface DifferenceEntry {
  what: string;
  where: string;
  stored: string;
  fresh: string;
  cause: string;
}
/** What became of one code cell; see `nbagent.notebook.proof.CellProof`. */
export interface VerifiedCell {
  id: string;
  number: number;
  result: string;
  note: string;
  differences: DifferenceEntry[];
  excused: string[];
  depends: string[];
  seconds: number;
}
/** What became of a notebook: `same`, `differs`, or `not run` with the error. */
export interface Verified {
  notebook: string;
  result: string;
  error: string;
  problems: string[];
  notes: string[];
  engine: string;
  tolerance: number;
  seconds: number;
  runs: number;
  cells: VerifiedCell[];
}
/** A job: an export or a verification. */
export interface JobEntry {
  job: string;
  state: 'running' | 'done' | 'failed';
  exported: Exported | null;
  verified: Verified | null;
  refusal: Refusal | null;
  pictures: string[];
}
/** A call that a page wants to be made. */
export interface Call {
  call: number;
  name: string;
  arguments: unknown;
}
/** Of a call that takes none. */
export interface NoArguments {
}
/** See `AnySession.ask`. */
export interface AskArguments {
  question: string;
  uploaded?: string[];
}
/** See `AnySession.run`; the timeout is in seconds. */
export interface RunArguments {
  code: string;
  timeout?: number | null;
}
/** See `AnySession.approve`. */
export interface ApproveArguments {
  id: string;
  decision?: 'approve' | 'edit' | 'reject';
  code?: string;
  reason?: string;
  always?: boolean;
}
/** See `AnySession.approve_host`. */
export interface ApproveHostArguments {
  id: string;
  allow: boolean;
  remember?: boolean;
}
/** See `AnySession.attend`. */
export interface AttendArguments {
  answers?: boolean;
}
/** See `AnySession.use_model`. */
export interface ModelArguments {
  name: string;
}
/** See `AnySession.set_approvals`. */
export interface ApprovalsArguments {
  mode: string;
}
/** See `AnySession.undo_turn`. */
export interface UndoArguments {
  turn: number;
  undo?: boolean;
}
/** See `AnySession.install`. */
export interface InstallArguments {
  requirements: string[];
}
/** See `AnySession.stop`. */
export interface StopArguments {
  reason?: string;
}
/** The number of a call of this page that is to be stopped. */
export interface CancelArguments {
  call: number;
}
/** Options that hold from now on; without them those of the settings, and no laxer approvals than before. */
export interface ResumeArguments {
  model?: string | null;
  approvals?: string | null;
}
/** A record of the session's log. */
export interface PageRecord {
  seq: number;
  at: number;
  event: Event;
  whole?: string;
  own?: { [name: string]: string[] };
}
/** Records of the session's log, in order and without gaps. */
export interface Records {
  records: PageRecord[];
}
/** An error of the owner's, as it goes over the socket. */
export interface Failure {
  kind: string;
  message: string;
  mend?: string;
}
/** The end of a call. What it did stands in records that came before. */
export interface CallReturned {
  returned: number;
  value?: any;
  failure?: Failure | null;
}
/** Words of a reply that a model is writing; with the next `ModelReplied` or `ModelFailed` those so far are over. */
export interface Words {
  turn: number;
  text: string;
}
/** Words that are in no record yet. */
export interface WordsSaid {
  words: Words;
}
/** The session's state: at the beginning, and each time it changes. */
export interface StateTold {
  state: 'running' | 'waiting' | 'ended' | 'gone';
  last?: number;
  mend?: string;
}
