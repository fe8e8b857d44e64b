// Commands and replies over ioredis. A connection that breaks is made anew, and the commands are sent again: so all commands here may be repeated.
// A refusal that says "retry later" is waited for in the same way. ioredis' own resending is off, because readers must know of a break.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Refused, Unreachable } from './errors.js';

export const BLOCK_MS = 5000; // of a command that waits: shorter than the time-outs of clients and of what is between
const REPLY_TIMEOUT_MS = 30_000;
const LATER = new Set(['QUEUEFULL', 'DRAINING', 'STORE']);
const LOGIN = /^(WRONGPASS|NOAUTH|NOPERM)/;

// A connection of ioredis that does not come back by itself. Rejects with a Refused if the log-in is refused.
export async function connect(url, defaultPort, options) {
  const { port } = new URL(url);
  const redis = new Redis(url, {
    ...(port ? {} : { port: defaultPort }),
    lazyConnect: true, connectTimeout: 5000, retryStrategy: () => null, maxRetriesPerRequest: null,
    autoResendUnfulfilledCommands: false, enableReadyCheck: false, enableOfflineQueue: true, ...options,
  });
  let trouble = null;
  redis.on('error', (error) => (trouble = error));
  try {
    await redis.connect();
    await redis.ping();
  } catch (error) {
    redis.disconnect();
    const cause = trouble ?? error;
    throw LOGIN.test(cause.message) ? new Refused(cause.message) : cause;
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
  for (let i = 0; i < reply.length; i += 2) map[reply[i].toString()] = Buffer.isBuffer(reply[i + 1]) ? reply[i + 1].toString() : reply[i + 1];
  return map;
}

export class Transport {
  #urls;
  #at = 0;
  #patience;
  #options;
  #free = [];
  breaks = 0; // connections that broke: the daemon may have been restarted

  constructor(urls, patience, options) {
    this.#urls = urls;
    this.#patience = patience;
    this.#options = options;
  }

  // The replies, in order; a refusal is a Refused among them.
  async ask(commands, signal) {
    let until = null;
    let delay = 25;
    for (;;) {
      signal?.throwIfAborted();
      let redis = this.#free.pop();
      let trouble;
      try {
        redis ??= await connect(this.#urls[this.#at], 7770, this.#options);
        const replies = await within(Promise.all(commands.map((command) => call(redis, command))), signal);
        this.#free.push(redis);
        trouble = replies.find((reply) => reply instanceof Refused && LATER.has(reply.code));
        if (!trouble) return replies;
      } catch (error) {
        redis?.disconnect();
        if (error instanceof Refused || signal?.aborted) throw error;
        for (const other of this.#free.splice(0)) other.disconnect();
        this.breaks += 1;
        trouble = new Unreachable(`no answer from ${new URL(this.#urls[this.#at]).host}: ${error.message}`, { cause: error });
        this.#at = (this.#at + 1) % this.#urls.length;
      }
      until ??= Date.now() + this.#patience;
      if (Date.now() >= until) throw trouble;
      delay = Math.min(delay * 2, 2000);
      await sleep(delay * (0.5 + Math.random() / 2), undefined, { signal });
    }
  }

  close() {
    for (const redis of this.#free.splice(0)) redis.disconnect();
  }
}

// Fails after so long, or when the signal is aborted.
export function within(promise, signal, ms = REPLY_TIMEOUT_MS) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no reply for ${ms / 1000} s`)), ms);
    const abort = () => reject(signal.reason);
    signal?.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    });
  });
}
