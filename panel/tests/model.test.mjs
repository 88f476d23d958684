// The conversation, made of records: what is shown follows from the log alone, however it comes.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Conversation } from '../lib/model.js';

let seq = 0;
const record = event => ({ seq: ++seq, at: 1000 + seq, event });
const text = (cell, text) => record({ type: 'OutputAdded', cell, output: { output_type: 'stream', name: 'stdout', text } });
const asked = record({ type: 'Asked', turn: 1, question: 'How many?\nReally?', model: 'openai:x' });
const started = record({ type: 'CellStarted', cell: 1, turn: 1, code: 'print(1)', tool: 'python' });
const answered = record({ type: 'Answered', turn: 1, text: 'One.', success: true, attempts: 1 });

function taken(...records) {
  const conversation = new Conversation();
  conversation.take(records);
  return conversation;
}

test('a question is open until it is answered', () => {
  const conversation = taken(asked);
  assert.equal(conversation.asking, 1);
  assert.equal(conversation.about.title, 'How many?');
  conversation.take([answered]);
  assert.equal(conversation.asking, 0);
  assert.deepEqual(conversation.items.map(each => each.kind), ['question', 'answer']);
});

test('pieces of a stream are one output, of which a running cell keeps the end', () => {
  const conversation = taken(asked, started, text(1, 'a'), text(1, 'b'), text(1, 'x'.repeat(100_000)));
  const [output] = conversation.cell(1).outputs;
  assert.equal(conversation.cell(1).outputs.length, 1);
  assert.ok(output.text.length <= 64 * 1024);
  const done = record({ type: 'CellFinished', cell: 1, status: 'ok', duration: 2, outputs: [{ output_type: 'stream', name: 'stdout', text: 'ab' }] });
  conversation.take([done]);
  assert.equal(conversation.cell(1).outputs[0].text, 'ab');
  assert.equal(conversation.running, 0);
});

test('how a cell failed is shown at its end, with what of it is the own', () => {
  const error = { output_type: 'error', ename: 'E', evalue: '', traceback: ['theirs', 'E: '] };
  const conversation = taken(asked, started, record({ type: 'OutputAdded', cell: 1, output: error }));
  assert.deepEqual(conversation.cell(1).outputs, [], 'it may be mended by an install');
  const done = { type: 'CellFinished', cell: 1, status: 'error', outputs: [error] };
  conversation.take([{ ...record(done), own: { 0: ['E: '] } }]);
  assert.deepEqual(conversation.cell(1).own, { 0: ['E: '] });
  assert.deepEqual(conversation.cell(1).outputs, [error]);
});

test('a display changes where it is shown, and in an ended cell by its id alone', () => {
  const shown = data => ({ output_type: 'display_data', data: { 'text/plain': data }, metadata: {} });
  const conversation = taken(
    asked,
    started,
    record({ type: 'CellFinished', cell: 1, status: 'ok', outputs: [shown('one'), shown('two')], display_ids: ['a', ''] }),
    record({ type: 'OutputUpdated', cell: 1, display_id: 'a', data: { 'text/plain': 'new' }, changed: [1] }),
    record({ type: 'OutputUpdated', cell: 1, display_id: 'forged', data: { 'text/plain': 'bad' } })
  );
  assert.deepEqual(conversation.cell(1).outputs.map(each => each.data['text/plain']), ['new', 'two']);
});

test('words are shown while they are written, and become the answer in their place', () => {
  const conversation = taken(asked);
  conversation.say(1, 'O');
  conversation.say(1, 'ne');
  const [, live] = conversation.items;
  assert.equal(live.text, 'One'.slice(0, 3));
  conversation.take([record({ type: 'ModelReplied', turn: 1, text: 'One.' }), answered]);
  assert.equal(conversation.items[1], live);
  assert.equal(live.live, false);
  assert.equal(live.text, 'One.');
});

test('words stay where they were written when the question is stopped', () => {
  const conversation = taken(asked);
  conversation.say(1, 'One, t');
  const [, live] = conversation.items;
  conversation.take([record({ type: 'Answered', turn: 1, text: 'Stopped. So far:\n\nOne, t', success: false })]);
  assert.deepEqual(conversation.items, [conversation.items[0], live]);
  assert.match(live.text, /One, t$/);
  assert.equal(conversation.news, 'The question has ended: Stopped. So far:');
});

test('words before a cell are said once', () => {
  const conversation = taken(asked);
  conversation.say(1, 'Let me');
  conversation.take([record({ type: 'ModelReplied', turn: 1, text: 'Let me look.', tools: ['python'] }), started]);
  assert.deepEqual(conversation.items.map(each => each.kind), ['question', 'words', 'cell']);
});

test('nobody is asked about what has ended', () => {
  const approval = record({ type: 'ApprovalAsked', id: 'a', turn: 1, kind: 'cell', tool: 'python', what: 'x' });
  const conversation = taken(asked, approval, record({ type: 'HostAsked', id: 'h', host: 'x.org', port: 443 }));
  assert.equal(conversation.open.length, 2);
  conversation.take([record({ type: 'ApprovalGiven', id: 'a', turn: 1, decision: 'reject', by: 'person', reason: 'no' })]);
  assert.equal(conversation.open.length, 1);
  conversation.take([record({ type: 'SessionEnded' })]);
  assert.equal(conversation.open.length, 0);
  assert.equal(conversation.asking, 0);
});

test('what is spent is known only if every price is', () => {
  const used = cost => record({ type: 'ModelReplied', turn: 1, text: 'x', tools: ['python'], usage: { input_tokens: 5, output_tokens: 2, calls: 1, cost } });
  assert.deepEqual(taken(asked, used(0.5), used(0.25)).spent, { tokens: 14, calls: 2, cost: 0.75 });
  assert.equal(taken(asked, used(0.5), used(null)).spent.cost, null);
});

test('what is said twice is heard twice', () => {
  const conversation = taken(asked, answered);
  assert.equal(conversation.news, 'Answered.');
  conversation.take([record({ type: 'Asked', turn: 2, question: 'And now?' })]);
  assert.equal(conversation.news, '', 'a live region is read out when its text changes');
});

test('a kernel that was lost is told of once', () => {
  const died = record({ type: 'CellFinished', cell: 1, status: 'died', note: 'All is lost.', outputs: [] });
  const conversation = taken(asked, started, record({ type: 'StateLost', cell: 1, reason: 'All is lost.' }), died);
  assert.deepEqual(conversation.items.map(each => each.kind), ['question', 'cell']);
  conversation.take([record({ type: 'StateLost', cell: 0, reason: 'Question 1 was undone.' })]);
  assert.equal(conversation.items[2].text, 'Question 1 was undone.');
});
