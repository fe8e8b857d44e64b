// Requests to the daemon (daemon/http/API.md), and the loop that polls it.

const ANSWER_WITHIN_MS = 8000;
const EVERY_MS = 1000;
const LONGEST_PAUSE_MS = 15000;

// The daemon replied with an error. `status` is that of HTTP.
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function ask(path, options = {}, signal = undefined) {
  const limit = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const reply = await fetch(path, {
    ...options,
    cache: 'no-store',
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
  });
  const text = await reply.text();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // A refusal before the login is plain text.
  }
  if (reply.status === 401) throw new Refused(401, 'you are not logged in; reload the page to log in');
  if (!reply.ok || body === null) throw new Refused(reply.status, body?.error ?? `status ${reply.status}, ${text.slice(0, 200).trim()}`);
  return body;
}

function post(path, body) {
  return ask(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Locksley-Request': '1' },
    body: JSON.stringify(body),
  });
}

function query(fields) {
  const kept = Object.entries(fields).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return kept.length ? `?${new URLSearchParams(kept)}` : '';
}

// A batch is identified by {id, tenant}, because two tenants may use the same id. Other people choose both, so they may contain any
// character.
// Browsers resolve '.' and '..' in a path, so the API takes them with a ';' after them.
const segment = (id) => (id === '.' || id === '..' ? `${id};` : encodeURIComponent(id));
const pathOf = ({ id, tenant }, part = '', fields = {}) => `api/batches/${segment(id)}${part}${query({ tenant, ...fields })}`;

export const api = {
  session: (signal) => ask('api/session', {}, signal),
  overview: (signal) => ask('api/overview', {}, signal),
  batches: (fields, signal) => ask(`api/batches${query(fields)}`, {}, signal),
  batch: (batch, signal) => ask(pathOf(batch), {}, signal),
  failures: (batch, fields, signal) => ask(pathOf(batch, '/failures', fields), {}, signal),
  job: (batch, index, signal) => ask(pathOf(batch, `/jobs/${index}`), {}, signal),
  log: (batch, index, fields, signal) => ask(pathOf(batch, `/jobs/${index}/log`, fields), {}, signal),
  running: (fields, signal) => ask(`api/running${query(fields)}`, {}, signal),
  act: (batch, what, body = {}) => post(pathOf(batch, `/${what}`), body),
  customers: (fields, signal) => ask(`api/customers${query(fields)}`, {}, signal),
  restart: (handler) => post(`api/handlers/${encodeURIComponent(handler)}/restart`, {}),
};

// Calls `poll(signal)` once a second while the page is visible, and less and less often while the daemon does not answer. After each
// call it calls `changed({answers, error, again_ms})`. Only one call runs at a time.
export class Poller {
  #poll;
  #changed;
  #timer = null;
  #under_way = null;
  #failures = 0;

  constructor(poll, changed) {
    this.#poll = poll;
    this.#changed = changed;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#pause() : this.now()));
    window.addEventListener('online', () => this.now());
  }

  // Polls at once. The result of a poll under way is discarded, because it began before the current change.
  now() {
    this.#pause();
    if (!document.hidden) this.#run();
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#under_way?.abort();
    this.#under_way = null;
  }

  async #run() {
    const mine = (this.#under_way = new AbortController());
    let next = EVERY_MS;
    try {
      await this.#poll(mine.signal);
      if (mine !== this.#under_way) return;
      this.#failures = 0;
      this.#changed({ answers: true, error: null, again_ms: next });
    } catch (error) {
      if (mine !== this.#under_way) return;
      this.#failures += 1;
      next = Math.min(EVERY_MS * 2 ** (this.#failures - 1), LONGEST_PAUSE_MS);
      this.#changed({ answers: error instanceof Refused, error, again_ms: next });
    }
    this.#timer = setTimeout(() => this.#run(), next);
  }
}
