// Rates from totals: the difference between two polls, divided by the time between them on the daemon's clock.

const WINDOW_MS = 5000;
const HISTORY = 60; // samples: a minute

// Milliseconds since the daemon's start, by a clock that is never adjusted.
const uptime = ({ server }) => server.now - server.started_at;

// The start is known to about a millisecond.
export function restarted(before, now) {
  return uptime(now) < uptime(before) || Math.abs(now.server.started_at - before.server.started_at) > 1000;
}

const indexed = (rows, keyOf) => new Map((rows ?? []).map((row) => [keyOf(row), row]));
const pair = (row) => `${row.victim}>${row.thief}`;

const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);

// The jobs of one handler that have ended; null if the caller may not see them.
export const ended = (handler) => (handler.jobs ? handler.jobs.ok + failed(handler) : null);
export const failed = (handler) => (handler.jobs ? handler.jobs.error + handler.jobs.timeout + handler.jobs.crashed : null);
const allEnded = (overview) => (overview.handlers.some((row) => row.jobs) ? sum(overview.handlers.map((row) => ended(row) ?? 0)) : null);
const busySeconds = (overview) => sum(overview.workers.map((row) => row.busy_us)) / 1e6;

// The overviews of the last seconds. After a restart of the daemon the list starts again, as its counters do.
export class Recent {
  #kept = [];
  jobs = []; // per second, of the last polls; empty if the caller may not see them
  busy = []; // share of all workers, of the last polls

  push(overview) {
    const last = this.#kept.at(-1);
    const seconds = last ? (uptime(overview) - uptime(last)) / 1000 : 0;
    // After a restart, or while the page was hidden, there is nothing to compare with.
    if (last && (restarted(last, overview) || seconds > (3 * WINDOW_MS) / 1000)) this.#clear();
    else if (last && seconds === 0) return;
    this.#kept.push(overview);
    if (this.#kept.length < 2) return;
    // The oldest sample may be just outside the window, so that there is always one to compare with.
    while (this.#kept.length > 2 && uptime(this.#kept[1]) <= uptime(overview) - WINDOW_MS) this.#kept.shift();
    const note = (list, value) => {
      list.push(Math.max(0, value));
      if (list.length > HISTORY) list.shift();
    };
    if (allEnded(overview) !== null) note(this.jobs, (allEnded(overview) - allEnded(last)) / seconds);
    if (overview.workers.length) note(this.busy, Math.min(1, (busySeconds(overview) - busySeconds(last)) / seconds / overview.workers.length));
  }

  #clear() {
    this.#kept = [];
    this.jobs = [];
    this.busy = [];
  }

  get #then() {
    return this.#kept.length > 1 ? this.#kept[0] : null;
  }

  // The seconds between the samples that are compared; 0 while there is only one.
  get seconds() {
    return this.#then ? (uptime(this.#kept.at(-1)) - uptime(this.#then)) / 1000 : 0;
  }

  // The growth of `total(row)` a second, by key, for each row of the list `name`; null if there is nothing to compare with.
  rates(name, keyOf, total) {
    const before = indexed(this.#then?.[name], keyOf);
    const result = new Map();
    for (const row of this.#kept.at(-1)?.[name] ?? []) {
      const then = before.get(keyOf(row));
      const grown = then && total(row) !== null ? total(row) - total(then) : null;
      result.set(keyOf(row), grown === null || grown < 0 ? null : grown / this.seconds);
    }
    return result;
  }

  // [{victim, thief, rate}] of the pairs with recent steals, the busiest first. A pair that was not listed before had none.
  steals() {
    if (!this.#then) return [];
    const before = indexed(this.#then.steals, pair);
    return this.#kept
      .at(-1)
      .steals.map((row) => ({ victim: row.victim, thief: row.thief, rate: (row.steals - (before.get(pair(row))?.steals ?? 0)) / this.seconds }))
      .filter((row) => row.rate > 0)
      .sort((a, b) => b.rate - a.rate);
  }

  get jobsPerSecond() {
    if (!this.#then || allEnded(this.#then) === null) return null;
    return Math.max(0, allEnded(this.#kept.at(-1)) - allEnded(this.#then)) / this.seconds;
  }
}
