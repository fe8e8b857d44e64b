import { EventEmitter } from 'node:events';
import type { RedisOptions } from 'ioredis';

/** Values to bytes and back. */
export interface Codec {
  dumps(value: unknown): Uint8Array;
  loads(bytes: Buffer): unknown;
}
export const JSON_CODEC: Codec;
/** Bytes as they are, for handlers whose jobs other programs submit. */
export const RAW_CODEC: Codec;

/** Options of a batch, as proto/PROTOCOL.md has them; durations are in milliseconds here. */
export interface BatchOptions {
  name?: string;
  weight?: number;
  timeout?: number;
  retries?: number;
  deadline?: number;
  keep?: 'all' | 'failures' | 'none';
  delay?: number;
  after?: string | Batch | (string | Batch)[];
  afterOk?: string | Batch | (string | Batch)[];
  retain?: number;
  slots?: number;
  maxFails?: number;
  ephemeral?: boolean;
  trace?: string;
  /** The customer, who needs no configuration. */
  for?: string;
}

export interface SubmitOptions extends BatchOptions {
  /** With an id of your own, a program that was interrupted may be run again: it adds the missing jobs. */
  id?: string;
  /** When it is aborted, the batch is cancelled; values of its cancelled jobs throw the signal's reason. */
  signal?: AbortSignal;
}

export interface TaskOptions extends BatchOptions {
  handler?: string;
  /** The task is given its payload as a Buffer, and returns a Buffer, a string or nothing; it needs a handler of its own. */
  raw?: boolean;
}

export interface Waiting {
  /** Ends the wait, not the batch. */
  signal?: AbortSignal;
}

export interface Status {
  id: string;
  name: string;
  handler: string;
  tenant: string;
  customer: string;
  state: 'open' | 'queued' | 'running' | 'done' | 'cancelled';
  isOver: boolean;
  weight: number;
  slots: number;
  jobs: number;
  queued: number;
  running: number;
  ok: number;
  failed: number;
  cancelled: number;
  retried: number;
  retryRounds: number;
  submittedAt: number;
  startedAt: number;
  finishedAt: number;
}

export interface Explanation {
  state: string;
  reason: string;
  paused: boolean;
  ahead: number;
  share: number;
  received: number;
  jobsPerSecond: number;
  etaMs: number;
}

/** What is known of one job, as JOB has it. Null: not known. */
export interface JobFacts {
  index: number;
  status: 'queued' | 'running' | 'ok' | 'error' | 'timeout' | 'crashed' | 'cancelled' | 'failed' | 'ended';
  attempt: number;
  /** Milliseconds since 1970; 0: not yet, or not known. */
  startedAt: number;
  finishedAt: number;
  /** 0: not known. */
  durationUs: number;
  /** '': not known. */
  worker: string;
  exitStatus: number | null;
  progress: number | null;
  note: string | null;
  logBytes: number;
  /** Null before the job has ended. */
  output: Buffer | null;
  /** While the job can still be retried. */
  payload: Buffer | null;
}

/** How a job ended. */
export class Result<R = unknown> {
  private constructor();
  readonly index: number;
  readonly status: 'ok' | 'error' | 'timeout' | 'crashed' | 'cancelled';
  readonly output: Buffer;
  readonly ok: boolean;
  readonly error: JobError | null;
  /** What the task returned; throws the JobError if the job did not end well, or the reason of map()'s signal, if that cancelled it. */
  readonly value: R;
}

export interface BatchEvents {
  progress: [Status];
  end: [Status];
  /** There is no further `progress` or `end`. */
  error: [Error];
}

/** A handle: making one asks nothing. Emits `progress` and `end` while there is a listener for one of them. */
export class Batch<R = unknown> extends EventEmitter implements AsyncIterable<Result<R>> {
  private constructor();
  readonly id: string;
  on<E extends keyof BatchEvents>(event: E, listener: (...args: BatchEvents[E]) => void): this;
  once<E extends keyof BatchEvents>(event: E, listener: (...args: BatchEvents[E]) => void): this;
  /** The results in the order of completion; those of a running batch as soon as they come. */
  [Symbol.asyncIterator](): AsyncGenerator<Result<R>>;
  results(options?: Waiting & { onlyFailed?: boolean }): AsyncGenerator<Result<R>>;
  /** The results in the order of the jobs. Results that come early wait in memory. */
  ordered(options?: Waiting): AsyncGenerator<Result<R>>;
  /** What the task returned, in the order of the jobs; throws what the first `value` throws. */
  values(options?: Waiting): Promise<R[]>;
  /** The value of the first job; for a batch of one. */
  result(options?: Waiting): Promise<R>;
  /** The jobs that did not end well, in the order of completion. */
  failed(options?: Waiting): AsyncGenerator<JobError>;
  status(): Promise<Status>;
  /** The last status, once the batch is over. */
  wait(options?: Waiting): Promise<Status>;
  /** Returns how many jobs will not run because of it; running jobs are asked to stop. */
  cancel(): Promise<number>;
  /** Queues the failed jobs again, or only those with these indexes. Returns how many; after a lost reply it may be 0 although they were queued. */
  retry(...indexes: number[]): Promise<number>;
  /** Why the batch does not run, and when it will be over. */
  explain(): Promise<Explanation>;
  /** What is known of one job. */
  job(index: number): Promise<JobFacts>;
  /** The end of what a job wrote to standard error, also while it runs. */
  log(index: number): Promise<string>;
  /** Drops the batch, which must be over, and its results. */
  forget(): Promise<boolean>;
}

