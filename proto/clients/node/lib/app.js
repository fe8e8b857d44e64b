// An application: its daemon, its tasks, and how their batches are submitted.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Batch, OVER, asStatus } from './batch.js';
import { JSON_CODEC, RAW_CODEC } from './codec.js';
import { LocksleyError, Refused, Unreachable } from './errors.js';
import { Inline } from './inline.js';
import { Transport, checked } from './wire.js';

const CHUNK_JOBS = 2000; // guesses; the program waits for the daemon's disk once for each window
const CHUNK_BYTES = 1 << 20;
const WINDOW = 8;
const CANCEL_MS = 1000; // a guess: a user who aborts does not want to wait
const LINGER_MS = 200; // the longest time for which a job of a slow iterable waits for others

const duration = (isRight, what, value) => {
  if (!isRight) throw new RangeError(`a duration is a number of milliseconds, ${what}, not ${value}`);
  return value;
};
const notNegative = (value) => duration(value >= 0, '0 or more', value);
const milliseconds = (value) => Math.max(1, Math.round(duration(value > 0, 'more than 0', value)));
const delay = (value) => Math.max(1, Math.round(notNegative(value)));
const seconds = (value) => Math.ceil(notNegative(value) / 1000);
// Options of a batch, as proto/PROTOCOL.md has them; durations are in milliseconds here.
const OPTIONS = {
  name: ['NAME', String], weight: ['WEIGHT', Number], timeout: ['TIMEOUT', milliseconds], retries: ['RETRIES', Number],
  deadline: ['DEADLINE', milliseconds], keep: ['KEEP', String], delay: ['DELAY', delay], after: ['AFTER', String], afterOk: ['AFTEROK', String],
  retain: ['RETAIN', seconds], slots: ['SLOTS', Number], maxFails: ['MAXFAILS', Number], ephemeral: ['EPHEMERAL', Boolean], trace: ['TRACE', String],
  for: ['FOR', String],
};

function optionWords(options) {
  const words = [];
  for (const [name, value] of Object.entries(options)) {
    if (name === 'id' || name === 'signal' || value === undefined) continue;
    if (!Object.hasOwn(OPTIONS, name)) throw new TypeError(`a batch has no option '${name}'; there are: id, signal, ${Object.keys(OPTIONS).join(', ')}`);
    const [word, kind] = OPTIONS[name];
    if (kind === Boolean) words.push(...(value ? [word] : []));
    else for (const one of Array.isArray(value) ? value : [value]) words.push(word, one instanceof Batch ? one.id : kind(one));
  }
  return words;
}

// The payloads of a source in chunks. A chunk that is not full is handed on LINGER_MS after its first payload came, whether others follow or not.
class Chunks {
  #source;
  #signal;
  #chunk = [];
  #size = 0;
  #isOver = false;
  #error = null;
  #timer = null; // of the chunk that is not full
  #isDue = false; // a chunk can be handed on, or an error
  #wake = () => {};
  #goOn = () => {}; // once a full chunk is handed on

