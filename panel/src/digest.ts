/** SHA-256, as nbagent writes it into notebooks. The browser's own is missing on pages that came without TLS. */

const PRIMES = primes(64);
const ROUNDS = PRIMES.map(prime => fraction(Math.cbrt(prime)));
const START = PRIMES.slice(0, 8).map(prime => fraction(Math.sqrt(prime)));

/** The hash of a text in UTF-8, in hexadecimal digits. */
export function sha256(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const blocks = Math.ceil((bytes.length + 9) / 64);
  const padded = new Uint8Array(blocks * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const state = [...START];
  for (let block = 0; block < blocks; block++) {
    mix(state, view, block * 64);
  }
  return state.map(word => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function mix(state: number[], view: DataView, offset: number): void {
  const words = new Int32Array(64);
  for (let at = 0; at < 64; at++) {
    if (at < 16) {
      words[at] = view.getInt32(offset + at * 4);
    } else {
      const [early, late] = [words[at - 15], words[at - 2]];
      const small = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
      const large = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
      words[at] = words[at - 16] + small + words[at - 7] + large;
    }
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let at = 0; at < 64; at++) {
    const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[at] + words[at]) | 0;
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, at) => (state[at] = (state[at] + word) | 0));
}

function turn(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

/** The first 32 bits behind the point. */
function fraction(number: number): number {
  return ((number - Math.floor(number)) * 2 ** 32) | 0;
}

function primes(count: number): number[] {
  const found: number[] = [];
  for (let number = 2; found.length < count; number++) {
    if (found.every(prime => number % prime)) {
      found.push(number);
    }
  }
  return found;
}
