// README.md beside this folder begins with the first program; index.d.ts has the types.
export { Locksley, Task } from './app.js';
export { Batch, Result } from './batch.js';
export { JSON_CODEC, RAW_CODEC } from './codec.js';
export { JobError, LocksleyError, Refused, Unreachable } from './errors.js';
export { RemoteWorker } from './remote.js';
export { Job, currentJob } from './runner.js';
