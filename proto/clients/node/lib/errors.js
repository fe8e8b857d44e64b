// What can go wrong: refusals of the daemon, and jobs that failed. The text of a failed job is one line for people, a TAB, and details for programs: as JSON,
// or in the bytes of the application's codec, as base64 (the same as in the Python package).
import { format } from 'node:util';
import { JSON_CODEC } from './codec.js';

const LONGEST = 60_000; // bytes; the daemon takes a line of up to 64 KiB from a worker
const LONGEST_LINE = 4096; // characters
const LONGEST_STACK = 6000;

export class LocksleyError extends Error {
  get name() {
    return this.constructor.name;
  }
}

// The daemon's error reply. `code` is its first word, such as NOHANDLER or QUEUEFULL.
export class Refused extends LocksleyError {
  constructor(text) {
    super(text);
    this.code = /^[A-Z]+(?= )/.exec(text)?.[0] ?? 'ERR';
  }

  // Whether the daemon may accept fewer jobs at a time.
  get mayGoInParts() {
    return this.code === 'TOOBIG' && !/limits\.max_(batch_jobs|payload)/.test(this.message);
  }
}

// No daemon answered while the application's patience lasted.
export class Unreachable extends LocksleyError {}

// A job that did not end well. `exception` is the name of what was thrown, or ''; `attempt` is 0 where the worker was not told.
export class JobError extends LocksleyError {
  constructor(batch, index, status, message, { exception = '', attempt = 0, traceback = '' } = {}) {
    super(`job ${index} of batch ${batch}: ${message}`, traceback ? { cause: new RemoteError(message, traceback) } : undefined);
    Object.assign(this, { batch, index, status, text: message, exception, attempt });
  }

  // The stack in the worker, or ''. On the prototype, so that a printed error shows it once, as the stack of its cause.
  get remoteStack() {
    return this.cause?.stack ?? '';
  }
}

// The cause of a JobError: its stack is the worker's.
class RemoteError extends LocksleyError {
  constructor(message, stack) {
    super(message);
    this.stack = stack;
  }
}

// The text is cut before it is split: a message may fill the memory.
const onOneLine = (text) => text.slice(0, LONGEST_LINE).split(/\s+/).join(' ');

// Name, message and stack of anything that was thrown, also of what cannot be shown.
function described(error) {
  try {
    return error instanceof Error ? [error.name, error.message, error.stack ?? ''].map(String) : ['Error', format('%s', error), String(error?.stack ?? '')];
  } catch {
    return ['Error', 'what was thrown cannot be shown', ''];
  }
}

// The output of a job whose task threw this error; if it cannot be encoded, only its name.
export function encodeFailure(error, attempt, codec) {
  const [name, text, stack] = described(error);
  const exception = onOneLine(name);
  const message = onOneLine(`${exception}: ${text}`);
  const detail = { exception, attempt, traceback: (stack || message).slice(0, LONGEST_STACK) };
  if (codec === JSON_CODEC) return Buffer.from(`${message}\t${JSON.stringify(detail)}`);
  try {
    for (let { traceback } = detail, line = message; ; ) { // a codec may make many bytes of a character
      const encoded = `${exception}\t${Buffer.from(codec.dumps({ ...detail, traceback, message: line })).toString('base64')}`;
      if (encoded.length <= LONGEST || line === '') return Buffer.from(encoded);
      if (traceback.length > line.length) traceback = traceback.slice(0, traceback.length / 2);
      else line = line.slice(0, line.length / 2);
    }
  } catch {
    return Buffer.from(exception);
  }
}

export function decodeFailure(batch, index, status, output, codec) {
  const tab = output.indexOf('\t');
  if (tab !== -1) {
    const rest = output.subarray(tab + 1).toString();
    try {
      const detail = rest.startsWith('{') ? JSON.parse(rest) : codec.loads(Buffer.from(rest, 'base64'));
      return new JobError(batch, index, status, detail.message ?? output.subarray(0, tab).toString(), detail);
    } catch {
      // Another program's text, which has a TAB.
    }
  }
  return new JobError(batch, index, status, output.toString() || status);
}
