/** What nbagent itself says of an event that is shown as nothing else. Pure. */
import type { Event } from './events';
import type { Notice, Status } from './items';
import type { Trans } from './translate';

type Sentence = readonly [tone: Notice['tone'], text: string];

/** The sentences for an event; an empty one is not shown. */
export function sentences(event: Event, trans: Trans): Sentence[] {
  switch (event.type) {
    case 'CodeGenerated':
      return event.confidence < 0.5 ? [['warning', trans.__('The model is not sure of this code: confidence %1.', event.confidence)]] : [];
    case 'PackagesInstalled': {
      const wanted = (event.packages ?? []).filter(each => each.requested !== false).map(each => `${each.name} ${each.version}`);
      return event.packages?.length ? [['good', trans.__('Installed %1.', wanted.join(', ') || event.packages.length)]] : [];
    }
    case 'InstallFailed':
      return [['warning', trans.__('Not installed: %1. %2', event.requirements.join(', '), event.reason)]];
    case 'FilesLeft':
      return event.files.map(({ path, why }) => ['warning', trans.__('%1 was not delivered: %2.', path, why)]);
    case 'FileUploaded':
      return [['told', trans.__('Uploaded %1 to %2.', event.name, event.path)]];
    case 'StateLost': // the note of a cell that took its kernel with it says so
      return event.cell ? [] : [['warning', event.reason]];
    case 'StateRestored':
      return event.cell ? [] : [[event.failed ? 'warning' : 'told', event.text ?? '']];
    case 'DataLeftOut':
      return [['warning', event.text]];
    case 'QuotaReached':
      return [['warning', trans.__('The session may keep no more on disk: further output is cut, and files stay in the sandbox.')]];
    case 'McpServerChanged':
      return event.state === 'failed' ? [['warning', trans.__('MCP server %1: %2', event.server, event.reason ?? '')]] : [];
    case 'McpToolsChanged': {
      const changed = event.changed?.join(', ');
      return changed ? [['warning', trans.__('MCP tools that say something else of themselves than before: %1: %2', event.server, changed)]] : [];
    }
    case 'McpToolCalled':
      return [['told', trans.__('Called %1 of %2: %3.', event.tool, event.server, event.status)]];
    case 'ToolStageEntered':
      if (event.stage === 'active') {
        return [['good', trans.__('Tool %1, version %2: active.', event.tool, event.version)]];
      }
      return event.stage === 'cleanup' ? [['warning', trans.__('Tool put away: %1', event.reason ?? '')]] : [];
    case 'ToolRefused':
      return [['warning', event.reason]];
    default:
      return [];
  }
}

/** How a cell is. */
export function statusWord(status: Status, trans: Trans): string {
  switch (status) {
    case 'running':
      return trans.__('running');
    case 'ok':
      return trans.__('done');
    case 'error':
      return trans.__('failed');
    case 'timeout':
      return trans.__('ran too long');
    case 'interrupted':
      return trans.__('stopped');
    case 'died':
      return trans.__('kernel died');
  }
}
