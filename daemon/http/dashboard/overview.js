// The first page: the current state of the daemon.
import { api } from './api.js';
import { ago, bytes, count, duration, exact, exactTime, percent, rate } from './format.js';
import { h, keyed, setNumber, setText, setTitle, show, table } from './dom.js';
import { ended, failed } from './rates.js';
import { meter, sparkline } from './charts.js';
import { runningCard } from './jobs.js';
import { workersChart } from './workers.js';

const MOST_MACHINES = 100; // in the table
const batchesOf = (fields) => `#/batches?${new URLSearchParams(fields)}`;

function card(title, ...content) {
  const note = h('span', { class: 'note' });
  const element = h('section', { class: 'card' }, h('h2', {}, title, note), ...content);
  return { element, note };
}

// An important number, with a line of its recent values or a meter of its limit.
function tile(title) {
  const value = h('span', { class: 'value' });
  const note = h('span', { class: 'note' });
  const line = sparkline();
  const bar = meter();
  const element = h('div', { class: 'tile' }, h('h2', {}, title), value, note, line.element, bar.element);
  const set = (text, exactly, about) => {
    setNumber(value, text, exactly);
    setText(note, about);
  };
  return {
    element,
    past(text, about, values, most) {
      set(text, '', about);
      show(bar.element, false);
      line.update(values, most);
    },
    of(value_now, limit, print, otherwise = 'no limit') {
      set(print(value_now), exact(value_now), limit === null ? otherwise : `of ${print(limit)}, ${percent(value_now / limit)}`);
      line.element.setAttribute('hidden', '');
      show(bar.element, limit !== null);
      if (limit !== null) bar.update(value_now / limit, title, `${exact(value_now)} of ${exact(limit)}`);
    },
  };
}

function tiles() {
  const parts = {
    jobs: tile('Jobs ended'), busy: tile('Workers busy'), queued: tile('Queued jobs'), payloads: tile('Queued payloads'), bytes: tile('Payloads in memory'),
    batches: tile('Active batches'), clients: tile('Connections'), stored: tile('Store'),
  };
  const element = h('div', { class: 'tiles' }, Object.values(parts).map((part) => part.element));
  const update = ({ totals, limits, workers, machines, stored_bytes }, recent) => {
    const perSecond = recent.jobsPerSecond;
    show(parts.jobs.element, recent.jobs.length > 0 || perSecond !== null);
    parts.jobs.past(rate(perSecond), `${count(totals.running_jobs)} ${machines.length ? 'running or at machines' : 'running'}`, recent.jobs);
    show(parts.busy.element, workers.length > 0);
    parts.busy.past(percent(recent.busy.at(-1)), workers.length === 1 ? 'of 1 worker' : `of ${workers.length} workers`, recent.busy, 1);
    parts.queued.of(totals.queued_jobs, limits.max_queued_jobs, count);
    show(parts.payloads.element, limits.max_payload_bytes !== null);
    parts.payloads.of(totals.payload_bytes, limits.max_payload_bytes, bytes);
    parts.bytes.of(totals.queued_bytes, limits.max_queued_bytes, bytes);
    parts.batches.of(totals.active_batches, limits.max_batches, count, totals.retained_batches === null ? 'no limit' : `${count(totals.retained_batches)} over, and kept`);
    parts.clients.of(totals.connections, limits.max_clients, count);
    show(parts.stored.element, stored_bytes !== null);
    if (stored_bytes !== null) parts.stored.of(stored_bytes, limits.store_max_bytes, bytes);
  };
  return { element, update };
}

