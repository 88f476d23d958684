/** What `@` can stand for in a question: the session's files, variables and cells. */
import type { Assistant } from './assistant';
import { Mention, bytes } from './view/env';

const MOST = 12;

/** The files, variables and cells that have these letters in their names. */
export async function findMentions(word: string, assistant: Assistant): Promise<Mention[]> {
  const { session } = assistant;
  if (session === null) {
    return [];
  }
  const found: Mention[] = [];
  for (const item of session.conversation.items) {
    if (item.kind === 'cell') {
      found.push({ kind: 'cell', text: `cell ${item.number}`, about: item.code.split('\n')[0].slice(0, 40) });
    }
  }
  found.reverse();
  for (const path of session.conversation.about.data) {
    found.push({ kind: 'file', text: path, about: assistant.server.trans.__('data') });
  }
  const [variables, files] = await Promise.all([assistant.variables(), assistant.files(word)]);
  for (const each of variables) {
    const [text, about = ''] = each.split(/: (.*)/);
    found.push({ kind: 'variable', text, about });
  }
  for (const { path, size } of files) {
    found.push({ kind: 'file', text: path, about: bytes(size) });
  }
  const letters = word.toLowerCase();
  return found.filter(each => each.text.toLowerCase().includes(letters)).slice(0, MOST);
}
