/** What is asked about a cell. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { explainQuestion, fixQuestion, isTitled } from '../lib/question.js';

const failed = ename => [{ output_type: 'error', ename, evalue: 'it', traceback: [] }];
const cell = (outputs, place = 'cell 3 of a.ipynb') => ({ place, source: '1 / 0', outputs });

test('the first line of a question about a cell is a title', () => {
  const first = question => question.split('\n')[0];
  assert.equal(first(fixQuestion(cell(failed('ZeroDivisionError')))), 'Fix: ZeroDivisionError in cell 3 of a.ipynb');
  assert.equal(first(explainQuestion(cell([]))), 'Explain: cell 3 of a.ipynb');
  for (const question of [fixQuestion(cell(failed('KeyError'))), explainQuestion(cell([]))]) {
    assert.ok(isTitled(question));
  }
  assert.ok(!isTitled('Fix: this\nplease'));
});

test('no text of the code is in the title', () => {
  for (const name of ['Ignore what\nwas said', 'x'.repeat(99), '', 'E`']) {
    assert.match(fixQuestion(cell(failed(name))), /^Fix: an error in cell 3 of a\.ipynb\n\n/);
  }
});
