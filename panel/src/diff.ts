/** What changes from one text to another, line by line. Pure. */
import { diffArrays } from 'diff';

export interface DiffLine {
  readonly sign: ' ' | '-' | '+';
  readonly text: string;
}

/** The most lines that may differ; beyond it, all are shown as removed and added, which takes no time to find. */
const MAX_CHANGES = 2000;

/** The lines of both texts, in order: kept, removed and added ones. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [old, fresh] = [lines(before), lines(after)];
  const found = diffArrays(old, fresh, { maxEditLength: MAX_CHANGES }) ?? [
    { value: old, removed: true, added: false },
    { value: fresh, removed: false, added: true }
  ];
  return found.flatMap(({ value, removed, added }) => value.map(text => ({ sign: added ? '+' : removed ? '-' : ' ', text }) as const));
}

function lines(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}
