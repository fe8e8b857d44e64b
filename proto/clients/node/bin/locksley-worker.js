#!/usr/bin/env node
// A worker: locksley-worker tasks.js [--url redis://queue:7771] …
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { isatty } from 'node:tty';
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
function refuse(problem) {
  console.error(`locksley-worker: ${problem}`);
  process.exit(64);
}
function parsed() {
  try {
    return parseArgs({ allowPositionals: true, options: { url: text, slots: text, name: text, lease: text, grace: text, help: { type: 'boolean' } } });
  } catch (error) {
    return refuse(`${error.message}\n${USAGE}`);
  }
}
const { values, positionals } = parsed();
if (values.help || positionals.length !== 1) {
  console.error(USAGE);
  process.exit(values.help ? 0 : 64);
}
function number(name, least, otherwise) {
  if (values[name] === undefined) return otherwise;
  if (!/^\d+$/.test(values[name]) || Number(values[name]) < least) refuse(`--${name}: expected a whole number from ${least} on, found "${values[name]}"`);
  return Number(values[name]);
}
const options = { slots: number('slots', 1, 1), name: values.name ?? `${hostname()}-${process.pid}`, lease: number('lease', 1, 10_000), grace: number('grace', 0, 30_000) };
const file = pathToFileURL(resolve(positionals[0])).href;
process.on('unhandledRejection', (error) => console.error('locksley-worker: a rejection that nothing handles:', error)); // other jobs go on
if (!values.url && isatty(0)) refuse('jobs come from the daemon: name this program as `worker:` in its configuration, or give --url redis://HOST:7771');
const local = values.url ? null : await import('../lib/local.js'); // before the module, which may print
async function exported() {
  try {
    return Object.values(await import(file));
  } catch (error) {
    // If a module that the application imports is missing, the stack trace says more.
    if (error.code !== 'ERR_MODULE_NOT_FOUND' || error.url !== file) throw error;
    return refuse(`there is no file ${positionals[0]}`);
  }
}
const app = (await exported()).find((value) => value instanceof Locksley);
if (!app) refuse(`${positionals[0]} exports no Locksley`);
if (local) {
  await local.serve(app);
} else {
  const worker = new RemoteWorker(app, values.url, options);
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, () => {
      worker.stop();
      process.once(signal, () => process.exit(75)); // at the second signal
    });
  }
  try {
    await worker.run();
    process.exit(0);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    console.error(`locksley-worker: ${error.message}`);
    process.exit(78);
  }
}
