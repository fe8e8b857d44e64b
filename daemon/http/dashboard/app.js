// The dashboard: which page is shown, what is polled once a second, and what is shown when the daemon does not answer.
import { announcer, refuseQuestion } from './actions.js';
import { api, Poller, Refused } from './api.js';
import { batchesView } from './batches.js';
import { batchView } from './batch.js';
import { customersView } from './customers.js';
import { duration } from './format.js';
import { firstCommand } from './hints.js';
import { jobView } from './job.js';
import { setAttribute, setText, setTitle, show } from './dom.js';
import { overviewView } from './overview.js';
import { Recent, restarted } from './rates.js';

const OVERVIEW_EVERY = 5; // polls, on pages that do not show it
const SESSION_EVERY = 30;

const at = (id) => document.getElementById(id);
const say = announcer(at('said'));
const recent = new Recent();
let session = null;
let overview = null;
let skew_ms = 0; // the daemon's clock minus the browser's
let polls = 0;
let view = null;
let lost = false;

const context = { clock: () => Date.now() + skew_ms, session: () => session, say, again: () => poller.now(), firstCommand: (options) => firstCommand(session, overview, options) };

function parse(hash) {
  const [path, fields = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  const parameters = Object.fromEntries(new URLSearchParams(fields));
  const job = /^\/batches\/([^/]+)\/jobs\/(\d+)$/.exec(path);
  const one = job ?? /^\/batches\/(.+)$/.exec(path);
  if (one) {
    try {
      if (job) return { page: 'job', job: { id: decodeURIComponent(job[1]), tenant: parameters.tenant, index: job[2] } };
      return { page: 'batch', batch: { id: decodeURIComponent(one[1]), tenant: parameters.tenant } };
    } catch {
      return { page: 'batches', fields: {} }; // malformed percent-encoding: not one of our links
    }
  }
  if (path === '/customers') return { page: 'customers', fields: parameters };
  return path === '/batches' ? { page: 'batches', fields: parameters } : { page: 'overview' };
}

function make(route) {
  if (route.page === 'batch') return batchView(route.batch, context);
  if (route.page === 'job') return jobView(route.job, context);
  if (route.page === 'batches') return batchesView(route.fields, context);
  if (route.page === 'customers') return customersView(route.fields, context);
  return overviewView(context);
}

function navigate(event) {
  refuseQuestion();
  const route = parse(location.hash);
  for (const link of document.querySelectorAll('nav.main a')) {
    const here = link.dataset.page === (['batch', 'job'].includes(route.page) ? 'batches' : route.page);
    setAttribute(link, 'aria-current', here ? 'page' : null);
  }
  if (view?.page === route.page && view.go) {
    view.go(route.fields);
  } else {
    view = Object.assign(make(route), { page: route.page });
    at('view').replaceChildren(view.element);
    if (overview) view.overview(overview, recent);
    window.scrollTo(0, 0);
    // A keyboard user who followed a link continues at the top of the new page.
    if (event) view.element.querySelector('h1')?.focus();
  }
  polls = 0;
  title();
  poller.now();
}

function title() {
  document.title = `${lost ? '⚠ ' : ''}${view.title} · Locksley`;
}

async function poll(signal) {
  const mine = view;
  if (session === null || polls % SESSION_EVERY === 0) session = await api.session(signal);
  const wanted = mine.wantsOverview || overview === null || polls % OVERVIEW_EVERY === 0;
  const [seen] = await Promise.all([wanted ? api.overview(signal) : null, mine.load(signal)]);
  polls += 1;
  if (mine !== view) return;
  if (seen) {
    const again = overview !== null && restarted(overview, seen);
    overview = seen;
    skew_ms = seen.server.now - Date.now();
    recent.push(seen);
    mine.overview(seen, recent);
    if (again) {
      session = null;
      say('The daemon was restarted: its counters start at 0.');
    }
    about();
  }
  title();
}

function about() {
  const { server } = overview;
  const state = at('state');
  setText(state, lost ? 'no answer' : server.state);
  state.className = `server-state ${lost ? 'lost' : server.state}`;
  show(at('draining'), !lost && server.state === 'draining');
  show(at('store-fails'), !lost && server.store === 'failing');
  setText(at('version'), `Locksley ${server.version}`);
  setTitle(at('version'), `revision ${server.revision}`);
  setText(at('uptime'), `up for ${duration((server.now - server.started_at) / 1000)}`);
  setText(at('store'), { memory: 'in memory only', ready: 'with a store', failing: 'the store fails' }[server.store] ?? server.store);
  setText(at('user'), session?.user ?? (session?.caller === 'token' ? 'by token' : ''));
}

function changed({ answers, error }) {
  const was = lost;
  lost = error !== null;
  document.body.classList.toggle('lost', lost);
  const said = at('trouble-text');
  if (lost) {
    const text = answers
      ? `The daemon refuses: ${error.message}`
      : 'The daemon does not answer. This page shows the last known state, and asks again every few seconds.';
    // The refusal may mean that the session has changed: it is requested again.
    if (error instanceof Refused) session = null;
    if (said.textContent !== text) said.textContent = text;
  } else if (was) {
    said.textContent = '';
    say('The daemon answers again.');
  }
  show(at('trouble'), lost);
  if (overview) about();
  show(at('view'), overview !== null || !lost);
  title();
}

const poller = new Poller(poll, changed);
at('ask-now').addEventListener('click', () => poller.now());
// Handled here, because its address would be taken for that of a page.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  view.element.querySelector('h1')?.focus();
});
window.addEventListener('hashchange', navigate);
navigate(null);
