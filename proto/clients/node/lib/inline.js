// inline(): a daemon in this process, as far as a test needs one. Jobs run when they are submitted, one after the other.
import { setTimeout as sleep } from 'node:timers/promises';
import { Refused } from './errors.js';
import { Job, runJob } from './runner.js';

const isFailed = (row) => ['error', 'timeout', 'crashed'].includes(row[1]);
const flat = (object) => Object.entries(object).flatMap(([key, value]) => [Buffer.from(key), typeof value === 'string' ? Buffer.from(value) : value]);

export class Inline {
  #app;
  #batches = new Map();

  constructor(app) {
    this.#app = app;
  }

  async ask(commands, signal) {
    const replies = [];
    for (const [word, id, ...words] of commands) {
      signal?.throwIfAborted();
      replies.push(await this.#reply(word, id, words));
    }
    return replies;
  }

  async #reply(word, id, words) {
    if (word === 'SUBMIT' || word === 'OPEN') return this.#open(id, words, word === 'SUBMIT');
    const batch = this.#batches.get(id);
    if (!batch) return new Refused(`NOBATCH there is no batch '${id}'`);
    switch (word) {
      case 'ADDAT': return this.#add(batch, words[0], words.slice(1));
      case 'CLOSE': batch.state = 'done'; return batch.payloads.length;
      case 'STATUS': case 'WAIT': return this.#status(batch);
      case 'RESULTS': return this.#results(batch, words);
      case 'CANCEL': return 0;
      case 'RETRY': return this.#retry(batch, words.slice(2));
      case 'JOB': return this.#job(batch, words[0]);
      case 'LOG': return [0, Buffer.alloc(0)]; // standard error is this process's
      case 'FORGET': return Number(this.#batches.delete(id));
      default: return flat({ state: batch.state, reason: batch.state === 'open' ? 'open-and-empty' : 'ended', paused: 0, ahead: 0, share: 0, received: 0, jobs_per_second: 0, eta_ms: 0 });
    }
  }

  async #open(handler, words, isWhole) {
    const id = words[1];
    if (this.#batches.has(id)) return new Refused(`EXISTS a batch '${id}' exists`);
    const option = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : '');
    const told = { name: option('NAME'), customer: option('FOR'), slots: Number(option('SLOTS')), retries: Number(option('RETRIES')) };
    const batch = { id, handler, ...told, state: 'open', payloads: [], rows: [], retried: 0, rounds: 0 };
    this.#batches.set(id, batch);
    if (words.includes('JOBS')) await this.#add(batch, 0, words.slice(words.indexOf('JOBS') + 1));
    if (isWhole) batch.state = 'done';
    return Buffer.from(id);
  }

  async #add(batch, at, payloads) {
    if (at !== batch.payloads.length || batch.state !== 'open') return new Refused(`CLOSED the batch has ${batch.payloads.length} jobs, and is ${batch.state}`);
    for (const payload of payloads) {
      batch.payloads.push(payload);
      await this.#run(batch, batch.payloads.length - 1);
    }
    return batch.payloads.length;
  }

  async #run(batch, index) {
    let row = [index, 'error', ''];
    for (let attempt = 1; isFailed(row) && attempt <= batch.retries + 1; attempt += 1) {
      row = [index, ...(await runJob(this.#app, new Job(batch.id, index, batch.handler, { attempt }), batch.payloads[index])), attempt];
      batch.retried += attempt > 1 ? 1 : 0;
    }
    batch.rows.push(row);
  }

  async #results(batch, words) {
    const at = Math.max(0, Number(words[1]) - 1);
    const rows = batch.rows.slice(at, at + words[3]);
    const isEnd = batch.state === 'done' && at + rows.length >= batch.rows.length;
    if (!isEnd && rows.length === 0) await sleep(5); // the caller asks again at once
    const shown = rows.filter((row) => !words.includes('FAILED') || row[1] !== 'ok');
    return [Buffer.from(isEnd ? '0' : String(at + rows.length + 1)), shown.map(([index, status, output]) => [index, Buffer.from(status), output])];
  }

  #job(batch, index) {
    const [, status, output, attempt] = batch.rows.find((row) => row[0] === index) ?? [];
    if (status === undefined) return new Refused(`ERR the batch '${batch.id}' has ${batch.payloads.length} jobs`);
    return flat({
      index, status, attempt, started_at: 0, finished_at: 0, duration_us: 0, worker: '', exit_status: null, progress: null, note: null, log_bytes: 0, output,
      payload: batch.payloads[index],
    });
  }

  #status({ id, name, handler, customer, state, slots, rows, retried, rounds }) {
    const count = (status) => rows.filter((row) => row[1] === status).length;
    return flat({
      id, name, handler, tenant: 'default', customer, state, weight: 1, slots, jobs: rows.length, queued: 0, running: 0, ok: count('ok'), failed: rows.filter(isFailed).length,
      cancelled: count('cancelled'), retried, retry_rounds: rounds, submitted_at: 0, started_at: 0, finished_at: 0,
    });
  }

  async #retry(batch, indexes) {
    const again = batch.rows.filter((row) => isFailed(row) && (indexes.length === 0 || indexes.includes(row[0]))).map((row) => row[0]);
    batch.rows = batch.rows.filter((row) => !again.includes(row[0]));
    batch.rounds += again.length > 0 ? 1 : 0;
    for (const index of again) await this.#run(batch, index);
    return again.length;
  }
}
