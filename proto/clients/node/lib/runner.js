// One job: from its payload to its status and output, the same for a local worker, a remote one, and inline().
import { AsyncLocalStorage } from 'node:async_hooks';
import { LocksleyError, encodeFailure } from './errors.js';

const LONGEST_NOTE = 4096; // bytes; the daemon takes no longer one
const running = new AsyncLocalStorage();

// The job of the task that calls this function.
export function currentJob() {
  const job = running.getStore();
  if (!job) throw new LocksleyError('no job runs here');
  return job;
}

// A job as its task sees it, and the reports of the task about it. `attempt` is 0 where the worker is not told; `note` is the last note of an earlier
// attempt; `signal` is aborted when the batch is cancelled, or the time is over.
export class Job {
  #controller = new AbortController();
  #percent = -1;
  #tell;

  constructor(batch, index, handler, { attempt = 0, trace = '', note = '', tell = () => {} } = {}) {
    Object.assign(this, { batch, index, handler, attempt, trace, note });
    this.#tell = tell;
  }

  get signal() {
    return this.#controller.signal;
  }

  // From 0 to 100. Only a change of the whole number is reported.
  progress(percent) {
    const whole = Math.min(100, Math.max(0, Math.round(percent) || 0));
    if (whole !== this.#percent) this.#tell(['PROGRESS', (this.#percent = whole)]);
  }

  // The next attempt has it as `note`, as far as it fits into 4 KiB.
  saveNote(text) {
    const bytes = Buffer.from(String(text)).subarray(0, LONGEST_NOTE);
    this.#tell(['TEXT', new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true })]); // without a character that was cut
  }

  stop(reason) {
    this.#controller.abort(new LocksleyError(`the job was stopped: ${reason}`));
  }
}

// [status, output]. A task that was asked to stop, and throws, is `cancelled`.
export async function runJob(app, job, payload) {
  try {
    return await running.run(job, async () => {
      const [task, args] = app.callOf(payload, job.handler);
      return ['ok', task.codec.dumps(await task.fn(...args))];
    });
  } catch (error) {
    return job.signal.aborted ? ['cancelled', Buffer.from(job.signal.reason.message)] : ['error', encodeFailure(error, job.attempt, app.codec)];
  }
}