function lanes() {
  const list = table('Lanes', [['lane', 'Lane', 'name'], ['slots', 'Slots in use', 'wide'], ['queued', 'Queued', 'number'], ['batches', 'Batches', 'number']]);
  const { element } = card('Lanes', list.element);
  const make = () => {
    const row = list.row();
    const bar = meter();
    const text = h('span', { class: 'beside' });
    row.cells.slots.append(h('span', { class: 'with-meter' }, bar.element, text));
    return { ...row, bar, text };
  };
  const update = ({ lanes: rows }) =>
    keyed(list.body, rows, (row) => row.lane, make, (row, { cells, bar, text }) => {
      setText(cells.lane, row.lane);
      // Leases that wait at a remote worker use no slot yet.
      const slots = row.slots + row.remote_slots;
      const used = slots ? `${Math.min(row.running, slots)} of ${slots}` : `${row.running}`;
      setText(text, used);
      setTitle(cells.slots, row.remote_slots ? `${exact(row.slots)} slots here, ${exact(row.remote_slots)} of remote workers; ${exact(row.running)} executors and leases have jobs` : '');
      show(bar.element, slots > 0);
      if (slots) bar.update(Math.min(1, row.running / slots), `slots of ${row.lane}`, used);
      setNumber(cells.queued, count(row.queued), exact(row.queued));
      setNumber(cells.batches, count(row.batches), exact(row.batches));
    });
  return { element, update };
}

function tenants() {
  const list = table('Tenants', [
    ['tenant', 'Tenant', 'name'], ['share', 'Share: due, received', 'wide'], ['weight', 'Weight', 'number'],
    ['queued', 'Queued', 'number'], ['running', 'Running', 'number'], ['batches', 'Batches', 'number'], ['busy', 'Busy time', 'number'],
  ]);
  const { element } = card('Tenants', list.element, h('p', { class: 'key' },
    h('span', { class: 'entry' }, h('span', { class: 'swatch due', 'aria-hidden': 'true' }), 'share due'),
    h('span', { class: 'entry' }, h('span', { class: 'swatch busy', 'aria-hidden': 'true' }), 'share received while it had work')));
  const make = () => {
    const row = list.row();
    const link = h('a');
    row.cells.tenant.append(link);
    const due = meter('due');
    const received = meter();
    const dueText = h('span', { class: 'beside' });
    const receivedText = h('span', { class: 'beside' });
    row.cells.share.append(h('span', { class: 'with-meter' }, due.element, dueText), h('span', { class: 'with-meter' }, received.element, receivedText));
    return { ...row, link, due, received, dueText, receivedText };
  };
  const update = ({ tenants: rows }) =>
    keyed(list.body, rows, (row) => row.tenant, make, (row, { element: line, cells, link, due, received, dueText, receivedText }) => {
      setText(link, row.tenant);
      link.href = batchesOf({ tenant: row.tenant });
      due.update(row.share, `share due to ${row.tenant}`, percent(row.share));
      received.update(row.received, `share received by ${row.tenant}`, percent(row.received));
      setText(dueText, `due ${percent(row.share)}`);
      setText(receivedText, `got ${percent(row.received)}`);
      line.classList.toggle('short', row.share > 0 && row.queued > 0 && row.received < row.share / 2);
      for (const name of ['weight', 'queued', 'running', 'batches']) setNumber(cells[name], count(row[name]), exact(row[name]));
      setNumber(cells.busy, duration(row.busy_us / 1e6), `${exact(row.busy_us)} us`);
    });
  return { element, update };
}

// Remote workers; without any the card is not there.
function machines() {
  const list = table('Machines', [
    ['name', 'Remote worker', 'name'], ['handlers', 'Handlers', 'name'], ['slots', 'Slots in use', 'wide'], ['jobs', 'Jobs', 'number'],
    ['rtt', 'Round trip', 'number'], ['lost', 'Leases lost', 'number'], ['since', 'Joined', 'number'],
  ]);
  const { element, note } = card('Machines', list.element);
  const make = () => {
    const row = list.row();
    const bar = meter();
    const text = h('span', { class: 'beside' });
    row.cells.slots.append(h('span', { class: 'with-meter' }, bar.element, text));
    return { ...row, bar, text };
  };
  const update = ({ machines: rows, server }) => {
    show(element, rows.length > 0);
    setText(note, rows.length > MOST_MACHINES ? `${MOST_MACHINES} of ${count(rows.length)}` : '');
    keyed(list.body, rows.slice(0, MOST_MACHINES), (row) => `${row.worker} ${row.since} ${row.id}`, make, (row, { cells, bar, text }) => {
      setText(cells.name, row.worker);
      setText(cells.handlers, row.handlers.join(' '));
      setText(text, `${row.busy} of ${row.slots}`);
      bar.update(row.busy / row.slots, `slots of ${row.worker}`, `${row.busy} of ${row.slots}`);
      setNumber(cells.jobs, count(row.jobs), exact(row.jobs));
      setNumber(cells.rtt, row.rtt_us ? duration(row.rtt_us / 1e6) : '–', `${exact(row.rtt_us)} us`);
      setNumber(cells.lost, count(row.lost), exact(row.lost));
      setNumber(cells.since, ago(row.since, server.now), exactTime(row.since));
    });
  };
  return { element, update };
}

