// Numbers, times and words for people. An absent value (null, undefined) is a dash.

export const NONE = '–';
const exactly = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
const absent = (value) => value === null || value === undefined || Number.isNaN(value);

// Three significant digits: 1.23, 12.3, 123.
function threeDigits(value) {
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(digits).replace(/\.0+$|(\.\d*?)0+$/, '$1');
}

// 0 … 9,999 unchanged, then 12.3 k, 1.2 M, 3 G.
export function count(value) {
  if (absent(value)) return NONE;
  if (value < 9999.5) return exactly.format(Math.round(value));
  const units = ['k', 'M', 'G', 'T', 'P'];
  let at = -1;
  while (value >= 999.5 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${threeDigits(value)} ${units[at]}`;
}

export const exact = (value) => (absent(value) ? '' : exactly.format(value));

export function rate(perSecond) {
  if (absent(perSecond)) return NONE;
  if (perSecond === 0) return '0/s';
  if (perSecond < 0.01) return `${threeDigits(perSecond * 3600)}/h`;
  return perSecond < 99.5 ? `${threeDigits(perSecond)}/s` : `${count(perSecond)}/s`;
}

export function bytes(value) {
  if (absent(value)) return NONE;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let at = 0;
  while (value >= 1023.5 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return at === 0 ? `${Math.round(value)} B` : `${threeDigits(value)} ${units[at]}`;
}

// Only all is 100%, and only nothing is 0%, whatever rounding would give.
export function percent(fraction) {
  if (absent(fraction)) return NONE;
  if (fraction > 0 && fraction < 0.01) return '<1%';
  if (fraction < 1 && fraction > 0.99) return '>99%';
  return `${Math.round(fraction * 100)}%`;
}

// Two units at most: 2 us, 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 4 d 3 h.
export function duration(seconds) {
  if (absent(seconds)) return NONE;
  if (seconds > 0 && seconds < 0.0000995) return `${threeDigits(seconds * 1e6)} us`;
  if (seconds < 0.0995) return `${threeDigits(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${threeDigits(Math.round(seconds * 10) / 10)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const parts = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const first = parts.findIndex(([, size]) => whole >= size);
  const [unit, size] = parts[first];
  const text = `${Math.floor(whole / size)} ${unit}`;
  const [nextUnit, nextSize] = parts[first + 1];
  const rest = Math.floor((whole % size) / nextSize);
  return rest ? `${text} ${rest} ${nextUnit}` : text;
}

// What has been is rounded down to one unit; what comes has two.
export function ago(at_ms, now_ms) {
  if (!at_ms) return NONE;
  const seconds = (now_ms - at_ms) / 1000;
  if (Math.abs(seconds) < 1) return 'now';
  if (seconds < 0) return `in ${duration(Math.round(-seconds))}`;
  const [size, unit] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']].find(([least]) => seconds >= least);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

export function exactTime(at_ms) {
  if (!at_ms) return '';
  const date = new Date(at_ms);
  return `${local.format(date)} (${date.toISOString()})`;
}

// The values of EXPLAIN's `reason`.
const REASONS = {
  'running': 'It is running.',
  'waiting-its-turn': 'It waits its turn: more is due to other batches at the moment.',
  'paused': 'It is paused: no job starts until it is resumed.',
  'delayed': 'It was submitted with a delay, which has not passed.',
  'after-batch': 'It waits for another batch to end.',
  'open-and-empty': 'It is open, and all jobs added so far have been claimed: it waits for more.',
  'handler-at-limit': 'Its handler already runs as many jobs at a time as it may.',
  'lane-at-limit': 'All slots of its lane are in use. It is next.',
  'crash-backoff': 'Its last job crashed a worker, or all workers of its handler end before they read a job: the error of the job says why. It continues after a pause of at most five seconds.',
  'store-unreadable': 'Its payloads cannot be read from the store now: the database is away or sends them slowly, or the disk fails. It continues when they can be read.',
  'results-at-limit': 'The results of this user that are in memory have reached their limit: read and forget batches, or cancel some.',
  'waiting-for-workers': 'Only remote workers run its jobs, and none serves its handler now.',
  'workers-at-limit': 'The remote workers that serve its handler hold as many bytes of payloads as they may: they get more jobs when some of these have ended.',
  'rate-limited': 'The rate limit of its handler is used up for the moment.',
  'handler-missing': 'Its handler is not configured, or is being replaced. The batch continues when the handler is available.',
  'tenant-at-limit': 'Its tenant already runs as many jobs at a time, or starts as many in a while, as it may.',
  'customer-at-limit': 'Its customer already runs as many jobs at a time, or starts as many in a while, as it may.',
  'ended': 'It has ended.',
};
export const reason = (word) => REASONS[word] ?? (word ? `${word}.` : NONE);
export const words = (code) => (code ? code.replaceAll('-', ' ') : NONE);
