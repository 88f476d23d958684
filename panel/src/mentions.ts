/** What `@` can stand for in a question: files, and the session's variables and cells. */
import type { Contents } from '@jupyterlab/services';

import type { Assistant } from './assistant';
import type { FileEntry, FileList } from './events';
import type { Cell } from './items';
import { Mention, bytes } from './view/env';

const MOST = 12;

/**
 * The files, variables and cells that have these letters in their names.
 *
 * @param folders The folders of the server whose files can go along with the question, the nearest first.
 */
export async function findMentions(
  word: string,
  assistant: Assistant,
  contents: Contents.IManager,
  folders: readonly string[]
): Promise<Mention[]> {
  const { session } = assistant;
  const about = assistant.server.trans.__('data');
  const listing = Promise.all([...new Set(folders)].map(folder => listedIn(folder, contents)));
  const [variables, files, lists] = await Promise.all([variablesOf(assistant), filesOf(assistant), listing]);
  const listed = [...new Map(lists.flat().reverse().map(each => [each.text, each])).values()].reverse();
  const items = session?.conversation.items ?? [];
  const cells = items.filter((item): item is Cell => item.kind === 'cell').reverse();
  const attached = assistant.attachments.files;
  const data = session?.conversation.about.data ?? assistant.choices.data ?? [];
  const found: Mention[] = [
    ...cells.map(({ number, code }) => ({ kind: 'cell', text: `cell ${number}`, about: code.split('\n')[0].slice(0, 40) }) as const),
    ...data.map(text => ({ kind: 'file', text, about }) as const),
    ...variables.map(each => each.split(/: (.*)/)).map(([text, about = '']) => ({ kind: 'variable', text, about }) as const),
    ...attached.map(({ name, content }) => ({ kind: 'file', text: name, about: bytes(content.size) }) as const),
    ...files.map(({ path, size }) => ({ kind: 'file', text: path, about: bytes(size) }) as const),
    ...listed.filter(each => !attached.some(({ name }) => name === each.text))
  ];
  const letters = word.toLowerCase();
  return found.filter(each => each.text.toLowerCase().includes(letters)).slice(0, MOST);
}

/** The files in a folder of the server, which go along if they are named. */
async function listedIn(folder: string, contents: Contents.IManager): Promise<Mention[]> {
  const found: Contents.IModel[] = await contents.get(folder).then(({ content }) => content, () => []);
  return found
    .filter(each => each.type === 'file')
    .map(({ name, path, size }) => ({ kind: 'file', text: name, about: bytes(size ?? 0), path }));
}

/** The variables of the session's kernel, each as `name: type`; none while it is at work, for which nothing waits. */
async function variablesOf({ session, busy }: Assistant): Promise<string[]> {
  if (session?.channel.state !== 'running' || busy || session.conversation.running) {
    return [];
  }
  return session.channel.call<string[]>('variables').catch(() => []);
}

/** The files in the session's sandbox. */
async function filesOf({ session, server }: Assistant): Promise<FileEntry[]> {
  if (session?.channel.state !== 'running') {
    return [];
  }
  const path = `sessions/${encodeURIComponent(session.id)}/files`;
  return server.get<FileList>(path).then(({ files }) => files.filter(each => each.kind === 'file'), () => []);
}
