// The page of one job: what it was about, how it ended, and what it writes, live.
import { api, Refused } from './api.js';
import { bytesOf, bytesView } from './bytes.js';
import { duration, exact } from './format.js';
import { facts } from './explain.js';
import { h, setAttribute, setText, setTime, show } from './dom.js';
import { jobProgress, told } from './jobs.js';
import { linkTo } from './batches.js';

const MOST_LOG = 1 << 16; // characters that are kept
const FAILED = ['error', 'timeout', 'crashed'];
const KINDS = { ok: 'done', error: 'bad', timeout: 'bad', crashed: 'bad', failed: 'bad', ended: 'done' }; // classes of the mark beside a status

// What the job has written, as far as it was read.
class Log {
  text = '';
  ended = false;
  #next = 0;
  #attempt = null;

  async follow(batch, job, signal) {
    if (this.#attempt !== job.attempt) this.#begin(job.attempt);
    if (this.ended) return;
    const part = await api.log(batch, job.index, { from: this.#next }, signal);
    // Another attempt began in between.
    if (part.next < this.#next) this.text = '';
    this.text = (this.text + part.text).slice(-MOST_LOG);
    this.#next = part.next;
    this.ended = part.ended;
  }

  #begin(attempt) {
    this.text = '';
    this.ended = false;
    this.#next = 0;
    this.#attempt = attempt;
  }
}

function logCard() {
  const note = h('span', { class: 'note' });
  const content = h('pre', { 'class': 'log', 'tabindex': 0, 'role': 'region', 'aria-label': 'What the job has written' });
  const nothing = h('p', { class: 'quiet' });
  const element = h('section', { class: 'card' }, h('h2', {}, 'Log', note), content, nothing);
  const update = (log, job) => {
    const runs = job.status === 'running';
    setText(note, runs ? 'standard error, live' : log.text ? 'standard error, the last 64 KiB' : '');
    show(content, log.text !== '');
    show(nothing, log.text === '');
    setText(nothing, runs ? 'It has written nothing so far.' : job.status === 'queued' ? 'It has not started.' : 'It wrote nothing to standard error.');
    const follows = content.scrollTop + content.clientHeight >= content.scrollHeight - 4;
    setText(content, log.text);
    if (follows) content.scrollTop = content.scrollHeight;
  };
  return { element, update };
}

export function jobView({ id, tenant, index }, { clock, session, say, again }) {
  const batch = { id, tenant };
  const log = new Log();
  let round = 0;
  let name = id;
  const heading = h('h1', { tabindex: -1 }, `Job ${index}`);
  const state = h('span', { class: 'state' });
  const back = h('a', { href: linkTo(batch) }, `← ${id}`);
  const retry = h('button', { type: 'button', onclick: tryAgain }, 'Retry this job');
  const controls = h('div', { 'class': 'actions', 'role': 'group', 'aria-label': 'Actions' }, retry);
  const about = facts('job');
  const progress = jobProgress();
  const started = h('time');
  const finished = h('time');
  const payload = bytesView('payload', 'It is no longer kept, because the job cannot be tried again.');
  const output = bytesView('output', 'It has not ended.');
  const title = h('h2', {}, 'Output');
  const written = logCard();
  const gone = h('p', { class: 'quiet', hidden: '' });
  const body = h('div', { class: 'view', hidden: '' }, controls,
    h('section', { class: 'card' }, h('h2', {}, 'Details'), about.element),
    h('div', { class: 'halves' }, h('section', { class: 'card' }, h('h2', {}, 'Payload'), payload.element), h('section', { class: 'card' }, title, output.element)),
    written.element);
  const element = h('div', { class: 'view' }, h('p', { class: 'crumbs' }, back), h('div', { class: 'headline' }, heading, state), gone, body);

  async function tryAgain() {
    retry.disabled = true;
    try {
      say(told(index, await api.act(batch, 'retry', { round, indexes: [Number(index)] })));
    } catch (error) {
      say(`Not done: ${error.message}`, 'bad');
    }
    retry.disabled = false;
    again();
  }

  function draw(job) {
    const failed = FAILED.includes(job.status);
    setText(back, `← ${name}`);
    setText(state, job.status);
    state.className = `state ${KINDS[job.status] ?? job.status}`;
    show(state, true);
    show(controls, failed && (session()?.may.control ?? false));
    setTime(started, job.started_at, clock());
    setTime(finished, job.finished_at, clock());
    progress.update(job.progress);
    about.update([
      ['Attempt', `${job.attempt}`],
      ['Worker', job.worker || null],
      ['Started', job.started_at ? started : null],
      [job.status === 'running' ? 'Runs for' : 'Took', job.duration_us ? duration(job.duration_us / 1e6) : null, `${exact(job.duration_us)} us`],
      ['Ended', job.finished_at ? finished : null],
      ['Exit status', job.exit_status === null ? null : `${job.exit_status}`],
      ['Progress', job.progress === null ? null : progress.element],
      ['Note', job.note],
    ]);
    setText(title, failed || job.status === 'cancelled' ? 'Error' : 'Output');
    payload.update(bytesOf(job, 'payload'));
    output.update(bytesOf(job, 'output'));
    written.update(log, job);
  }

  async function load(signal) {
    try {
      const [job, row] = await Promise.all([api.job(batch, index, signal), api.batch(batch, signal)]);
      round = row.retry_rounds;
      name = row.name || row.id;
      await log.follow(batch, job, signal);
      setAttribute(back, 'href', linkTo(row));
      show(gone, false);
      show(body, true);
      draw(job);
    } catch (error) {
      if (!(error instanceof Refused) || (error.status !== 404 && error.status !== 400)) throw error;
      show(body, false);
      show(state, false);
      show(gone, true);
      setText(gone, `There is no such job: ${error.message}`);
    }
  }

  return { element, get title() { return `Job ${index} of ${name}`; }, load, overview() {} };
}
