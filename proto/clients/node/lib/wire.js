// Commands and replies over ioredis. A connection that breaks is made anew, to the next address, and the commands are sent again: so all commands here may be
// repeated. A refusal that says "retry later", or that another daemon serves, is handled in the same way. ioredis' own resending is off, because readers must
// know of a break.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Addresses, PORTS, hostOf } from './addresses.js';
import { Refused, Unreachable } from './errors.js';

export const BLOCK_MS = 5000; // of a command that waits: shorter than the time-outs of clients, proxies and firewalls
export const REPLY_TIMEOUT_MS = 30_000;
export const LATER = new Set(['QUEUEFULL', 'DRAINING', 'STORE']);
export const ELSEWHERE = new Set(['READONLY', 'LOADING']); // it stands by, takes over, or is not sure that it still serves
const AT_ONCE = 64; // commands that do not wait for jobs: a guess; each has a connection
const FULL = /^ERR max number of clients reached/; // a temporary refusal
const LOG_IN = 'Log in by the URL, redis://USER:PASSWORD@HOST; LOCKSLEY_PASSWORD is for a URL without a password';
const UNTRUSTED = /^(UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT|GET_ISSUER_CERT_LOCALLY)|(DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED)_CERT|SELF_SIGNED_CERT_IN_CHAIN)$/;

const CERTIFICATE = /-----BEGIN (X509 |TRUSTED )?CERTIFICATE-----[^]*?-----END (X509 |TRUSTED )?CERTIFICATE-----/g;

// The daemon's certificate is signed by an unknown authority. If the program names a file of authorities that Node.js cannot use, no further attempt
// helps: Node.js reads the file once, and goes on without it.
function untrusted(cause) {
  const file = process.env.NODE_EXTRA_CA_CERTS;
  if (!file) return new Error(`${cause.message}: name the authority that signed it: NODE_EXTRA_CA_CERTS=FILE`, { cause });
  try {
    const certificates = readFileSync(file, 'latin1').match(CERTIFICATE) ?? [];
    for (const one of certificates) new X509Certificate(one);
    if (certificates.length > 0) return new Error(`${cause.message}: name the authority that signed it in ${file} (NODE_EXTRA_CA_CERTS)`, { cause });
    return new Refused(`TLS there is no certificate in PEM format in ${file} (NODE_EXTRA_CA_CERTS)`);
  } catch (error) {
    return new Refused(`TLS the certificates of ${file} (NODE_EXTRA_CA_CERTS) cannot be read: ${error.message}`);
  }
}

// The parts of a log-in that are neither in the URL nor in the options of ioredis. For a URL with a user and no password, ioredis alone would send the
// password ''.
function logIn(url, options) {
  const { username, password } = new URL(url);
  const secret = password ? '' : options.password ?? process.env.LOCKSLEY_PASSWORD;
  return secret ? { username: username ? undefined : options.username ?? 'default', password: secret } : {};
}

// A connection of ioredis that does not reconnect by itself. Rejects with a Refused if the daemon refuses the log-in or the connection, or if the file of
// authorities cannot be used; rejects also if the server accepts the connection but does not reply, and when the signal is aborted.
export async function connect(url, options, signal) {
  const redis = new Redis(logIn(url, options), url, {
    lazyConnect: true, connectTimeout: 5000, retryStrategy: () => null, maxRetriesPerRequest: null,
    autoResendUnfulfilledCommands: false, enableReadyCheck: false, enableOfflineQueue: true, disableClientInfo: true, ...options,
  });
  let trouble = null;
  redis.on('error', (error) => (trouble = error));
  const open = async () => {
    await redis.connect();
    await redis.ping(); // the first command: so a refusal of the connection is its reply
    redis.call('CLIENT', 'SETINFO', 'LIB-NAME', 'ioredis').catch(() => {});
  };
  try {
    await within(open(), signal);
  } catch (error) {
    redis.disconnect();
    const cause = trouble ?? error;
    if (cause.message.startsWith('Protocol error, got')) {
      const found = cause.message.includes('got "H"') ? 'this port speaks HTTP, for the dashboard' : "this port does not speak Locksley's protocol";
      throw new Refused(`PROTOCOL ${found}: ${PORTS}`);
    }
    if (cause.name === 'ReplyError' && !FULL.test(cause.message)) {
      throw new Refused(/^(NOAUTH|WRONGPASS)/.test(cause.message) ? `${cause.message.replace(/\.$/, '')}. ${LOG_IN}` : cause.message);
    }
    throw UNTRUSTED.test(cause.code) ? untrusted(cause) : cause;
  }
  return redis;
}