// Daemons on the same database: which serves, and which stand by. With a store of its own the card is not there.
const STATES = { active: 'serves', standby: 'stands by', gone: 'has gone' };

function daemons() {
  const list = table('Daemons', [
    ['name', 'Daemon', 'name'], ['state', 'State'], ['wire', 'Clients connect to', 'name'], ['beat', 'Last sign of life', 'number'],
  ]);
  const { element, note } = card('Daemons', list.element);
  const update = ({ nodes: rows, server }) => {
    show(element, rows.some((row) => row.node !== 0));
    setText(note, server.store_at ?? '');
    keyed(list.body, rows, (row) => String(row.node), () => list.row(), (row, { cells }) => {
      setText(cells.name, row.name);
      setText(cells.state, STATES[row.state] ?? row.state);
      setText(cells.wire, row.wire);
      setNumber(cells.beat, `${duration(row.beat_ms / 1000)} ago`, `${exact(row.beat_ms)} ms ago`);
    });
  };
  return { element, update };
}

// What each user holds of what is limited, fullest first.
const RESOURCES = [
  ['queued_jobs', 'Queued jobs', count], ['payload_bytes', 'Payloads', bytes], ['queued_bytes', 'In memory', bytes], ['result_bytes', 'Results in memory', bytes],
  ['record_bytes', 'Records', bytes], ['stored_bytes', 'Store', bytes], ['client_bytes', 'Replies', bytes],
  ['batches', 'Active batches', count], ['connections', 'Connections', count],
];

function accounts() {
  const list = table('Accounts', [['user', 'User', 'name'], ...RESOURCES.map(([name, title]) => [name, title, 'number'])]);
  const { element } = card('Accounts', list.element);
  const fraction = ({ used, limit }) => (limit ? used / limit : 0);
  const fullest = (row) => Math.max(...RESOURCES.map(([name]) => fraction(row[name])));
  const update = ({ accounts: rows }) => {
    const sorted = [...rows].sort((a, b) => (a.user !== null) - (b.user !== null) || fullest(b) - fullest(a));
    keyed(list.body, sorted, (row) => row.user ?? '', () => list.row(), (row, { cells }) => {
      setText(cells.user, row.user ?? 'all together');
      for (const [name, title, shown] of RESOURCES) {
        const { used, limit } = row[name];
        setNumber(cells[name], shown(used), limit === null ? `${exact(used)}, no limit` : `${exact(used)} of ${exact(limit)}`);
        cells[name].classList.toggle('some', fraction(row[name]) >= 0.9);
        cells[name].setAttribute('aria-label', `${title}: ${shown(used)}`);
      }
    });
  };
  return { element, update };
}

// A button that replaces the processes of a handler.
function restartButton(handler, { say, again }) {
  const button = h('button', { type: 'button', class: 'small', onclick: restart }, 'Restart');
  async function restart() {
    button.disabled = true;
    try {
      const { processes } = await api.restart(handler);
      say(`${handler}: ${exact(processes)} ${processes === 1 ? 'process is' : 'processes are'} replaced, each after its jobs.`);
    } catch (error) {
      say(`Not done: ${error.message}`, 'bad');
    }
    button.disabled = false;
    again();
  }
  return button;
}