/** A function that workers run. A call of the task itself is a plain call, in this process. */
export interface Task<A extends any[], R> {
  (...args: A): R | Promise<R>;
}
export class Task<A extends any[], R> {
  private constructor();
  readonly name: string;
  readonly handler: string;
  readonly fn: (...args: A) => R | Promise<R>;
  /** The same task with these options as well; for submit(), whose arguments are all the function's. */
  using(options: BatchOptions): Task<A, R>;
  /** A batch with a job for each item. Jobs of a long iterable run while it is still read. */
  map(items: Iterable<A[0]> | AsyncIterable<A[0]>, options?: SubmitOptions): Promise<Batch<R>>;
  /** As map(), but each item is an array of arguments. */
  mapArgs(items: Iterable<A> | AsyncIterable<A>, options?: SubmitOptions): Promise<Batch<R>>;
  /** A batch of one job, with the task's own options. */
  submit(...args: A): Promise<Batch<R>>;
}

export interface LocksleyOptions {
  /** The handler of the daemon that runs the tasks, unless a task names another; default `node`. */
  handler?: string;
  codec?: Codec;
  /** For how many milliseconds a command is tried again when no daemon answers, or when it says "retry later"; default 60,000. */
  patience?: number;
  redis?: RedisOptions;
}

/** An application: its daemon, or several of which one serves, and its tasks. */
export class Locksley {
  /** With several addresses, `redis://a:7770,b:7770`, or several URLs; without a URL, LOCKSLEY_URL. LOCKSLEY_PASSWORD is for a URL without a password. */
  constructor(url?: string | string[], options?: LocksleyOptions);
  readonly tasks: ReadonlyMap<string, Task<any[], unknown>>;
  task<A extends any[], R>(name: string, fn: (...args: A) => R | Promise<R>, options?: TaskOptions): Task<A, R>;
  /** A task that another program has, to submit to: in another language, or in a module that is not to be imported here. */
  named<A extends any[] = any[], R = any>(name: string, options?: TaskOptions): Task<A, R>;
  /** The batch of this id, which another program may have submitted. */
  batch<R = unknown>(id: string, codec?: Codec): Batch<R>;
  /** From now on the application uses the daemon at `url`. Sends nothing yet. */
  connect(url: string | string[]): void;
  /** From now on jobs run in this process, through the codec. Returns a function that restores the former state. */
  inline(): () => void;
  /** Closes connections, those of commands that wait once these have their replies, and ends events; the next command opens new ones. */
  close(): void;
}

/** A job as its task sees it, and the reports of the task about it. */
export class Job {
  private constructor();
  readonly batch: string;
  readonly index: number;
  readonly handler: string;
  /** 0 where the worker is not told. */
  readonly attempt: number;
  readonly trace: string;
  /** The last note of an earlier attempt. */
  readonly note: string;
  /** Aborted when the batch is cancelled, or the time is over. */
  readonly signal: AbortSignal;
  progress(percent: number): void;
  /** The next attempt has it as `note`. */
  saveNote(text: string): void;
}
/** The job of the task that calls this function. */
export function currentJob(): Job;

export class LocksleyError extends Error {}
/** The daemon's error reply; `code` is its first word. */
export class Refused extends LocksleyError {
  readonly code: string;
}
/** No daemon answered while the application's patience lasted. */
export class Unreachable extends LocksleyError {}
/** A job that did not end well; its cause has the worker's stack. */
export class JobError extends LocksleyError {
  readonly batch: string;
  readonly index: number;
  readonly status: 'error' | 'timeout' | 'crashed' | 'cancelled';
  /** The message without batch and index. */
  readonly text: string;
  /** The name of what was thrown, or ''. */
  readonly exception: string;
  readonly attempt: number;
  readonly remoteStack: string;
}

export interface WorkerOptions {
  slots?: number;
  name: string;
  lease?: number;
  grace?: number;
  redis?: RedisOptions;
}
/** What `locksley-worker --url` runs. */
export class RemoteWorker {
  constructor(app: Locksley, url: string, options: WorkerOptions);
  /** Runs until stop(). Rejects with a Refused if another attempt cannot help. */
  run(): Promise<void>;
  /** Running jobs end; the others go back. */
  stop(): void;
}
