#!/usr/bin/env node
// A worker: locksley-worker tasks.js [--url redis://queue:7771] …
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Locksley, Refused, RemoteWorker } from '../lib/index.js';

const USAGE = `usage: locksley-worker FILE [--url URL] [--slots N] [--name NAME] [--lease MS] [--grace MS]
  FILE     a module that exports a Locksley
  --url    the daemon's port for workers, rediss://user:password@host:7771; without it jobs come on standard input
  --slots  jobs at a time, side by side (default 1)
  --name   of this worker, for people
  --lease  milliseconds of silence after which its jobs go to others (default 10000)
  --grace  milliseconds that running jobs have after SIGTERM (default 30000)`;
const text = { type: 'string' };
const { values, positionals } = parseArgs({ allowPositionals: true, options: { url: text, slots: text, name: text, lease: text, grace: text, help: { type: 'boolean' } } });
if (values.help || positionals.length !== 1) {
  console.error(USAGE);
  process.exit(values.help ? 0 : 64);
}
process.on('unhandledRejection', (error) => console.error('locksley-worker: a rejection that nothing handles:', error)); // other jobs go on
const local = values.url ? null : await import('../lib/local.js'); // before the module: it may print
const exported = Object.values(await import(pathToFileURL(resolve(positionals[0]))));
const app = exported.find((value) => value instanceof Locksley);
if (!app) {
  console.error(`locksley-worker: ${positionals[0]} exports no Locksley`);
  process.exit(64);
}
if (local) {
  await local.serve(app);
} else {
  const number = (name, otherwise) => (values[name] === undefined ? otherwise : Number(values[name]));
  const options = { slots: number('slots', 1), name: values.name ?? `${hostname()}-${process.pid}`, lease: number('lease', 10_000), grace: number('grace', 30_000) };
  const worker = new RemoteWorker(app, values.url, options);
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, () => {
      worker.stop();
      process.once(signal, () => process.exit(75)); // the second one
    });
  }
  try {
    await worker.run();
    process.exit(0);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const hint = error.message.includes('unknown command') ? ' (the port for workers is another one, 7771 unless workers.port says otherwise)' : '';
    console.error(`locksley-worker: ${error.message}${hint}`);
    process.exit(78);
  }
}
