// The page of one batch.
import { actions } from './actions.js';
import { api, Refused } from './api.js';
import { count, duration, exact, exactTime, NONE, percent, rate } from './format.js';
import { h, keyed, setText, setTime, show } from './dom.js';
import { explanation, facts, timeLeft } from './explain.js';
import { fractionOver, progress, sparkline } from './charts.js';
import { progressText, statePill } from './batches.js';
import { failureCard, Failures, runningCard } from './jobs.js';

const EVENTS = {
  submitted: 'Submitted', started: 'Its first job started', finished: 'Ended', starts: 'Starts', next_try: 'A failed job is retried',
  deadline: 'Deadline for jobs to start', closes: 'Closes, unless jobs are added', forgotten: 'Is forgotten, with its results',
};

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
  const failures = new Failures(batch, () => row && failed.draw());
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
  const failed = failureCard(() => row, failures, { say, again, session });
  const running = runningCard(() => row);
  const controls = h('div', { class: 'controls' });
  let action = null;
  const gone = h('p', { class: 'quiet', hidden: '' });
  const body = h('div', { class: 'view', hidden: '' },
    controls,
    h('section', { class: 'card' }, h('h2', {}, 'Progress'), h('div', { class: 'large' }, over, left), bar.element, tally.element, pace),
    h('div', { class: 'halves' }, h('section', { class: 'card' }, h('h2', {}, 'Why'), why.element), timeline.element),
    running.element,
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
    setText(id, [row.name ? row.id : null, `handler ${row.handler}`, session()?.may.admin ? `tenant ${row.tenant}` : null, row.customer ? `for ${row.customer}` : null].filter(Boolean).join(' · '));
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
    failed.update();
    setTime(submitted, row.submitted_at, now);
    const ran = row.started_at ? ((row.finished_at || now) - row.started_at) / 1000 : null;
    const waited = ((row.started_at || row.finished_at || now) - row.submitted_at) / 1000;
    about.update([
      ['Id', row.id], ['Name', row.name || null], ['Tenant', row.tenant], ['Customer', row.customer || null], ['Handler', row.handler], ['Lane', row.lane || null], ['Weight', `${row.weight}`],
      ['Slots', row.slots ? `${row.slots}` : null],
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
      await running.load(row.running > 0, signal);
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
