/** What nbagent itself says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { visible } from '../lib/safe.js';

test('what can not be seen is shown by its number, but for what joins letters and emoji', () => {
  for (const text of ['می\u200cخواهم', 'क्\u200dष', '⚠\ufe0f', '👩🏽\u200d💻', '❤\ufe0f\u200d🔥']) {
    assert.equal(visible(text), text);
  }
  assert.equal(visible('a\u200db x\u200c'), 'a⟨U+200D⟩b x⟨U+200C⟩');
  assert.equal(visible('a\ufe0f ⚠\ufe0f\ufe0f'), 'a⟨U+FE0F⟩ ⚠\ufe0f⟨U+FE0F⟩');
  assert.equal(visible('ab\u202ecd\u{e0041}'), 'ab⟨U+202E⟩cd⟨U+E0041⟩');
});
