// The list of batches: state, progress, and why each waits.
import { api } from './api.js';
import { count, duration, exact, NONE, percent, rate, words } from './format.js';
import { h, keyed, setAttribute, setNumber, setText, setTime, setTitle, show, table } from './dom.js';
import { explanation, timeLeft } from './explain.js';
import { fractionOver, progress } from './charts.js';
import { selection } from './selection.js';

const PAGE = 50;
const MOST_LOOKS = 8; // requests for one page, because the daemon's pages may be short
const TYPING_MS = 300;
const STATES = [['', 'all'], ['active', 'active'], ['open', 'open'], ['queued', 'queued'], ['running', 'running'], ['done', 'done'], ['failed', 'with failures'], ['cancelled', 'cancelled']];

export const keyOf = (batch) => `${batch.tenant}/${batch.id}`;
export const linkTo = (batch) => `#/batches/${encodeURIComponent(batch.id)}?${new URLSearchParams({ tenant: batch.tenant })}`;

// The state to show: paused takes precedence over running.
export function shownState(batch) {
  if (batch.paused && !batch.finished_at) return 'paused';
  return batch.state;
}

export function statePill() {
  const element = h('span', { class: 'state' });
  const update = (batch) => {
    const state = shownState(batch);
    setText(element, state);
    const kind = `state ${state}${state === 'done' && batch.failed ? ' with-failures' : ''}`;
    if (element.className !== kind) element.className = kind;
  };
  return { element, update };
}

export function progressText(batch) {
  const over = batch.ok + batch.failed + batch.cancelled;
  return `${exact(over)} of ${exact(batch.jobs)} jobs have ended: ${exact(batch.ok)} ok, ${exact(batch.failed)} failed, ${exact(batch.cancelled)} cancelled; ${exact(batch.running)} running, ${exact(batch.queued)} queued`;
}

// A word matches anywhere in id and name; a glob is used as it is.
const globOf = (text) => (text && !/[*?[\]\\]/.test(text) ? `*${text}*` : text);

function filters(fields, changed) {
  const state = h('select', { id: 'filter-state' }, STATES.map(([value, text]) => h('option', { value }, text)));
  const input = (id, more = {}) => h('input', { id, type: 'text', autocomplete: 'off', spellcheck: 'false', maxlength: 254, ...more });
  const inputs = { state, tenant: input('filter-tenant', { list: 'tenants' }), customer: input('filter-customer'), handler: input('filter-handler', { list: 'handlers' }), match: input('filter-match', { type: 'search', placeholder: 'part of it, or a glob' }) };
  const field = (name, text) => h('label', { 'for': inputs[name].id, 'class': 'field' }, text, inputs[name]);
  const lists = { tenants: h('datalist', { id: 'tenants' }), handlers: h('datalist', { id: 'handlers' }) };
  const tenantField = field('tenant', 'Tenant');
  const element = h('form', { 'class': 'filters', 'role': 'search', 'aria-label': 'Filter' }, field('match', 'Name or id'), field('state', 'State'), tenantField, field('customer', 'Customer'), field('handler', 'Handler'), Object.values(lists));
  let timer = null;
  const read = () => Object.fromEntries(Object.entries(inputs).map(([name, one]) => [name, one.value.trim()]));
  element.addEventListener('input', (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => changed(read()), event.target === state ? 0 : TYPING_MS);
  });
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    clearTimeout(timer);
    changed(read());
  });
  const set = (values) => {
    for (const [name, one] of Object.entries(inputs)) if (one.value.trim() !== (values[name] ?? '')) one.value = values[name] ?? '';
  };
  set(fields);
  const known = (overview, admin) => {
    show(tenantField, admin);
    const options = (list, names) => keyed(list, names, (name) => name, (name) => ({ element: h('option', { value: name }) }), () => {});
    options(lists.tenants, overview.tenants.map((row) => row.tenant));
    options(lists.handlers, overview.handlers.map((row) => row.name));
  };
  return { element, set, known };
}

