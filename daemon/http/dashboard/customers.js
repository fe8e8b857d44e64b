// The customers of a user: those that have settings or batches that are not over, with their shares.
import { api } from './api.js';
import { count, exact, percent } from './format.js';
import { h, keyed, setAttribute, setNumber, setText, show, table } from './dom.js';
import { meter } from './charts.js';

const PAGE = 50;
const MOST_LOOKS = 8; // requests for one page, because the daemon's pages may be short
const TYPING_MS = 300;

const cap = (number) => (number === 0 ? '–' : count(number));
const batchesOf = ({ tenant, customer }) => `#/batches?${new URLSearchParams({ tenant, customer, state: 'active' })}`;
const globOf = (text, whole) => (text && !/[*?[\]\\]/.test(text) ? `${whole ? '*' : ''}${text}*` : text);

function filters(fields, changed) {
  const input = (id, more = {}) => h('input', { id, type: 'text', autocomplete: 'off', spellcheck: 'false', maxlength: 254, ...more });
  const inputs = { tenant: input('filter-tenant'), match: input('filter-match', { type: 'search', placeholder: 'part of it, or a glob' }) };
  const field = (name, text) => h('label', { 'for': inputs[name].id, 'class': 'field' }, text, inputs[name]);
  const tenantField = field('tenant', 'Tenant');
  const element = h('form', { 'class': 'filters', 'role': 'search', 'aria-label': 'Filter' }, field('match', 'Customer'), tenantField);
  let timer = null;
  const read = () => Object.fromEntries(Object.entries(inputs).map(([name, one]) => [name, one.value.trim()]));
  const soon = (wait) => {
    clearTimeout(timer);
    timer = setTimeout(() => changed(read()), wait);
  };
  element.addEventListener('input', () => soon(TYPING_MS));
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    soon(0);
  });
  const set = (values) => {
    for (const [name, one] of Object.entries(inputs)) if (one.value.trim() !== (values[name] ?? '')) one.value = values[name] ?? '';
  };
  set(fields);
  return { element, set, admin: (is) => show(tenantField, is) };
}

function makeRow(list) {
  const row = list.row();
  const link = h('a', { class: 'name' });
  row.cells.customer.append(link);
  const due = meter('due');
  const received = meter();
  const dueText = h('span', { class: 'beside' });
  const receivedText = h('span', { class: 'beside' });
  row.cells.share.append(h('span', { class: 'with-meter' }, due.element, dueText), h('span', { class: 'with-meter' }, received.element, receivedText));
  return { ...row, link, due, received, dueText, receivedText };
}

function fillRow(row, { cells, link, due, received, dueText, receivedText }) {
  const name = row.customer || '(none)';
  setText(link, name);
  setAttribute(link, 'href', row.customer ? batchesOf(row) : null);
  setText(cells.tenant, row.tenant);
  due.update(row.share, `share due to ${name}`, percent(row.share));
  received.update(row.received, `share received by ${name}`, percent(row.received));
  setText(dueText, `due ${percent(row.share)}`);
  setText(receivedText, `got ${percent(row.received)}`);
  for (const key of ['weight', 'batches', 'running']) setNumber(cells[key], count(row[key]), exact(row[key]));
  setNumber(cells.jobs, row.max_jobs ? `${count(row.jobs)} of ${count(row.max_jobs)}` : count(row.jobs), exact(row.jobs));
  setNumber(cells.slots, cap(row.slots), row.slots ? exact(row.slots) : 'no limit');
  setText(cells.rate, row.rate === '0' ? '–' : row.rate);
}

export function customersView(fields, { session, again, firstCommand }) {
  const list = table('Customers', [
    ['customer', 'Customer', 'name'], ['tenant', 'Tenant', 'tenant'], ['share', 'Share: due, received', 'wide'], ['weight', 'Weight', 'number'],
    ['slots', 'Slots', 'number'], ['rate', 'Rate', 'number'], ['jobs', 'Jobs', 'number'], ['running', 'Running', 'number'], ['batches', 'Batches', 'number'],
  ]);
  const heading = h('h1', { tabindex: -1 }, 'Customers');
  const form = filters(fields, changed);
  const nothing = h('p', { class: 'quiet', hidden: '' });
  const back = h('button', { type: 'button', onclick: () => turn(() => cursors.pop()) }, 'Newer');
  const on = h('button', { type: 'button', onclick: () => turn(() => cursors.push(next)) }, 'Older');
  const where = h('span', { class: 'note' });
  const pages = h('nav', { 'class': 'pages', 'aria-label': 'Pages' }, back, on, where);
  const element = h('div', { class: 'view' }, heading, form.element, h('section', { class: 'card' }, list.element, nothing, pages));
  let cursors = [null]; // the cursors of the pages up to this one
  let next = null;

  function changed(wanted) {
    fields = wanted;
    cursors = [null];
    const kept = Object.entries(fields).filter(([, value]) => value);
    history.replaceState(null, '', kept.length ? `#/customers?${new URLSearchParams(kept)}` : '#/customers');
    again();
  }

  function turn(move) {
    move();
    again();
  }

  async function load(signal) {
    const admin = session()?.may.admin ?? false;
    const { tenant, match } = fields;
    let found = [];
    let cursor = cursors.at(-1);
    for (let look = 0; look < MOST_LOOKS; look += 1) {
      const page = await api.customers({ tenant, match: globOf(match, true), cursor, count: PAGE - found.length }, signal);
      found = found.concat(page.customers);
      cursor = page.cursor;
      if (cursor === null || found.length >= PAGE) break;
    }
    next = cursor;
    form.admin(admin);
    list.element.classList.toggle('one-tenant', !admin);
    keyed(list.body, found, (row) => `${row.tenant}/${row.customer}`, () => makeRow(list), fillRow);
    show(list.element, found.length > 0);
    show(nothing, found.length === 0);
    const command = firstCommand('--for acme');
    const empty = `No customer has settings or unfinished batches.${command ? ` Name one: ${command}` : ''}`;
    setText(nothing, next !== null ? 'None so far; there are more to search.' : Object.values(fields).some(Boolean) ? 'No customer matches.' : empty);
    back.disabled = cursors.length === 1;
    on.disabled = next === null;
    show(pages, cursors.length > 1 || next !== null);
    setText(where, `page ${cursors.length}`);
  }

  return {
    element,
    title: 'Customers',
    load,
    overview: () => {},
    // The filters in the address have changed.
    go(wanted) {
      form.set(wanted);
      fields = wanted;
      cursors = [null];
    },
  };
}
