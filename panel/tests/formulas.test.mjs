/** What is a formula in an answer, and what is money. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { withFormulas } from '../lib/formulas.js';

const SIGN = '<span>\\$</span>';

test('prices are no formulas', () => {
  for (const text of ['from $1,200 in May to $1,500', '\\$5 and \\$6', '$5-$10 (was $3)', '**$1.2M** and **$1.5M**', 'US$5']) {
    assert.deepEqual(withFormulas(text), [text.replace(/\\?\$/g, () => SIGN), false]);
  }
});

test('formulas stay, in whichever signs a model writes them', () => {
  for (const text of ['$x$ and $$\\bar{x}\n= 1$$', '$5x + \\$3$, so', '\\begin{align}x\\end{align}', '|$x_1$|$\\alpha$|']) {
    assert.deepEqual(withFormulas(text), [text, true]);
  }
  assert.deepEqual(withFormulas('so \\( x^2 \\) costs $3'), [`so $ x^2 $ costs ${SIGN}3`, true]);
  assert.deepEqual(withFormulas('\\\\(x\\\\)'), ['$x$', true]);
  assert.deepEqual(withFormulas('is\n\\[\nx\n\\]\nhere'), ['is\n$$\nx\n$$\nhere', true]);
  assert.deepEqual(withFormulas('as said \\[1\\] there'), ['as said \\[1\\] there', false]);
});

test('nothing in code is a formula', () => {
  for (const text of ['`$HOME` and ``$a ` $b``', '```sh\necho $x $y\n```', '~~~\n$x$\n~~~', '```\n$x$', '```\n\\(x\\)\n```']) {
    assert.deepEqual(withFormulas(text), [text, false]);
  }
});

test('what begins and never ends takes no time', () => {
  for (const sign of ['$', '$x', '$$', '\\(', '\n\\[', '`', '``a', '```', '\n~~~', '\\', '\\begin{', '\n\n', '$ \n']) {
    const began = performance.now();
    withFormulas(sign.repeat(200_000 / sign.length));
    assert.ok(performance.now() - began < 5_000, sign);
  }
});
