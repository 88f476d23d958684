/** What nbagent itself says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { inWords } from '../lib/sentences.js';
import { untranslated } from '../lib/translate.js';

test('rules of an allow list are told in words', () => {
  for (const [rules, words] of [
    [['cell:*'], 'every cell'],
    [['shell:git', 'shell:git *'], 'the program git'],
    [['shell:rm [*].csv && ls'], 'the command rm *.csv && ls'],
    [['install:polars', 'install:scipy'], 'the package polars, the package scipy'],
    [['shell:*', 'odd'], 'every program, odd odd']
  ]) {
    assert.equal(inWords(rules, untranslated), words);
  }
});