function rowMaker(list, toggle, select) {
  return (item) => {
    if (item.why) {
      const why = explanation();
      const element = h('tr', { class: 'why' }, h('td', { colspan: 13 }, why.element));
      return { element, why };
    }
    const row = list.row();
    const { cells } = row;
    const part = { ...row, state: statePill(), bar: progress(), link: h('a', { class: 'name' }), id: h('span', { class: 'id' }), about: h('span', { class: 'beside' }), reason: h('span', { class: 'note' }), time: h('time') };
    part.button = h('button', { type: 'button', class: 'small', onclick: () => toggle(part.key) }, 'Why?');
    part.box = h('input', { type: 'checkbox', onchange: () => select(part.key, part.box.checked) });
    cells.pick.append(h('label', { class: 'box' }, part.box));
    cells.state.append(part.state.element, part.reason);
    cells.batch.append(part.link, part.id);
    cells.progress.append(part.bar.element, part.about);
    cells.submitted.append(part.time);
    cells.why.append(part.button);
    return part;
  };
}

function fillRow(batch, part, now, opened, selected) {
  const { cells } = part;
  const over = batch.finished_at > 0;
  part.key = keyOf(batch);
  part.box.checked = selected;
  part.element.classList.toggle('selected', selected);
  setAttribute(part.box, 'aria-label', `Select ${batch.name || batch.id}`);
  part.state.update(batch);
  setText(part.reason, over || batch.reason === 'running' || batch.paused ? '' : words(batch.reason));
  setText(part.link, batch.name || batch.id);
  setAttribute(part.link, 'href', linkTo(batch));
  setTitle(part.link, batch.name);
  setText(part.id, batch.name ? batch.id : '');
  setText(cells.tenant, batch.tenant);
  setText(cells.customer, batch.customer || NONE);
  setText(cells.handler, batch.handler);
  part.bar.update(batch, progressText(batch));
  setText(part.about, batch.jobs ? `${percent(fractionOver(batch))} of ${count(batch.jobs)}` : 'no jobs');
  setTitle(part.about, `${exact(batch.jobs)} jobs`);
  setNumber(cells.rate, over ? NONE : rate(batch.jobs_per_second), over ? '' : `${exact(batch.jobs_per_second)} jobs a second`);
  setNumber(cells.left, duration(timeLeft(batch)), over || batch.eta_ms < 0 ? '' : `${exact(batch.eta_ms)} ms`);
  setNumber(cells.failed, count(batch.failed), exact(batch.failed));
  cells.failed.classList.toggle('some', batch.failed > 0);
  setText(cells.weight, `${batch.weight}`);
  setTime(part.time, batch.submitted_at, now);
  show(part.button, !over);
  setAttribute(part.button, 'aria-expanded', opened);
  setAttribute(part.button, 'aria-label', `Why? ${batch.name || batch.id}`);
}