function handlers(context) {
  const list = table('Handlers', [
    ['handler', 'Handler', 'name'], ['kind', 'Kind'], ['lane', 'Lane', 'lane'], ['rate', 'Rate', 'number'],
    ['ok', 'Ok', 'number'], ['failed', 'Failed', 'number'], ['cancelled', 'Cancelled', 'number'], ['processes', 'Processes', 'number'],
  ]);
  const unused = h('p', { class: 'quiet' });
  const { element } = card('Handlers', list.element, unused);
  const make = ({ name }) => {
    const row = list.row();
    const link = h('a');
    row.cells.handler.append(link);
    const processes = h('span');
    const restart = restartButton(name, context);
    row.cells.processes.append(processes, ' ', restart);
    return { ...row, link, processes, restart };
  };
  const update = ({ handlers: rows }, recent) => {
    const rates = recent.rates('handlers', (row) => row.name, ended);
    // Handlers without jobs and processes so far are only named.
    const used = rows.filter((row) => !row.jobs || row.processes > 0 || ended(row) + row.jobs.cancelled > 0);
    const others = rows.filter((row) => !used.includes(row));
    show(list.element, used.length > 0);
    show(unused, others.length > 0);
    setText(unused, `Not used yet: ${others.map((row) => row.name).join(', ')}`);
    keyed(list.body, used, (row) => row.name, make, (row, { cells, link, processes, restart }) => {
      setText(link, row.name);
      link.href = batchesOf({ handler: row.name });
      setTitle(cells.handler, row.description);
      setText(cells.kind, row.kind);
      setText(cells.lane, row.lane);
      setText(cells.rate, rate(rates.get(row.name)));
      const numbers = { ok: row.jobs?.ok, failed: failed(row), cancelled: row.jobs?.cancelled };
      for (const [name, value] of Object.entries(numbers)) setNumber(cells[name], count(value), exact(value));
      cells.failed.classList.toggle('some', numbers.failed > 0);
      setText(processes, row.processes > 0 ? count(row.processes) : '');
      show(restart, row.processes > 0 && context.session()?.may.admin);
      if (row.jobs) setTitle(cells.failed, `${exact(numbers.failed)}: error ${exact(row.jobs.error)}, timeout ${exact(row.jobs.timeout)}, crashed ${exact(row.jobs.crashed)}`);
    });
  };
  return { element, update };
}

export function overviewView(context) {
  const heading = h('h1', { tabindex: -1 }, 'Overview');
  const numbers = tiles();
  const chart = workersChart();
  const workers = card('Workers', chart.element);
  const running = runningCard();
  let runs = false; // whether a job runs, as of the last poll
  const parts = [lanes(), daemons(), machines(), tenants(), accounts(), handlers(context)];
  const [laneCard, daemonCard, machineCard, tenantCard, accountCard, handlerCard] = parts;
  const command = h('code');
  const submit = h('span', {}, ', or submit one: ', command);
  const quiet = h('p', { class: 'quiet', hidden: '' }, 'Nothing is queued and nothing runs. ', h('a', { href: '#/batches' }, 'See the batches'), ' that have ended', submit, '.');
  const element = h('div', { class: 'view' }, heading, quiet, numbers.element, h('div', { class: 'columns' }, workers.element, laneCard.element), running.element, daemonCard.element, machineCard.element, tenantCard.element, accountCard.element, handlerCard.element);
  return {
    element,
    title: 'Overview',
    wantsOverview: true,
    load: (signal) => running.load(runs, signal),
    overview(overview, recent) {
      runs = overview.totals.running_jobs > 0;
      numbers.update(overview, recent);
      show(workers.element, overview.workers.length > 0);
      if (overview.workers.length) chart.update(overview, recent);
      for (const part of parts) part.update(overview, recent);
      setText(command, context.firstCommand() ?? '');
      show(submit, command.textContent !== '');
      show(quiet, overview.totals.active_batches === 0);
    },
  };
}
