// Bytes that other people and programs wrote: as text, or in hexadecimal where they are no text.
import { bytes, exact, NONE } from './format.js';
import { h, setText, show } from './dom.js';

const LINE = 8; // fits a phone
const SHORT = 200; // bytes that are shown without a click

function hexadecimal(hex) {
  const lines = [];
  for (let at = 0; at < hex.length; at += 2 * LINE) {
    const pairs = hex.slice(at, at + 2 * LINE).match(/../g);
    const letters = pairs.map((pair) => parseInt(pair, 16)).map((code) => (code >= 32 && code < 127 ? String.fromCharCode(code) : '.'));
    lines.push(`${(at / 2).toString(16).padStart(4, '0')}  ${pairs.join(' ').padEnd(3 * LINE - 1)}  ${letters.join('')}`);
  }
  return lines.join('\n');
}

// What the API says of some bytes: {text, hex, bytes}, or null where they are not kept. `hex` is not null where they are no text.
export const bytesOf = (job, name) => (job[name] === null || job[name] === undefined ? null : { text: job[name], hex: job[`${name}_hex`], bytes: job[`${name}_bytes`] });

// An element for them. `absent`: what is said where they are not kept. Longer ones are opened by a click.
export function bytesView(label, absent = NONE) {
  const size = h('summary');
  const content = h('pre', { 'class': 'bytes', 'tabindex': 0, 'role': 'group', 'aria-label': label });
  const details = h('details', {}, size, content);
  const none = h('span', { class: 'note' }, absent);
  const element = h('div', { class: 'bytes-view' }, details, none);
  let known = null;
  // undefined: not read yet.
  const update = (value) => {
    show(details, value?.bytes > 0);
    show(none, !(value?.bytes > 0));
    setText(none, value === undefined ? '' : value === null ? absent : 'empty');
    if (!value) return;
    const shown = value.hex ? value.hex.length / 2 : new TextEncoder().encode(value.text).length;
    setText(size, `${bytes(value.bytes)}${value.hex ? ', not text' : ''}${shown < value.bytes ? `, the first ${exact(shown)} of ${exact(value.bytes)} bytes` : ''}`);
    content.classList.toggle('hex', value.hex !== null);
    setText(content, value.hex ? hexadecimal(value.hex) : value.text);
    // Once, so that it stays as the user leaves it.
    const key = `${value.bytes} ${value.text}`;
    if (known !== key) details.open = value.bytes <= SHORT;
    known = key;
  };
  return { element, update };
}