export function batchesView(fields, { clock, session, say, again, firstCommand }) {
  const list = table('Batches, newest first', [
    ['pick', 'Select', 'pick bare'], ['state', 'State'], ['batch', 'Batch', 'name'], ['tenant', 'Tenant', 'tenant'], ['customer', 'Customer', 'customer'], ['handler', 'Handler', 'handler'], ['progress', 'Progress', 'wide'], ['rate', 'Rate', 'number'],
    ['left', 'Time left', 'number'], ['failed', 'Failed', 'number'], ['weight', 'Weight', 'number'], ['submitted', 'Submitted', 'number'], ['why', 'Reason', 'number bare'],
  ]);
  list.element.classList.add('batches');
  const heading = h('h1', { tabindex: -1 }, 'Batches');
  const picked = selection(keyOf, say, again);
  picked.onChange(() => draw());
  const form = filters(fields, changed);
  const nothing = h('p', { class: 'quiet', hidden: '' });
  const first = h('button', { type: 'button', onclick: () => turn(() => cursors.splice(1)) }, 'Newest');
  const back = h('button', { type: 'button', onclick: () => turn(() => cursors.pop()) }, 'Newer');
  const on = h('button', { type: 'button', onclick: () => turn(() => cursors.push(next)) }, 'Older');
  const where = h('span', { class: 'note' });
  const pages = h('nav', { 'class': 'pages', 'aria-label': 'Pages' }, first, back, on, where);
  const element = h('div', { class: 'view' }, heading, form.element, h('section', { class: 'card' }, picked.element, list.element, nothing, pages));
  let cursors = [null]; // the cursors of the pages up to this one
  let next = null;
  let rows = [];
  const opened = new Map(); // by key: the batch, once it has been read
  const make = rowMaker(list, (key) => {
    if (!opened.delete(key)) opened.set(key, rows.find((row) => keyOf(row) === key));
    draw();
    again();
  }, (key, on) => picked.toggle(rows.find((row) => keyOf(row) === key), on));

  function changed(wanted) {
    fields = wanted;
    cursors = [null];
    const kept = Object.entries(fields).filter(([, value]) => value);
    history.replaceState(null, '', kept.length ? `#/batches?${new URLSearchParams(kept)}` : '#/batches');
    again();
  }

  function turn(move) {
    move();
    again();
  }

  function draw() {
    const now = clock();
    const admin = session()?.may.admin ?? false;
    list.element.classList.toggle('one-tenant', !admin);
    list.element.classList.toggle('no-customer', !rows.some((batch) => batch.customer));
    const control = session()?.may.control ?? false;
    list.element.classList.toggle('no-control', !control);
    const items = rows.flatMap((batch) => (opened.has(keyOf(batch)) ? [{ batch }, { batch, why: true }] : [{ batch }]));
    keyed(list.body, items, ({ batch, why }) => (why ? 'why ' : 'row ') + keyOf(batch), make, ({ batch, why }, part) => {
      if (why) part.why.update({ ...opened.get(keyOf(batch)), ...batch });
      else fillRow(batch, part, now, opened.has(keyOf(batch)), picked.has(batch));
    });
    show(list.element, rows.length > 0);
    const filtered = Object.values(fields).some(Boolean);
    show(nothing, rows.length === 0);
    const command = firstCommand();
    const empty = command ? `There are no batches. Submit one: ${command}` : 'There are no batches.';
    setText(nothing, next !== null ? 'None so far; older batches have not been searched.' : cursors.length > 1 ? 'There are no older batches.' : filtered ? 'No batch matches.' : empty);
    first.disabled = back.disabled = cursors.length === 1;
    on.disabled = next === null;
    show(pages, cursors.length > 1 || next !== null);
    setText(where, `page ${cursors.length}`);
  }

  async function load(signal) {
    const { state, tenant, customer, handler, match } = fields;
    const asked = { state, tenant, customer, handler, match: globOf(match) };
    let found = [];
    let cursor = cursors.at(-1);
    for (let look = 0; look < MOST_LOOKS; look += 1) {
      const page = await api.batches({ ...asked, cursor, count: PAGE - found.length }, signal);
      found = found.concat(page.batches);
      cursor = page.cursor;
      if (cursor === null || found.length >= PAGE) break;
    }
    // Open explanations need members that the list does not have.
    for (const key of opened.keys()) {
      const row = found.find((batch) => keyOf(batch) === key);
      if (!row) opened.delete(key);
      else opened.set(key, await api.batch(row, signal).catch(() => row));
    }
    rows = found;
    next = cursor;
    picked.update(rows, session()?.may.control ?? false);
    draw();
  }

  return {
    element,
    title: 'Batches',
    load,
    overview: (overview) => form.known(overview, session()?.may.admin ?? false),
    // The filters in the address have changed.
    go(wanted) {
      form.set(wanted);
      fields = wanted;
      cursors = [null];
    },
  };
}
