// Elements, created by calls. No string contains markup, so names chosen by other people stay text.
import { ago, exactTime, NONE } from './format.js';

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else setAttribute(element, name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// These change the page only where a value differs, so that selections, focus and screen readers are not disturbed.
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setTitle(element, text) {
  setAttribute(element, 'title', text || null);
}

export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

// A rounded number, with the exact one as its title.
export function setNumber(element, text, exact) {
  setText(element, text);
  setTitle(element, exact === text ? '' : exact);
}

// A <time>: relative, with the exact time as its title.
export function setTime(element, at_ms, now_ms) {
  setText(element, at_ms ? ago(at_ms, now_ms) : NONE);
  setTitle(element, exactTime(at_ms));
  setAttribute(element, 'datetime', at_ms ? new Date(at_ms).toISOString() : null);
}

// Gives `parent` one child for each of `items`, in their order, and reuses existing elements. `make` returns an object with
// `element`, and `update(item, part)` fills it.
export function keyed(parent, items, keyOf, make, update) {
  const known = (parent.keyed ??= new Map());
  const seen = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    if (seen.has(key)) continue;
    seen.add(key);
    let part = known.get(key);
    if (!part) known.set(key, (part = make(item)));
    if (part.element === place) place = place.nextElementSibling;
    else parent.insertBefore(part.element, place);
    update(item, part);
  }
  for (const [key, part] of known) {
    if (seen.has(key)) continue;
    part.element.remove();
    known.delete(key);
  }
}

// A table whose cells carry the name of their column, for narrow screens. `columns`: [key, title, classes]. With the class `bare` the
// title is for screen readers alone, because the cells speak for themselves.
export function table(caption, columns) {
  const body = h('tbody');
  const bare = (classes) => classes?.split(' ').includes('bare');
  const head = columns.map(([, title, classes]) => h('th', { scope: 'col', class: classes }, bare(classes) ? h('span', { class: 'unseen' }, title) : title));
  const element = h('table', {}, h('caption', { class: 'unseen' }, caption), h('thead', {}, h('tr', {}, head)), body);
  const row = () => {
    const cells = {};
    for (const [key, title, classes] of columns) cells[key] = h('td', { 'class': classes, 'data-title': bare(classes) ? '' : title });
    return { element: h('tr', {}, Object.values(cells)), cells };
  };
  return { element, body, row };
}
