// Single jobs in tables: those that run, and those of a batch that failed.
import { api } from './api.js';
import { bytesOf, bytesView } from './bytes.js';
import { count, duration, exact, NONE } from './format.js';
import { h, keyed, setAttribute, setNumber, setText, setTitle, show, table } from './dom.js';
import { meter } from './charts.js';

const RUNNING = 20; // rows
const FAILURES = 20;
const MOST_LOOKS = 8; // requests for one page of failures, because pages may be short

export const linkToJob = ({ id, tenant }, index) => `#/batches/${encodeURIComponent(id)}/jobs/${index}?${new URLSearchParams({ tenant })}`;

// Per cent as a job has said it; empty if it has not.
export function jobProgress() {
  const bar = meter();
  const text = h('span', { class: 'beside' });
  const element = h('span', { class: 'with-meter' }, bar.element, text);
  const update = (progress) => {
    const known = progress !== null && progress !== undefined;
    show(bar.element, known);
    setText(text, known ? `${progress}%` : NONE);
    if (known) bar.update(progress / 100, 'progress of the job', `${progress}%`);
  };
  return { element, update };
}

// The jobs that run, of one batch (`batch` returns its row) or of all that the user may see; longest first.
export function runningCard(batch = null) {
  const columns = [['job', 'Job', 'name'], ['time', 'Runs for', 'number'], ['attempt', 'Attempt', 'number'], ['worker', 'Worker', 'worker'], ['progress', 'Progress', 'wide'], ['note', 'Note', 'error']];
  const list = table('Running jobs, longest first', batch ? columns : [columns[0], ['handler', 'Handler', 'handler'], ...columns.slice(1)]);
  list.element.classList.add('running');
  const note = h('span', { class: 'note' });
  const element = h('section', { class: 'card', hidden: '' }, h('h2', {}, 'Running', note), list.element);
  let rows = [];
  const make = () => {
    const row = list.row();
    const link = h('a');
    const of = h('span', { class: 'id' });
    const bar = jobProgress();
    row.cells.job.append(link, of);
    row.cells.progress.append(bar.element);
    return { ...row, link, of, bar };
  };
  const draw = () => {
    show(element, rows.length > 0);
    setText(note, rows.length === RUNNING ? `the ${RUNNING} that have run longest` : `${exact(rows.length)}, longest first`);
    keyed(list.body, rows, (row) => `${row.tenant}/${row.id} ${row.index} ${row.attempt}`, make, (row, { cells, link, of, bar }) => {
      setText(link, `Job ${row.index}`);
      setAttribute(link, 'href', linkToJob(row, row.index));
      setText(of, batch ? '' : row.id);
      if (!batch) setText(cells.handler, row.handler);
      setNumber(cells.time, duration(row.since_ms / 1000), `${exact(row.since_ms)} ms`);
      setText(cells.attempt, `${row.attempt}`);
      setText(cells.worker, row.worker || NONE);
      bar.update(row.progress);
      setText(cells.note, row.note ?? NONE);
    });
  };
  // `any`: whether something runs at all, as far as the page knows.
  const load = async (any, signal) => {
    const of = batch?.();
    rows = any ? (await api.running({ id: of?.id, tenant: of?.tenant, count: RUNNING }, signal)).jobs : [];
    draw();
  };
  return { element, load };
}

// The failures read so far, in the order in which they happened. Not all of them are ever read.
export class Failures {
  rows = new Map();
  #batch;
  #changed;
  #from = null; // the cursor of the last page
  next = null; // the cursor of the next page
  #known = { failed: 0, retried: 0 };

  // `changed()` is called when a payload has come.
  constructor(batch, changed) {
    this.#batch = batch;
    this.#changed = changed;
  }