// The reply; a refusal is a Refused, which is returned and not thrown.
export async function call(redis, [command, ...words]) {
  try {
    return await redis.callBuffer(command, ...words);
  } catch (error) {
    if (error.name === 'ReplyError') return new Refused(error.message);
    throw error;
  }
}

export function checked(replies) {
  for (const reply of replies) if (reply instanceof Refused) throw reply;
  return replies;
}

export function asMap(reply) {
  const map = {};
  for (let i = 0; i < reply.length; i += 2) {
    const [key, value] = [reply[i].toString(), reply[i + 1]];
    map[key] = Buffer.isBuffer(value) && key !== 'payload' && key !== 'output' ? value.toString() : value; // these are the user's
  }
  return map;
}

// Admits AT_ONCE commands at a time, in the order in which they came.
class Room {
  #left = AT_ONCE;
  #waiting = new Set();

  async enter(signal) {
    if (this.#left > 0) return void (this.#left -= 1);
    await new Promise((resolve, reject) => {
      const abort = () => {
        this.#waiting.delete(enter);
        reject(signal.reason);
      };
      const enter = () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      };
      this.#waiting.add(enter);
      signal?.addEventListener('abort', abort, { once: true });
    });
  }

  leave() {
    const [next] = this.#waiting;
    if (!next) return void (this.#left += 1);
    this.#waiting.delete(next);
    next();
  }
}

export class Transport {
  #addresses;
  #patience;
  #options;
  #room = new Room();
  #free = []; // idle connections with their URLs; they do not keep the process from ending
  #hasWarned = false; // since the last reply
  closings = 0; // how often it was closed

  constructor(urls, patience, options) {
    this.#addresses = new Addresses(urls, 7770);
    this.#patience = patience;
    this.#options = options;
  }

  // The replies, in order; a refusal is a Refused among them.
  async ask(commands, signal) {
    let until = null;
    let delay = 25;
    const room = ['WAIT', 'RESULTS'].includes(commands[0][0]) ? null : this.#room;
    for (;;) {
      signal?.throwIfAborted();
      await room?.enter(signal);
      const { closings } = this;
      let { redis, url } = this.#free.pop() ?? { redis: null, url: this.#addresses.url };
      let trouble;
      try {
        redis?.stream?.ref();
        redis ??= await connect(url, this.#options, signal);
        const replies = await within(Promise.all(commands.map((command) => call(redis, command))), signal);
        const refused = (codes) => replies.find((reply) => reply instanceof Refused && codes.has(reply.code));
        if (refused(ELSEWHERE)) throw refused(ELSEWHERE);
        if (closings === this.closings) this.#keep(redis, url);
        else redis.disconnect();
        trouble = refused(LATER);
        if (!trouble) {
          this.#hasWarned = false;
          return replies;
        }
      } catch (error) {
        redis?.disconnect();
        signal?.throwIfAborted();
        if (error instanceof Refused && !ELSEWHERE.has(error.code) && !LATER.has(error.code)) throw error;
        for (const other of this.#free.splice(0)) other.redis.disconnect();
        trouble = error instanceof Refused ? error : new Unreachable(`no answer from ${hostOf(url)}: ${error.message}`, { cause: error });
        this.#addresses.turn(url, error.message);
      } finally {
        room?.leave();
      }
      const isFirst = until === null; // a connection that broke is made anew without a warning
      until ??= Date.now() + this.#patience;
      if (Date.now() >= until) throw trouble;
      if (!isFirst && !this.#hasWarned) {
        this.#hasWarned = true;
        process.emitWarning(`${trouble.message}; trying again for ${this.#patience / 1000} s`, 'LocksleyWarning');
      }
      delay = Math.min(delay * 2, 2000);
      await sleep(delay * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => signal.throwIfAborted()); // with the signal's own reason
    }
  }

  // Commands that wait for their replies get them; after that their connections are closed, too.
  close() {
    this.closings += 1;
    for (const { redis } of this.#free.splice(0)) redis.disconnect();
  }

  #keep(redis, url) {
    redis.stream?.unref();
    this.#free.push({ redis, url });
  }
}

// Calls `act` after `ms` milliseconds, once everything that has arrived was read: so a process that was paused, or computed for long, does not give up before
// it has read a reply.
export function afterReading(ms, act) {
  return setTimeout(() => setImmediate(act), ms); // between timers and immediates, Node.js reads
}

// Rejects after `ms` milliseconds, or when the signal is aborted.
export function within(promise, signal, ms = REPLY_TIMEOUT_MS) {
  return new Promise((resolve, reject) => {
    const timer = afterReading(ms, () => reject(new Error(`no reply for ${ms / 1000} s`)));
    const abort = () => reject(signal.reason);
    signal?.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    });
  });
}
