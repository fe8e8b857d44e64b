// The page of one batch.
import { actions } from './actions.js';
import { api, Refused } from './api.js';
import { count, duration, exact, exactTime, NONE, percent, rate } from './format.js';
import { h, keyed, setAttribute, setNumber, setText, setTime, setTitle, show, table } from './dom.js';
import { explanation, facts, timeLeft } from './explain.js';
import { fractionOver, progress, sparkline } from './charts.js';
import { progressText, statePill } from './batches.js';

const FAILURES = 20;
const MOST_LOOKS = 8; // requests for one page of failures, because pages may be short

const EVENTS = {
  submitted: 'Submitted', started: 'Its first job started', finished: 'Ended', starts: 'Starts', next_try: 'A failed job is retried',
  deadline: 'Deadline for jobs to start', closes: 'Closes, unless jobs are added', forgotten: 'Is forgotten, with its results',
};

// The failures read so far, in the order in which they happened. Not all of them are ever read.
class Failures {
  rows = new Map();
  #batch;
  #from = null; // the cursor of the last page
  next = null; // the cursor of the next page
  #known = { failed: 0, retried: 0 };

  constructor(batch) {
    this.#batch = batch;
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
      for (const row of page.failures) this.rows.set(row.index, row);
      this.#from = cursor;
      this.next = cursor = page.cursor;
      if (cursor === null || page.failures.length) break;
    }
  }
}

function failureCard(failures, say) {
  const list = table('Failed jobs, in the order in which they failed', [['index', 'Job'], ['status', 'Ended'], ['output', 'Error', 'error']]);
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

  function draw() {
    show(element, failed > 0);
    setText(note, `${exact(failures.rows.size)} of ${exact(failed)}`);
    show(further, failures.next !== null);
    keyed(list.body, failures.rows.values(), (row) => row.index, list.row, (row, { cells }) => {
      setText(cells.index, `${row.index}`);
      setText(cells.status, row.status);
      const cut = row.output_bytes > new TextEncoder().encode(row.output).length;
      setText(cells.output, cut ? `${row.output}…` : row.output);
      setTitle(cells.output, cut ? `${exact(row.output_bytes)} bytes; RESULTS shows all of them` : '');
    });
  }

  const update = (batch) => {
    failed = batch.failed;
    draw();
  };
  return { element, update };
}

function timelineCard() {
  const list = h('ol', { class: 'timeline' });
  const element = h('section', { class: 'card' }, h('h2', {}, 'Timeline'), list);
  const make = () => {
    const what = h('span', { class: 'what' });
    const when = h('time');
    const after = h('span', { class: 'note' });
    return { element: h('li', {}, what, when, after), what, when, after };
  };
  const update = (batch, now) => {
    const events = batch.timeline.map((one, i) => ({ ...one, before: batch.timeline[i - 1]?.at }));
    keyed(list, events, (one) => one.event, make, (one, part) => {
      part.element.classList.toggle('to-come', one.at > now);
      setText(part.what, one.event === 'finished' && batch.state === 'cancelled' ? 'Cancelled' : (EVENTS[one.event] ?? one.event));
      setTime(part.when, one.at, now);
      setText(part.after, one.before && one.at >= one.before ? `${duration((one.at - one.before) / 1000)} later` : '');
    });
  };
  return { element, update };
}

export function batchView(batch, { clock, session, say, again }) {
  let row = null;
  let polled = null;
  let past = [];
  const failures = new Failures(batch);
  const name = h('h1', { tabindex: -1 }, batch.id);
  const state = statePill();
  const id = h('p', { class: 'subtitle' });
  const bar = progress();
  const over = h('span', { class: 'value' });
  const left = h('span', { class: 'note' });
  const speed = sparkline();
  const speedText = h('span', { class: 'note' });
  const pace = h('div', { class: 'speed' }, speedText, speed.element);
  const tally = facts('tally');
  const about = facts('about');
  const submitted = h('time');
  const why = explanation();
  const timeline = timelineCard();
  const failed = failureCard(failures, say);
  const controls = h('div', { class: 'controls' });
  let action = null;
  const gone = h('p', { class: 'quiet', hidden: '' });
  const body = h('div', { class: 'view', hidden: '' },
    controls,
    h('section', { class: 'card' }, h('h2', {}, 'Progress'), h('div', { class: 'large' }, over, left), bar.element, tally.element, pace),
    h('div', { class: 'halves' }, h('section', { class: 'card' }, h('h2', {}, 'Why'), why.element), timeline.element),
    failed.element,
    h('section', { class: 'card' }, h('h2', {}, 'Details'), about.element));
  const element = h('div', { class: 'view' }, h('p', { class: 'crumbs' }, h('a', { href: '#/batches' }, '← Batches')), h('div', { class: 'headline' }, name, state.element), id, gone, body);

  function controlsFor(may) {
    if (!may && action) {
      action = null;
      controls.replaceChildren();
    } else if (may && !action) {
      action = actions(() => row, say, again);
      controls.replaceChildren(action.element);
    }
    show(controls, may);
  }

  function draw() {
    const now = clock();
    const ended = row.finished_at > 0;
    setText(name, row.name || row.id);
    setText(id, [row.name ? row.id : null, `handler ${row.handler}`, session()?.may.admin ? `tenant ${row.tenant}` : null].filter(Boolean).join(' · '));
    state.update(row);
    bar.update(row, progressText(row));
    setText(over, row.jobs ? percent(fractionOver(row)) : NONE);
    setText(left, ended ? 'ended' : timeLeft(row) === null ? 'time left unknown' : `about ${duration(timeLeft(row))} left`);
    tally.update([['Jobs', row.jobs], ['Ok', row.ok], ['Failed', row.failed], ['Cancelled', row.cancelled], ['Running', row.running], ['Queued', row.queued], ['Retried', row.retried]].map(([label, value]) => [label, count(value), exact(value)]));
    show(pace, !ended);
    setText(speedText, rate(row.jobs_per_second));
    speed.update(past);
    why.update(row);
    timeline.update(row, now);
    failed.update(row);
    setTime(submitted, row.submitted_at, now);
    const ran = row.started_at ? ((row.finished_at || now) - row.started_at) / 1000 : null;
    const waited = ((row.started_at || row.finished_at || now) - row.submitted_at) / 1000;
    about.update([
      ['Id', row.id], ['Name', row.name || null], ['Tenant', row.tenant], ['Handler', row.handler], ['Lane', row.lane || null], ['Weight', `${row.weight}`],
      ['Submitted', submitted],
      ['Waited for its first job', duration(Math.max(0, waited))],
      [ended ? 'Ran for' : 'Runs for', ran === null ? null : duration(Math.max(0, ran)), row.finished_at ? exactTime(row.finished_at) : ''],
    ]);
    controlsFor(session()?.may.control ?? false);
    action?.update(row);
  }

  async function load(signal) {
    try {
      const found = await api.batch(batch, signal);
      await failures.follow(found, signal);
      const now = performance.now();
      if (polled) {
        past.push(Math.max(0, (found.ok + found.failed - row.ok - row.failed) / ((now - polled) / 1000)));
        if (past.length > 60) past.shift();
      }
      polled = now;
      row = found;
      show(gone, false);
      show(body, true);
      draw();
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404) throw error;
      show(body, false);
      show(state.element, false);
      show(gone, true);
      setText(gone, `There is no such batch, or it has been evicted: ${error.message}`);
      past = [];
      polled = null;
    }
  }

  return { element, get title() { return row?.name || batch.id; }, load, overview() {} };
}