  async follow({ failed, retried }, signal) {
    const again = failed < this.#known.failed || (failed === this.#known.failed && retried !== this.#known.retried);
    if (again) {
      this.rows.clear();
      this.#from = this.next = null;
    }
    const grown = failed > this.#known.failed;
    if (failed && (again || (grown && this.next === null))) await this.#read(this.#from, signal);
    this.#known = { failed, retried };
  }

  more(signal) {
    return this.#read(this.next, signal);
  }

  async #read(cursor, signal) {
    for (let look = 0; look < MOST_LOOKS; look += 1) {
      const page = await api.failures(this.#batch, { cursor, count: FAILURES }, signal);
      for (const row of page.failures) if (!this.rows.has(row.index)) this.rows.set(row.index, { ...row, job: undefined });
      this.#from = cursor;
      this.next = cursor = page.cursor;
      if (cursor === null || page.failures.length) break;
    }
    this.#readJobs();
  }

  // One after the other, while the page shows what it has. A job that cannot be read has no payload here.
  async #readJobs() {
    for (const row of this.rows.values()) {
      if (row.job !== undefined) continue;
      row.job = null;
      row.job = await api.job(this.#batch, row.index).catch(() => null);
      this.#changed();
    }
  }
}

// `batch()` returns the current row; `done()` is called after a change.
export function failureCard(batch, failures, { say, again, session }) {
  const list = table('Failed jobs, in the order in which they failed', [['index', 'Job'], ['status', 'Ended'], ['output', 'Error', 'error'], ['payload', 'Payload', 'payload'], ['retry', 'Action', 'number bare']]);
  const note = h('span', { class: 'note' });
  const more = h('button', { type: 'button', onclick: load }, 'More');
  const further = h('p', { class: 'buttons' }, more);
  const element = h('section', { class: 'card' }, h('h2', {}, 'Failures', note), list.element, further);
  let failed = 0;

  async function load() {
    more.disabled = true;
    try {
      await failures.more();
    } catch (error) {
      say(`Not read: ${error.message}`, 'bad');
    }
    more.disabled = false;
    draw();
  }

  async function retry(index, button) {
    button.disabled = true;
    try {
      say(told(index, await api.act(batch(), 'retry', { round: batch().retry_rounds, indexes: [index] })));
    } catch (error) {
      say(`Not done: ${error.message}`, 'bad');
    }
    button.disabled = false;
    again();
  }

  const make = (row) => {
    const part = list.row();
    const link = h('a');
    const payload = bytesView(`payload of job ${row.index}`, 'not kept');
    const button = h('button', { 'type': 'button', 'class': 'small', 'aria-label': `Retry job ${row.index}`, 'onclick': () => retry(row.index, button) }, 'Retry');
    part.cells.index.append(link);
    part.cells.payload.append(payload.element);
    part.cells.retry.append(button);
    return { ...part, link, payload, button };
  };

  function draw() {
    show(element, failed > 0);
    setText(note, `${exact(failures.rows.size)} of ${exact(failed)}`);
    show(further, failures.next !== null);
    const may = (session()?.may.control ?? false) && batch()?.state !== 'cancelled';
    keyed(list.body, failures.rows.values(), (row) => row.index, make, (row, { cells, link, payload, button }) => {
      setText(link, `${row.index}`);
      setAttribute(link, 'href', linkToJob(batch(), row.index));
      setText(cells.status, row.status);
      const cut = row.output_bytes > new TextEncoder().encode(row.output).length;
      setText(cells.output, cut ? `${row.output}…` : row.output);
      setTitle(cells.output, cut ? `${exact(row.output_bytes)} bytes; RESULTS shows all of them` : '');
      payload.update(row.job ? bytesOf(row.job, 'payload') : undefined);
      show(button, may);
    });
  }

  const update = () => {
    failed = batch().failed;
    draw();
  };
  return { element, update, draw };
}

export const told = (index, { jobs }) => (jobs > 0 ? `Job ${count(index)} is queued again.` : 'Nothing was queued again: the batch has been retried meanwhile.');
