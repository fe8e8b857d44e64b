'use strict';
// A worker for the tests: what its payload says is what it does; any other payload comes back.

const { execFileSync } = require('node:child_process');
const timers = require('node:timers/promises');
const { serve } = require('../../../proto/clients/node/lib/locksley_worker.cjs');

console.log('on its way'); // before it serves

const CASES = {
  job: (job) => `${job.index} of ${job.batch}`,
  text: () => 'Käse',
  nothing: () => undefined,
  view: () => new Uint8Array(Buffer.from('seen')),
  number: () => 7,
  'two lines': () => {
    throw new RangeError('two\r\n\tlines');
  },
  'no error': () => {
    throw 'a string';
  },
  unspeakable: () => {
    throw Object.create(null);
  },
  long: () => {
    throw new Error('x'.repeat(100_000));
  },
  later: async () => {
    await timers.setTimeout(20);
    return 'done later';
  },
  'fails later': async () => {
    await timers.setTimeout(20);
    throw new TypeError('failed later');
  },
  prints: () => {
    console.log('printed by console');
    process.stdout.write('written by a stream\n');
    execFileSync('echo', ['not shown']);
    return 'quiet';
  },
  dies: () => process.kill(process.pid, 'SIGKILL'),
};

serve((payload, job) => {
  const text = payload.length < 100 ? payload.toString() : '';
  return Object.hasOwn(CASES, text) ? CASES[text](job) : payload;
});
