/** What changes from one text to another, line by line. Pure. */

export interface DiffLine {
  readonly sign: ' ' | '-' | '+';
  readonly text: string;
}

/** The most pairs of lines that are compared; beyond it, what differs is shown as all removed and all added. */
const MAX_PAIRS = 4_000_000;

/** The lines of both texts, in order: kept, removed and added ones. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [old, fresh] = [lines(before), lines(after)];
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) {
    head++;
  }
  let tail = 0;
  while (tail < old.length - head && tail < fresh.length - head && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]) {
    tail++;
  }
  const end = old.length - tail;
  return [
    ...old.slice(0, head).map(text => ({ sign: ' ' as const, text })),
    ...between(old.slice(head, end), fresh.slice(head, fresh.length - tail)),
    ...old.slice(end).map(text => ({ sign: ' ' as const, text }))
  ];
}

/** The lines that differ by the longest common subsequence. */
function between(old: string[], fresh: string[]): DiffLine[] {
  const found: DiffLine[] = [];
  let [one, other] = [0, 0];
  if (old.length * fresh.length <= MAX_PAIRS) {
    const width = fresh.length + 1;
    const longest = new Uint32Array((old.length + 1) * width);
    for (let row = old.length - 1; row >= 0; row--) {
      for (let column = fresh.length - 1; column >= 0; column--) {
        const at = row * width + column;
        longest[at] = old[row] === fresh[column] ? longest[at + width + 1] + 1 : Math.max(longest[at + width], longest[at + 1]);
      }
    }
    while (one < old.length && other < fresh.length) {
      const at = one * width + other;
      if (old[one] === fresh[other]) {
        found.push({ sign: ' ', text: old[one++] });
        other++;
      } else if (longest[at + width] >= longest[at + 1]) {
        found.push({ sign: '-', text: old[one++] });
      } else {
        found.push({ sign: '+', text: fresh[other++] });
      }
    }
  }
  return [
    ...found,
    ...old.slice(one).map(text => ({ sign: '-' as const, text })),
    ...fresh.slice(other).map(text => ({ sign: '+' as const, text }))
  ];
}

function lines(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}
