// A worker on the daemon's machine, `worker: [locksley-worker, tasks.js]`: jobs come on standard input, and answers go to standard output
// (deploy/examples/README.md). With `worker_protocol: 2` the jobs that the daemon has sent run side by side, and it is told more of them.
import fs from 'node:fs';
import { Job, runJob } from './runner.js';

const ANSWERS = 1; // the descriptor

// From now on console and process.stdout write to standard error, which is the daemon's log, and nothing gets between the answers.
export function hideStandardOutput() {
  Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr });
}

const CLEANING_MS = 1000;

// Until the daemon wants no more of this process. SIGTERM, which the daemon sends when a job must stop (its time is over, it was cancelled, or the
// daemon has drained for long enough), aborts the job's signal, and is the end.
export async function serve(app) {
  const handler = process.env.LOCKSLEY_HANDLER ?? '';
  const requests = new Requests();
  const running = new Map(); // jobs, by batch and index
  let [isStopping, isVersion2] = [false, false]; // of the protocol: its first message is a job
  process.on('SIGTERM', () => {
    isStopping = true;
    if (running.size === 0) process.exit(0);
    for (const job of running.values()) job.stop('SIGTERM');
    setTimeout(() => process.exit(0), CLEANING_MS);
  });
  const run = async (payload, index, batch, more, answerOf) => {
    const name = `${batch}/${index}`;
    const tell = ([word, value]) => write(wordOf(word, value, isVersion2 ? [bulk(index)] : []));
    const job = new Job(batch.toString(), Number(index.toString()), handler, { ...more, tell });
    running.set(name, job);
    const answer = answerOf(...(await runJob(app, job, payload)));
    running.delete(name);
    write(answer);
    if (isStopping && running.size === 0) process.exit(0);
  };
  for await (const bytes of process.stdin) {
    requests.add(bytes);
    for (let request = requests.next(); request !== null; request = requests.next()) {
      if (request.length === 8) {
        isVersion2 = true;
        const [, payload, index, batch, attempt, trace, note] = request;
        const more = { attempt: Number(attempt.toString()), trace: trace.toString(), note: note.toString() };
        run(payload, index, batch, more, (status, output) => Buffer.concat([Buffer.from('*3\r\n'), bulk(index), bulk(Buffer.from(status)), bulk(output)]));
      } else if (isVersion2) {
        running.get(`${request[2]}/${request[1]}`)?.stop('cancelled'); // [stop, index, batch]
      } else {
        // Answered at once, even if more jobs are waiting: should the next one kill this process, or take too long, then the daemon
        // knows which it was.
        const [payload, index, batch] = request;
        await run(payload, index, batch, {}, (status, output) => (status === 'ok' ? bulk(output) : Buffer.from(`-${output}\r\n`)));
      }
    }
  }
  process.exit(0);
}

// The requests in a stream of bytes, which comes in pieces of any size.
class Requests {
  #pieces = []; // not yet looked at, beyond what #wanted says
  #size = 0;
  #wanted = 1; // bytes that there must be for a look to be worth while: a large payload is put together once

  add(bytes) {
    this.#pieces.push(bytes);
    this.#size += bytes.length;
  }

  // The strings of a message, or null: the rest is yet to come.
  next() {
    if (this.#size < this.#wanted) return null;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0] : Buffer.concat(this.#pieces);
    this.#pieces = [bytes];
    const strings = [];
    let at = bytes.indexOf('\n') + 1; // behind "*3", or "*8"
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

function bulk(bytes) {
  return Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]);
}

// What a job says before its answer. Its words are those of NOTE.
function wordOf(word, value, of) {
  const said = word === 'PROGRESS' ? Buffer.from(`:${value}\r\n`) : bulk(Buffer.from(value).subarray(0, 4096));
  return Buffer.concat([Buffer.from(`*${2 + of.length}\r\n`), bulk(Buffer.from(word === 'PROGRESS' ? 'progress' : 'note')), said, ...of]);
}

function write(answer) {
  for (let written = 0; written < answer.length; ) written += fs.writeSync(ANSWERS, answer, written);
}
