/** Which figures of Plotly's are drawn: those that load nothing. As `draw` in nbagent/safety/sanitize/specs.py. */

export const PLOTLY = 'application/vnd.plotly.v1+json';

/** What begins an address: browsers read `https:host/x` as one, too. */
const ELSEWHERE = /\/\/|\\|url\s*\(|@import|https?:/i;
/** By such a path or key, older ones of Plotly's set what all objects of the page have. */
const OF_ALL = /__proto__|constructor\.prototype/;
const DATA_IMAGE = /^data:image\/(?:png|jpeg|jpg|gif|webp|bmp|avif)[;,][^<>"'\\()]*$/i;
const ADDRESSES = new Set('source src url uri href topojsonurl plotlyserverurl accesstoken geojson'.split(' '));
const TILES = /geo|map|choropleth/i;
const NOT_TILES = new Set(['heatmap', 'treemap', 'heatmapgl']);

type Tree = { readonly [name: string]: unknown };

/** A figure as it is drawn; null if it could load something. Its `config` names servers, and is left out. */
export function plain(figure: unknown): Tree | null {
  try {
    return checked(figure);
  } catch (error) {
    if (error instanceof RangeError) {
      return null; // too deep to be read
    }
    throw error;
  }
}

function checked(figure: unknown): Tree | null {
  const { data, layout, frames } = isTree(figure) ? figure : {};
  if (!Array.isArray(data) || !isTree(layout) || Object.keys(layout).some(key => /^(?:geo|mapbox|map)\d*$/.test(key))) {
    return null;
  }
  const kept = { data, layout, ...(Array.isArray(frames) ? { frames } : {}) };
  // A template has the looks of each type, also of those that are not there. A button may give a type as an argument.
  const { template, ...own } = layout;
  for (const [key, kind] of strings({ ...kept, layout: own })) {
    if (['type', 'args'].includes(last(key)) && TILES.test(kind) && !NOT_TILES.has(kind)) {
      return null;
    }
  }
  for (const [key, written] of strings(kept)) {
    const text = decoded(written); // Plotly does so with attributes in its texts
    const name = last(last(key) === 'args' ? text : key);
    if (!DATA_IMAGE.test(text.trim()) && (ELSEWHERE.test(text) || OF_ALL.test(text) || ADDRESSES.has(name))) {
      return null;
    }
  }
  return kept;
}

function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The name at the end of a key: a button's change may name a place, such as `images[0].source`. */
function last(key: string): string {
  return key.toLowerCase().split('.').pop()!;
}

/** All strings with their keys, and all keys. */
function* strings(value: unknown, key = ''): Generator<[string, string]> {
  if (typeof value === 'string') {
    yield [key, value];
  } else if (Array.isArray(value)) {
    for (const item of value) {
      yield* strings(item, key);
    }
  } else if (isTree(value)) {
    for (const [name, item] of Object.entries(value)) {
      yield ['', name];
      yield* strings(item, name);
    }
  }
}

/** A text with the characters that references such as `&#65;` name. */
function decoded(text: string): string {
  if (!text.includes('&')) {
    return text;
  }
  const area = document.createElement('textarea');
  area.innerHTML = text.replace(/</g, '&lt;');
  return area.value;
}
