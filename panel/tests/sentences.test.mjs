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

test('all that Unicode lets a page ignore, and what is blank besides, is shown by its number', () => {
  for (const text of ['\u2800', '\u{16fe4}', '\u{1d159}', '\ue000', '\u2029', '\ud800', '\r']) {
    assert.match(visible(`a${text}b`), /^a⟨U\+[0-9A-F]+⟩b$/);
  }
  for (let code = 0; code < 0x110000; code++) {
    const sign = String.fromCodePoint(code);
    if (/\p{DI}/u.test(sign)) {
      assert.match(visible(`a${sign}b`), /^a⟨U\+[0-9A-F]+⟩b$/, code.toString(16));
    }
  }
  assert.equal(visible('a b\u00a0c\u3000d\n\te'), 'a b\u00a0c\u3000d\n\te');
});
