'use strict';
// A Locksley worker in Node.js: serve(handler) answers each job with what the handler returns, or resolves to, for its payload.
//
//   const { serve } = require('./locksley_worker.js');
//
//   serve((payload) => payload.toString().toUpperCase());
//
// The handler is given the payload as a Buffer, and {index, batch}: the job's place in its batch, and the batch's id. It returns a Buffer
// (or another Uint8Array), a string (sent as UTF-8), or nothing for an empty output; or a promise of that. An error is the job's error, as one line;
// its stack goes to standard error, and so to the daemon's log. One job at a time: how many processes there are is the
// daemon's matter. The promise that serve() returns is fulfilled when the daemon wants no more of this process.
//
// Require it before anything that prints: from then on console and process.stdout write to standard error, and nothing gets between the answers. Node
// cannot hide descriptors 0 and 1 from programs that it starts: do not let them inherit those (stdio: ['ignore', 2, 2]). Node.js 18 or later.

const fs = require('node:fs');
const { format } = require('node:util');

const LONGEST_ERROR = 4096; // characters; the daemon takes a line of up to 64 KiB
const ANSWERS = 1; // the descriptor

async function serve(handler) {
  const requests = new Requests();
  for await (const bytes of process.stdin) {
    requests.add(bytes);
    for (let request = requests.next(); request !== null; request = requests.next()) {
      const [payload, index, batch] = request;
      let answer;
      try {
        answer = bulkString(await handler(payload, { index: Number(index.toString()), batch: batch.toString() }));
      } catch (error) {
        console.error(error);
        answer = Buffer.from(`-${oneLine(error)}\r\n`);
      }
      // At once, even if more jobs are waiting: should the next one kill this process, or take too long, then the daemon
      // knows which it was.
      write(answer);
    }
  }
}

// console asks for it when it is first used.
Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr });

// The requests in a stream of bytes, which comes in pieces of any size.
class Requests {
  #pieces = []; // not yet looked at, beyond what #wanted says
  #size = 0;
  #wanted = 1; // bytes that there must be for a look to be worth while: a large payload is put together once

  add(bytes) {
    this.#pieces.push(bytes);
    this.#size += bytes.length;
  }

  // [payload, index, batch], or null: the rest is yet to come.
  next() {
    if (this.#size < this.#wanted) return null;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0] : Buffer.concat(this.#pieces);
    this.#pieces = [bytes];
    const strings = [];
    let at = bytes.indexOf('\n') + 1; // behind "*3"
    while (strings.length < 3) {
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

function bulkString(output) {
  if (output === undefined || output === null) return Buffer.from('$0\r\n\r\n');
  if (typeof output === 'string') return Buffer.from(`$${Buffer.byteLength(output)}\r\n${output}\r\n`);
  if (output instanceof Uint8Array) return Buffer.concat([Buffer.from(`$${output.length}\r\n`), output, Buffer.from('\r\n')]);
  throw new TypeError(`the handler returned ${typeof output}; it may return a Buffer, a string or nothing`);
}

// Class and message, in one line; anything can be thrown.
function oneLine(error) {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : format('Error: %s', error);
  return text.split(/\s+/).join(' ').slice(0, LONGEST_ERROR);
}

function write(answer) {
  for (let written = 0; written < answer.length; ) written += fs.writeSync(ANSWERS, answer, written);
}

module.exports = { serve };
