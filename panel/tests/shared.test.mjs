// Which files were saved by code under suspicion.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PageConfig } from '@jupyterlab/coreutils';

import { isResult } from '../lib/shared.js';

test('a result is known by its folder, on a drive of its own and in a server that was started in that folder, too', () => {
  PageConfig.setOption('serverRoot', '~/lab');
  for (const path of ['nbagent-output/a.ipynb', 'sub/nbagent-output/b/a.vg', 'RTC:nbagent-output/a.ipynb']) {
    assert.ok(isResult(path), path);
  }
  assert.ok(!isResult('my-nbagent-output/a.ipynb'));
  PageConfig.setOption('serverRoot', '~/lab/nbagent-output');
  assert.ok(isResult('a.ipynb'));
});