  constructor(items, payloadOf, signal) {
    this.#source = items[Symbol.asyncIterator]?.() ?? items[Symbol.iterator]();
    this.#signal = signal;
    signal?.addEventListener('abort', this.#due);
    this.#read(payloadOf).catch((error) => (this.#error = error)).then(this.#due);
  }

  // The next chunk, and whether it is the last one. Throws what the source throws, and the reason of an aborted signal.
  async next() {
    if (!this.#isDue && !this.#signal?.aborted) await new Promise((resolve) => (this.#wake = resolve));
    this.#signal?.throwIfAborted();
    if (this.#error) throw this.#error;
    const chunk = this.#chunk;
    clearTimeout(this.#timer);
    [this.#chunk, this.#size, this.#timer, this.#isDue] = [[], 0, null, this.#isOver];
    this.#goOn();
    return [chunk, this.#isOver];
  }

  // Closes the source, without waiting for it: a source that is silent closes when it continues.
  close() {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener('abort', this.#due);
    if (!this.#isOver) (async () => this.#source.return?.())().catch(() => {});
    this.#isOver = true;
  }

  #due = () => {
    this.#isDue = true;
    this.#wake();
  };

  async #read(payloadOf) {
    for (;;) {
      const { done, value } = await this.#source.next();
      if (this.#isOver) return;
      if (done) break;
      const payload = payloadOf(await value); // as `for await` does
      this.#chunk.push(payload);
      this.#size += payload.length;
      this.#timer ??= setTimeout(this.#due, LINGER_MS);
      if (this.#chunk.length < CHUNK_JOBS && this.#size < CHUNK_BYTES) continue;
      const goesOn = new Promise((resolve) => (this.#goOn = resolve));
      this.#due();
      await goesOn;
    }
    this.#isOver = true;
  }
}

// Sends one SUBMIT if there are few payloads; else a stream, which continues where an earlier run of the program with the same id broke off. That run may
// have streamed as few payloads, because they came slowly. Returns the batch's name in commands: its id; user/id if an admin has made it for another user.
async function submit(transport, handler, names, words, chunks, signal, isKnown) {
  const id = names.at(-1);
  const [payloads, isLast] = await chunks.next();
  if (isLast) {
    const [reply] = await transport.ask([['SUBMIT', handler, 'ID', id, ...words, ...(payloads.length > 0 ? ['JOBS', ...payloads] : ['RANGE', 0, 0])]], signal);
    if (!(reply instanceof Refused)) return nameOf(transport, names, signal);
    if (reply.code === 'EXISTS') {
      const [added] = await transport.ask([['ADDAT', await nameOf(transport, names, signal), 0, ...payloads.slice(0, 1)]], signal);
      if (added instanceof Refused) throw reply; // that batch was not streamed
    } else if (!reply.mayGoInParts) throw reply;
  }
  try {
    return await stream(transport, handler, names, words, [payloads, isLast], chunks, signal);
  } catch (error) {
    // Without the id, no later run can continue the batch. If no daemon answers, there is nothing to do: the daemon closes the batch some time after its
    // connection broke.
    const ends = names.flatMap((name) => [['CANCEL', name], ['CLOSE', name]]); // CLOSE: for a user who may not cancel
    if (!isKnown && !signal?.aborted && !(error instanceof Unreachable)) await transport.ask(ends, AbortSignal.timeout(CANCEL_MS)).catch(() => {});
    throw error;
  }
}

async function stream(transport, handler, names, words, [payloads, isLast], chunks, signal) {
  let id = names.at(-1);
  const ask = async (commands) => checked(await transport.ask(commands, signal));
  let there = 0;
  const [opened] = await transport.ask([['OPEN', handler, 'ID', id, ...words]], signal);
  if (opened instanceof Refused) {
    const status = opened.code === 'EXISTS' ? asStatus((await ask([['STATUS', await nameOf(transport, names, signal)]]))[0]) : null;
    if (status?.handler !== handler) throw opened;
    there = status.jobs;
  }
  id = await nameOf(transport, names, signal);
  let [window, at, sent, began] = [[], 0, there, Date.now()];
  for (;;) {
    const missing = payloads.slice(Math.max(0, there - at));
    at += payloads.length;
    if (missing.length > 0) window.push(missing);
    const following = isLast ? null : chunks.next();
    following?.catch(() => {}); // its error is thrown below, unless a command fails before
    if (window.length > 0 && (window.length === WINDOW || Date.now() - began > LINGER_MS || !(await comesSoon(following)))) {
      await add(transport, id, sent, window, signal);
      [window, sent, began] = [[], at, Date.now()];
    }
    if (isLast) break;
    [payloads, isLast] = await following;
  }
  const [total] = await ask([['CLOSE', id]]);
  if (total !== at) throw new LocksleyError(`the batch ${id} has ${total} jobs, not these ${at}`);
  return id;
}

// Adds these chunks from index `at` on. Splits a chunk that is too large for one command into halves, and so on, because a user may have room for few jobs.
async function add(transport, id, at, chunks, signal) {
  const commands = [];
  for (const payloads of chunks) {
    commands.push(['ADDAT', id, at, ...payloads]);
    at += payloads.length;
  }
  const replies = await transport.ask(commands, signal);
  const refused = replies.findIndex((reply) => reply instanceof Refused);
  if (refused === -1) return;
  if (!replies[refused].mayGoInParts || chunks[refused].length === 1) throw replies[refused];
  for (const [, , first, ...payloads] of commands.slice(refused)) {
    const half = Math.ceil(payloads.length / 2);
    await add(transport, id, first, [payloads.slice(0, half)], signal);
    if (half < payloads.length) await add(transport, id, first + half, [payloads.slice(half)], signal);
  }
}

// The possible names of a batch that has this id and is for this customer: for user/customer also user/id, because an admin may have a batch of its own with
// this id.
function namesOf(id, customer = '') {
  const [user, ...rest] = String(customer).split('/');
  return rest.length > 0 ? [`${user}/${id}`, id] : [id];
}

// The one of these names by which the daemon knows the batch: a daemon without users knows no user/id.
async function nameOf(transport, names, signal) {
  if (names.length === 1) return names[0];
  const [reply] = await transport.ask([['STATUS', names[0]]], signal);
  return reply instanceof Refused ? names[1] : names[0];
}

// Whether the following chunk comes before the others have waited for LINGER_MS.
async function comesSoon(following) {
  return following !== null && Promise.race([following.then(() => true, () => false), sleep(LINGER_MS, false, { ref: false })]);
}

const cancelledBy = new WeakMap(); // for each signal, its batches

// Cancels the batch when the signal is aborted, unless the batch was seen to be over. A signal has one listener, however many batches it is given to, because
// it may live as long as the program.
function cancelWith(signal, batch) {
  if (!cancelledBy.has(signal)) {
    const batches = new Set();
    cancelledBy.set(signal, batches);
    signal.addEventListener('abort', () => batches.forEach((one) => one.cancel().catch(() => {})), { once: true }); // the batches may be gone
  }
  const batches = cancelledBy.get(signal);
  batches.add(batch);
  batch.once(OVER, () => batches.delete(batch));
}

// The instances of a subclass are functions that call `fn`; they have the methods of the subclass and those of functions.
class Callable {
  constructor(fn) {
    return Object.setPrototypeOf((...args) => fn(...args), new.target.prototype);
  }
}
Object.setPrototypeOf(Callable.prototype, Function.prototype);

// A call of a task, task(x), is a call of its function, in this process.
export class Task extends Callable {
  constructor(app, name, fn, { handler = app.handler, raw = false, ...options }) {
    super(fn);
    optionWords(options);
    Object.defineProperty(this, 'name', { value: name }); // a function's name cannot be assigned
    Object.assign(this, { app, fn, handler, raw, options, codec: raw ? RAW_CODEC : app.codec });
  }

  // The same task with these options as well; for submit(), whose arguments are all the function's: task.using({ delay: 60_000 }).submit(x).
  using(options) {
    const { app, name, fn, handler, raw } = this;
    return new Task(app, name, fn, { handler, raw, ...this.options, ...options });
  }

  payload(args) {
    if (this.raw) return this.codec.dumps(args[0]);
    // Leaves out undefined arguments at the end: JSON would make null of them, and then the
    // function would not take its defaults.
    return this.codec.dumps({ task: this.name, args: args.slice(0, args.findLastIndex((arg) => arg !== undefined) + 1) });
  }

  // A batch with a job for each item of an iterable, or of an async one, such as a stream of lines. Jobs of a long one run while it is still read. With an
  // `id` of your own, a program that was interrupted may be run again: it adds the missing jobs.
  map(items, options) {
    return this.#submit(items, (item) => [item], options);
  }

  // As map(), but each item is an array of arguments.
  mapArgs(items, options) {
    const argsOf = (args) => {
      if (!Array.isArray(args)) throw new TypeError(`mapArgs takes arrays of arguments, found ${typeof args}`);
      return args;
    };
    return this.#submit(items, argsOf, options);
  }

  // A batch of one job, with the task's own options.
  submit(...args) {
    return this.#submit([args], (one) => one, {});
  }

  async #submit(items, argsOf, options = {}) {
    const { signal } = options;
    if (items?.[Symbol.iterator] === undefined && items?.[Symbol.asyncIterator] === undefined) throw new TypeError(`map takes what can be iterated over, found ${items === null ? 'null' : typeof items}`);
    const all = { name: this.name, ...this.options, ...options };
    const words = optionWords(all);
    const names = namesOf(options.id ?? randomUUID(), all.for);
    const batch = new Batch(this.app, names[0], this.codec, signal);
    const chunks = new Chunks(items, (item) => this.payload(argsOf(item)), signal);
    const cancel = () => batch.cancel().catch(() => {}); // the batch may be gone
    try {
      batch.id = await submit(this.app.transport, this.handler, names, words, chunks, signal, options.id !== undefined);
    } catch (error) {
      // If no daemon answers, cancel() goes on in the background for as long as the application's patience.
      if (signal?.aborted) await Promise.race([cancel(), sleep(CANCEL_MS, undefined, { ref: false })]);
      throw error;
    } finally {
      chunks.close();
    }
    if (signal?.aborted) await cancel();
    else if (signal) cancelWith(signal, batch);
    return batch;
  }
}

// The daemon at `url`; with several addresses, redis://a:7770,b:7770, or several URLs, the one that serves; without a URL, the daemon of the variable
// LOCKSLEY_URL, or the one on this machine. `handler` is the handler of the daemon that runs the tasks, unless a task names another. `patience` is for how
// many milliseconds a command is tried again when no daemon answers, or when it says "retry later". `redis`: options of ioredis.
export class Locksley {
  tasks = new Map(); // by name
  #raw = new Map(); // by handler
  #settings;
  #connected; // the Transport, also while jobs run inline

  constructor(url, { handler = 'node', codec = JSON_CODEC, patience = 60_000, redis = {} } = {}) {
    Object.assign(this, { handler, codec });
    this.#settings = [patience, redis];
    this.connect(url || process.env.LOCKSLEY_URL || 'redis://127.0.0.1:7770');
  }

  // From now on the application uses the daemon at `url`. Sends nothing yet.
  connect(url) {
    const before = this.#connected;
    this.transport = this.#connected = new Transport(url, ...this.#settings);
    before?.close();
  }

  // Options are those of the task's batches, and `handler` and `raw`: a raw task is given its payload as a Buffer, and returns a Buffer, a string
  // or nothing; it needs a handler of its own.
  task(name, fn, options = {}) {
    const task = new Task(this, name, fn, options);
    if (this.tasks.has(name)) throw new Error(`there are two tasks named '${name}'`);
    for (const other of this.tasks.values()) {
      if (other.handler === task.handler && (other.raw || task.raw)) throw new Error(`a raw task needs a handler of its own, but '${task.handler}' has two tasks`);
    }
    this.tasks.set(name, task);
    if (task.raw) this.#raw.set(task.handler, task);
    return task;
  }

  // A task that another program has, to submit to: in another language, or in a module that is not to be imported here.
  named(name, options = {}) {
    const elsewhere = () => {
      throw new LocksleyError(`the task '${name}' is in another program`);
    };
    return new Task(this, name, elsewhere, options);
  }

  // The task and the arguments that a payload asks a worker to run.
  callOf(payload, handler) {
    if (this.#raw.has(handler)) return [this.#raw.get(handler), [payload]];
    const call = this.codec.loads(payload);
    if (typeof call?.task !== 'string') throw new LocksleyError('the payload is not {"task": name, "args": [...]}');
    const task = this.tasks.get(call.task);
    if (!task) throw new LocksleyError(`no task is named '${call.task}'; there are: ${[...this.tasks.keys()].sort().join(', ') || 'none'}`);
    const named = Object.keys(call.kwargs ?? {}).length > 0 ? [call.kwargs] : []; // as functions in JavaScript take them: an object after the others
    return [task, [...(call.args ?? []), ...named]];
  }

  // The batch of this id, which another program may have submitted.
  batch(id, codec) {
    return new Batch(this, id, codec);
  }

  // From now on jobs run in this process, through the codec, and no daemon is asked. Returns a function that restores the former state.
  inline() {
    const before = this.transport;
    this.transport = new Inline(this);
    return () => {
      this.transport = before;
    };
  }

  // Closes connections; the next command opens new ones.
  close() {
    this.#connected.close();
  }
}
