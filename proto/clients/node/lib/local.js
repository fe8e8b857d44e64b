// A worker on the daemon's machine, `worker: [locksley-worker, tasks.js]`, over locksley_worker.cjs, which has the pipes: importing this hides standard
// output, so import it before anything that prints. With `worker_protocol: 2` the jobs that the daemon has sent run side by side.
import worker from './locksley_worker.cjs';
import { Job, runJob } from './runner.js';

const CLEANING_MS = 1000;
const NEVER = new Promise(() => {});

// Serves jobs until the daemon closes the input or sends SIGTERM, which it sends when a job must stop: its time is over, it was cancelled, or the daemon has
// drained for long enough. SIGTERM, and the end of the input while jobs run, abort the signals of the running jobs, and then the process ends. Jobs that do
// not end well after that get no answer: the daemon knows why it stopped them, and if the daemon itself ends, they run again.
export async function serve(app) {
  const handler = process.env.LOCKSLEY_HANDLER ?? '';
  const running = new Set();
  let isStopping = false;
  const stop = () => {
    if (running.size === 0) process.exit(0);
    isStopping = true;
    for (const job of running) job.stop('SIGTERM');
    setTimeout(() => process.exit(0), CLEANING_MS);
  };
  process.on('SIGTERM', stop);
  await worker.serveRuns(async (payload, told) => {
    if (isStopping) return NEVER;
    const tell = ([word, value]) => (word === 'PROGRESS' ? told.progress(value) : told.writeNote(value));
    const note = String(told.note ?? '');
    const job = new Job(told.batch, told.index, handler, { attempt: told.attempt, trace: told.trace, note, tell });
    told.signal?.addEventListener('abort', () => job.stop('cancelled'));
    running.add(job);
    const end = await runJob(app, job, payload);
    running.delete(job);
    if (isStopping && running.size === 0) setImmediate(() => process.exit(0)); // once the answer is written
    return isStopping && end[0] !== 'ok' ? NEVER : end;
  });
  stop();
}
