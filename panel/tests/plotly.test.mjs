// Figures of Plotly's: those that load nothing are drawn, all others are left out.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { plain } from '../lib/plotly.js';

const line = { type: 'scatter', x: [1, 2], y: [3, 4], name: 'a' };
const button = args => ({ updatemenus: [{ buttons: [{ method: 'relayout', args }] }] });

test('a plain figure is drawn, without its config', () => {
  const layout = { title: { text: 'A' }, template: { data: { choropleth: [{ type: 'choropleth' }] } } };
  assert.deepEqual(plain({ data: [line], layout, config: { plotlyServerURL: 'x' } }), { data: [line], layout });
  const picture = { images: [{ source: 'data:image/png;base64,AAAA' }] };
  assert.deepEqual(plain({ data: [{ type: 'heatmap' }], layout: picture }), { data: [{ type: 'heatmap' }], layout: picture });
});

test('a figure that could load something is left out', () => {
  const deep = [];
  for (let at = deep, left = 100_000; left--; at = at[0]) {
    at.push([]);
  }
  for (const [data, layout] of [
    [[{ type: 'scattermap' }], {}], [[line], { map2: {} }], [[line], { images: [{ source: '/x.png' }] }],
    [[line], { title: { text: '<a href="//host.test">x</a>' } }], [[line], { title: { text: 'https:host.test' } }],
    [[line], button([{ 'images[0].source': 'x' }])], [[line], button(['images[0].source', 'x'])],
    [[line], button([{ type: 'choropleth' }])], [[{ ...line, name: 'url (x)' }], {}], [deep, {}],
    [[line], JSON.parse('{"xaxis": {"__proto__": {"ran": 1}}}')], [[{ ...line, 'marker.constructor.prototype.ran': 1 }], {}],
    [[line], button(['xaxis.__proto__.ran', 1])], [{}, {}], [[line], null]
  ]) {
    assert.equal(plain({ data, layout }), null, JSON.stringify(layout));
  }
  assert.equal(plain('figure'), null);
});
