/** Which signs of Markdown begin a formula. JupyterLab takes the dollars of two prices for one, and knows no `\(`. */

/** A character of a formula: no blank line is in one. Bounded, since a text may begin thousands that do not end. */
const INSIDE = String.raw`(?:\\[^]|(?!\n\s*\n)[^\\])`;
const PARTS = new RegExp(
  [
    String.raw`(^[ \t>]*(\`{3,}|~{3,})[^]*?(?:^[ \t>]*\2|$(?![^]))|(?<!\`)(\`+)(?!\`)[^]{0,2000}?[^\`]\3(?!\`))`, // code
    String.raw`(\\begin\{|\$\$${INSIDE}{1,2000}?\$\$)`,
    // As Pandoc has it: no blank stands behind the first dollar or before the second one, and no digit behind that.
    String.raw`(\$(?![\s$])(?:\\[^]|(?!\n\s*\n)[^\\$]){1,2000}?(?<!\s)\$(?!\d))`,
    String.raw`\\?\\\((?<inline>${INSIDE}{1,2000}?)\\?\\\)`,
    String.raw`^[ \t>]*\\?\\\[(?<display>${INSIDE}{1,2000}?)\\?\\\][ \t]*$`,
    String.raw`\\?\$`
  ].join('|'),
  'gm'
);

/** The Markdown with formulas as JupyterLab knows them and other dollars apart, and whether there is a formula in it. */
export function withFormulas(text: string): [markdown: string, has: boolean] {
  let has = false;
  const markdown = text.replace(PARTS, (found, code, ...rest) => {
    const { inline, display } = rest[rest.length - 1] as { inline?: string; display?: string };
    if (code !== undefined) {
      return found;
    }
    if (/^\\?\$$/.test(found)) {
      return '<span>\\$</span>'; // no formula goes on over the end of an element
    }
    has = true;
    return inline !== undefined ? `$${inline}$` : display !== undefined ? `$$${display}$$` : found;
  });
  return [markdown, has];
}
