/** What of a kernel's replies is left. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { tame } from '../lib/replies.js';

function tamed(content, channel = 'shell') {
  tame({ channel, content });
  return content;
}

test('what a kernel knows of a name is text and pictures', () => {
  const data = { 'text/plain': 'a', 'image/png': 'AA==', 'image/jpeg': { a: 1 }, 'text/html': '<b>', 'application/vnd.vega.v5+json': {} };
  const still = { 'text/plain': 'a', 'image/png': 'AA==' };
  assert.deepEqual(tamed({ found: true, data }), { found: true, data: still });
  assert.deepEqual(tamed({ success: true, body: { data, metadata: {} } }, 'control'), { success: true, body: { data: still, metadata: {} } });
});

test('it writes no cells, and makes no links', () => {
  assert.deepEqual(tamed({ payload: [{ source: 'set_next_input' }], help_links: [{ url: 'javascript:1' }] }), { payload: [], help_links: [] });
});

test('of its language only the version is its own', () => {
  const { language_info: found } = tamed({ language_info: { version: '3.11.7<b>', nbconvert_exporter: 'os.system', file_extension: '/../x' } });
  assert.deepEqual([found.version, found.nbconvert_exporter, found.file_extension], ['3.11.7', 'python', '.py']);
  assert.equal(tamed({ language_info: null }).language_info.version, '');
});

test('outputs and odd replies are left as they are', () => {
  const content = { data: { 'text/html': '<b>' } };
  assert.deepEqual(tamed(content, 'iopub'), { data: { 'text/html': '<b>' } });
  for (const odd of [{}, { data: null }, { body: null }, { data: 'x', body: 3 }]) {
    assert.deepEqual(tamed({ ...odd }), odd);
  }
});
