'use strict';
// A Locksley worker in Node.js: serve(handler) answers each job with what the handler returns, or resolves to, for its payload. One file, which needs no
// other module: copy it beside your worker.
//
//   const { serve } = require('./locksley_worker.cjs');
//
//   serve((payload) => payload.toString().toUpperCase());
//
// The handler is given the payload as a Buffer, and {index, batch}: the job's place in its batch, and the batch's id. It returns a Buffer (or another
// Uint8Array), a string (sent as UTF-8), or nothing for an empty output; or a promise of that. An error is the job's error, as one line; its stack goes to
// standard error, and so to the daemon's log. The job has progress(percent) and writeNote(text), for people who watch and for the next attempt. One job at a
// time, unless the handler has `worker_protocol: 2` (then the job also has attempt, note, trace, timeoutMs and signal): the daemon decides how many processes
// there are. The promise that serve() returns is fulfilled when the daemon closes standard input.
//
// Require it before anything that prints: from then on console and process.stdout write to standard error, and nothing else gets between the answers. Node
// cannot hide descriptors 0 and 1 from programs that it starts: do not let them inherit those (stdio: ['ignore', 2, 2]). Node.js 18 or later.

const fs = require('node:fs');
const { isatty } = require('node:tty');
const { format } = require('node:util');

const LONGEST_ERROR = 4096; // characters; the daemon takes a line of up to 64 KiB
const ANSWERS = 1; // the descriptor
const BY_HAND =
  'jobs come from the daemon: name this program as `worker:` in its configuration, ' +
  'or start it by `locksley work HANDLER --url redis://HOST:7771 -- PROGRAM`';

async function serve(handler) {
  return serveRuns(async (payload, job) => {
    try {
      return ['ok', outputOf(await handler(payload, job))];
    } catch (error) {
      if (job.signal?.aborted) return ['cancelled', ''];
      console.error(error);
      return ['error', oneLine(error)];
    }
  });
}

// For a library above this one: run(payload, job) resolves to how the job ended, [status, output], and never throws. A text of an error is one line.
async function serveRuns(run) {
  if (isatty(0)) {
    console.error(BY_HAND);
    process.exit(64);
  }
  const requests = new Requests();
  const stops = new Map(); // with worker_protocol: 2, what tells a job to stop, by batch and index
  let isVersion2 = false; // the first message is a job
  for await (const bytes of process.stdin) {
    requests.add(bytes);
    for (let request = requests.next(); request !== null; request = requests.next()) {
      if (request.length === 8) {
        isVersion2 = true;
        serveVersion2(run, request, stops); // not awaited: the next message may come meanwhile
      } else if (isVersion2) {
        stops.get(`${request[2]}/${request[1]}`)?.abort(); // [stop, index, batch]
      } else {
        const [payload, index, batch] = request;
        const job = new Job(Number(index.toString()), batch.toString());
        const [status, output] = await run(payload, job);
        Job.end(job);
        // At once, even if more jobs are waiting: should the next one kill this process, or take too long, then the daemon
        // knows which it was.
        write(status === 'ok' ? bulkString(output) : Buffer.from(`-${output}\r\n`));
      }
    }
  }
}

class Job {
  #hasEnded = false; // code that its handler left running may still report: the daemon would take that for another job

  constructor(index, batch, more = {}) {
    Object.assign(this, { index, batch, ...more });
  }

  static end(job) {
    job.#hasEnded = true;
  }

  // Per cent. With worker_protocol: 2 the message names the job.
  progress(percent) {
    const n = Math.min(100, Math.max(0, Math.trunc(percent) || 0)); // NaN, as from 0 / 0, is 0
    this.#say('progress', Buffer.from(`:${n}\r\n`));
  }

  // At most 4 KiB; the next attempt gets it.
  writeNote(text) {
    this.#say('note', bulkString(Buffer.from(text).subarray(0, 4096)));
  }

  #say(word, value) {
    if (this.#hasEnded) return;
    const named = this.attempt === undefined ? [] : [bulkString(String(this.index))];
    write(Buffer.concat([Buffer.from(`*${2 + named.length}\r\n`), bulkString(word), value, ...named]));
  }
}

// Several jobs run at once, as far as the handler waits for something, and are answered in any order.
async function serveVersion2(run, request, stops) {
  const [, payload, index, batch, attempt, trace, note, timeout] = request;
  const stop = new AbortController();
  const name = `${batch}/${index}`;
  stops.set(name, stop);
  const job = new Job(Number(index.toString()), batch.toString(), {
    attempt: Number(attempt.toString()),
    trace: trace.toString(),
    note: note.length === 0 ? null : note,
    timeoutMs: Number(timeout.toString()),
    signal: stop.signal, // of an AbortController: the batch was cancelled
  });
  const [status, output] = await run(payload, job);
  Job.end(job);
  stops.delete(name);
  write(Buffer.concat([Buffer.from('*3\r\n'), bulkString(index), bulkString(status), bulkString(output)]));
}

// console asks for process.stdout when it is first used.
Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr });

// The requests in a stream of bytes, which comes in pieces of any size.
class Requests {
  #pieces = []; // bytes that are not a whole message yet
  #size = 0;
  #wanted = 1; // how many bytes the next look needs: so a large payload is put together once

  add(bytes) {
    this.#pieces.push(bytes);
    this.#size += bytes.length;
  }

  // The next message, an array of strings; null: the rest of it has yet to come.
  next() {
    if (this.#size < this.#wanted) return null;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0] : Buffer.concat(this.#pieces);
    this.#pieces = [bytes];
    const strings = [];
    let at = bytes.indexOf('\n') + 1; // after "*3"
    const count = at === 0 ? 1 : Number(bytes.toString('latin1', 1, at - 2));
    while (strings.length < count) {
      const end = at === 0 ? -1 : bytes.indexOf('\n', at);
      if (end === -1) return this.#waitFor(this.#size + 1);
      const size = Number(bytes.toString('latin1', at + 1, end - 1));
      at = end + 1 + size + 2;
      if (at > bytes.length) return this.#waitFor(at);
      strings.push(bytes.subarray(end + 1, end + 1 + size));
    }
    this.#pieces = at === bytes.length ? [] : [bytes.subarray(at)];
    this.#size -= at;
    this.#wanted = 1;
    return strings;
  }

  #waitFor(bytes) {
    this.#wanted = bytes;
    return null;
  }
}

function outputOf(value) {
  if (typeof value === 'string' || value instanceof Uint8Array) return value;
  if (value === undefined || value === null) return '';
  throw new TypeError(`the handler returned ${typeof value}; it may return a Buffer, a string or nothing`);
}

function bulkString(output) {
  const bytes = Buffer.from(output);
  return Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]);
}

// Class and message, in one line; anything can be thrown, also what cannot be shown.
function oneLine(error) {
  let text = 'Error';
  try {
    text = error instanceof Error ? `${error.name}: ${error.message}` : format('Error: %s', error);
  } catch {}
  return text.split(/\s+/).join(' ').slice(0, LONGEST_ERROR);
}

function write(answer) {
  for (let written = 0; written < answer.length; ) written += fs.writeSync(ANSWERS, answer, written);
}

module.exports = { serve, serveRuns };
