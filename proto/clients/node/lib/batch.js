// A batch as its owner sees it: its results, its status, and what can be done to it.
import { EventEmitter } from 'node:events';
import { decodeFailure } from './errors.js';
import { BLOCK_MS, asMap, checked } from './wire.js';

const PAGE_ROWS = 1000;
const PROGRESS_MS = 250;

export const OVER = Symbol('over'); // an event for the package: the batch was seen to be over

const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
const asFacts = (reply) => Object.fromEntries(Object.entries(asMap(reply)).map(([name, value]) => [camel(name), value]));

export function asStatus(reply) {
  const status = asFacts(reply);
  status.isOver = status.state === 'done' || status.state === 'cancelled';
  return status;
}

// How the job `index` ended. `value` is what the task returned; if the job did not end well, it throws the JobError, or, if the signal of map()
// cancelled the job, that signal's reason.
export class Result {
  #batch;

  constructor(batch, index, status, output) {
    Object.assign(this, { index, status, output });
    this.#batch = batch;
  }

  get ok() {
    return this.status === 'ok';
  }

  get error() {
    return this.ok ? null : decodeFailure(this.#batch.id, this.index, this.status, this.output, this.#batch.codec);
  }

  get value() {
    if (this.status === 'cancelled') this.#batch.signal?.throwIfAborted();
    if (!this.ok) throw this.error;
    return this.#batch.codec.loads(this.output);
  }
}

// Events, while there is a listener for `progress` or `end`, until the application is closed: `progress`, with the status, when it has changed; `end`,
// with the last one; `error`, if there is a listener for it.
export class Batch extends EventEmitter {
  #watched = false;

  // `signal`: that of map(), which cancels the batch.
  constructor(app, id, codec = app.codec, signal = undefined) {
    super();
    Object.assign(this, { app, id, codec, signal });
    this.on('newListener', (event) => {
      if ((event === 'progress' || event === 'end') && !this.#watched) {
        this.#watched = true;
        this.#watch().catch((error) => this.listenerCount('error') > 0 && this.emit('error', error)); // without a listener, `error` would end the program
      }
    });
  }

  // The results in the order of completion; those of a running batch as soon as they come.
  [Symbol.asyncIterator]() {
    return this.results();
  }

  async *results({ signal, onlyFailed = false } = {}) {
    let cursor = '0';
    do {
      const words = ['RESULTS', this.id, 'FROM', cursor, 'COUNT', PAGE_ROWS, 'BLOCK', BLOCK_MS, ...(onlyFailed ? ['FAILED'] : [])];
      const [next, rows] = checked(await this.app.transport.ask([words], signal))[0];
      for (const [index, status, output] of rows) yield new Result(this, index, status.toString(), output);
      cursor = next.toString();
    } while (cursor !== '0');
    this.emit(OVER);
  }

  // The results in the order of the jobs. Results that come early wait in memory.
  async *ordered(options) {
    const waiting = new Map();
    let at = 0;
    for await (const result of this.results(options)) {
      waiting.set(result.index, result);
      for (; waiting.has(at); at += 1) {
        yield waiting.get(at);
        waiting.delete(at);
      }
    }
    for (const index of [...waiting.keys()].sort((a, b) => a - b)) yield waiting.get(index); // there are gaps where results are not kept
  }

  // What the task returned, in the order of the jobs; throws what the first `value` throws.
  async values(options) {
    const values = [];
    for await (const result of this.ordered(options)) values.push(result.value);
    return values;
  }

  // The value of the first job; for a batch of one.
  async result(options) {
    for await (const result of this.ordered(options)) return result.value;
    return undefined;
  }

  // The jobs that did not end well, in the order of completion.
  async *failed(options) {
    for await (const result of this.results({ ...options, onlyFailed: true })) if (!result.ok) yield result.error;
  }

  async status() {
    return this.#seen(await this.#ask('STATUS'));
  }

  // Returns the last status once the batch is over. The signal ends the wait, not the batch.
  async wait({ signal } = {}) {
    for (;;) {
      const status = this.#seen(checked(await this.app.transport.ask([['WAIT', this.id, BLOCK_MS]], signal))[0]);
      if (status.isOver) return status;
    }
  }

  // Returns how many jobs will not run because of it; running jobs are asked to stop.
  cancel() {
    return this.#ask('CANCEL');
  }

  // Queues the failed jobs again, or only those with these indexes. Returns how many; after a lost reply it may be 0 although they were queued.
  async retry(...indexes) {
    return this.#ask('RETRY', 'ROUND', (await this.status()).retryRounds, ...indexes);
  }

  // Why the batch does not run, and when it will be over.
  async explain() {
    const { state, reason, paused, ahead, share, received, jobs_per_second, eta_ms } = asMap(await this.#ask('EXPLAIN'));
    return { state, reason, paused: Boolean(paused), ahead, share: Number(share), received: Number(received), jobsPerSecond: Number(jobs_per_second), etaMs: eta_ms };
  }

  // What is known of one job, as JOB has it. Payload and output are Buffers.
  async job(index) {
    return asFacts(await this.#ask('JOB', index));
  }

  // The end of what a job wrote to standard error, also while it runs.
  async log(index) {
    return String((await this.#ask('LOG', index))[1]);
  }

  // Drops the batch, which must be over, and its results.
  async forget() {
    return (await this.#ask('FORGET')) === 1;
  }

  #seen(reply) {
    const status = asStatus(reply);
    if (status.isOver) this.emit(OVER);
    return status;
  }

  async #ask(command, ...words) {
    return checked(await this.app.transport.ask([[command, this.id, ...words]]))[0];
  }

  async #watch() {
    const { transport } = this.app;
    const { closings } = transport;
    for (let last = ''; transport.closings === closings; ) {
      const status = this.#seen(checked(await transport.ask([['WAIT', this.id, PROGRESS_MS]]))[0]);
      const shown = `${status.state} ${status.jobs} ${status.ok} ${status.failed} ${status.cancelled}`;
      if (shown !== last) this.emit('progress', status);
      last = shown;
      if (status.isOver) return this.emit('end', status);
      if (this.listenerCount('progress') + this.listenerCount('end') === 0) break;
    }
    this.#watched = false;
  }
}
