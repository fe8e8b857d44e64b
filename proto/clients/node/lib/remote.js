// A worker on any machine: `locksley-worker tasks.js --url redis://queue:7771 --slots 50`, over proto/WORKER_PROTOCOL.md. As many jobs run side by
// side as there are slots, as promises; BEATs go out between them, so a task that computes for longer than the lease loses its jobs.
import { setTimeout as sleep } from 'node:timers/promises';
import { Addresses } from './addresses.js';
import { Refused } from './errors.js';
import { Job, runJob } from './runner.js';
import { ELSEWHERE, LATER, REPLY_TIMEOUT_MS, afterReading, asMap, call, checked, connect, within } from './wire.js';

const BLOCK_MS = 30_000;
const BEAT_MS = 1000; // at most: STOP and CUT come in the reply of BEAT
const SHORT_MS = 20; // a slot whose leases take less gets its next lease in advance
const SETTLE_BYTES = 4 << 20;
const lost = async () => {
  throw new Refused('LOST the daemon has another store');
};

class Lease {
  constructor(reply, slot, worker) {
    const [name, batch, handler, first, count, attempt, timeoutMs, trace, payloads, id, , , range, note] = reply;
    Object.assign(this, { batch, first, attempt, timeoutMs, payloads, range, slot, worker, next: first, high: first + count });
    Object.assign(this, { name: name.toString(), handler: handler.toString(), id: id.toString(), trace: String(trace ?? ''), note: String(note ?? '') });
    this.attemptNow = attempt; // for RECLAIM: each restart of the daemon makes it one higher, while the jobs keep the one they got
    this.left = new Set(Array.from({ length: count }, (_, i) => first + i)); // the jobs that this worker holds, as the daemon sees it
    this.ended = new Map(); // index to [status, output]; not acknowledged yet
    this.unsent = [];
    this.job = null;
  }

  async run(app) {
    while (this.next < this.high) {
      const index = this.next++;
      if (!this.left.has(index)) continue; // it runs elsewhere
      const tell = ([kind, value]) => this.worker.note(this, index, kind, value);
      const job = (this.job = new Job(this.id, index, this.handler, { attempt: this.attempt, trace: this.trace, note: this.note, tell }));
      const timer = this.timeoutMs > 0 ? setTimeout(() => this.#late(job), this.timeoutMs) : null;
      const [status, output] = await runJob(app, job, this.#payload(index));
      clearTimeout(timer);
      this.#end(index, status, output);
    }
    this.job = null;
  }

  // Keeps jobs from `at` on, or from the first that has not started if that is higher, from starting. Returns where to YIELD from, or null.
  cut(at) {
    const start = Math.max(at, this.next);
    if (start >= this.high) return null;
    for (let index = start; index < this.high; index += 1) this.left.delete(index);
    this.high = start;
    return start;
  }

  // The lease has a new name, and only these jobs: the others run elsewhere. Daemons before 0.2 do not say the attempt.
  reclaimed(name, ranges, attempt = this.attemptNow) {
    this.name = name;
    this.attemptNow = attempt;
    const held = (index) => ranges.some(([low, high]) => low <= index && index < high);
    this.left = new Set([...this.left].filter(held));
    this.ended = new Map([...this.ended].filter(([index]) => this.left.has(index)));
    this.unsent = [...this.ended.keys()].sort((a, b) => a - b);
    if (this.job && !this.left.has(this.job.index)) this.job.stop('it runs elsewhere');
  }

  #payload(index) {
    if (!this.range) return this.payloads[index - this.first];
    const number = String(BigInt(this.range[0].toString()) + BigInt(index - this.first));
    return Buffer.from(this.range[1] === null ? number : this.range[1].toString().replaceAll('{}', number));
  }

  #late(job) {
    this.#end(job.index, 'timeout', Buffer.from(`the job took longer than ${this.timeoutMs / 1000} s`));
    job.stop('timeout');
    this.worker.giveBack(this, 0); // they must not wait for a job that may not end
  }

  #end(index, status, output) {
    if (!this.left.has(index) || this.ended.has(index)) return;
    this.ended.set(index, [status, output]);
    this.unsent.push(index);
    this.worker.stir();
  }
}

export class RemoteWorker {
  #leases = new Set();
  #store = ''; // the store whose batches are leased
  #link = null;
  #wake = null;
  #notes = new Map(); // to send in the next round, the last of each job: [lease, index, kind, value]
  #isStirred = false;
  #isStopping = false;
  #end = 0; // of the grace time
  #isDraining = false;

  constructor(app, url, { slots = 1, name, lease = 10_000, grace = 30_000, redis = {} }) {
    Object.assign(this, { app, addresses: new Addresses(url, 7771), name, lease, grace, redis });
    this.replyMs = REPLY_TIMEOUT_MS; // of a reply that need not wait for jobs or disks; tests set less
    this.slots = Array.from({ length: slots }, (_, number) => ({ number, leases: 0, lastMs: 1000 }));
    this.handlers = [...new Set([...app.tasks.values()].map((task) => task.handler))].sort();
  }

  // Runs until stop(). Rejects with a Refused if another attempt cannot help.
  async run() {
    // A daemon that has taken over gives the leased jobs to others after some seconds.
    for (let delay = 100; !this.#isOver(); delay = Math.min(delay * 2, this.#leases.size > 0 ? 500 : 5000)) {
      const began = Date.now();
      const { url } = this.addresses;
      try {
        await this.#session(url);
      } catch (error) {
        // Once the worker has joined, the page of a proxy whose daemon restarts is no reason to end, nor is a file of authorities that has changed.
        const passes = LATER.has(error.code) || ELSEWHERE.has(error.code) || (['PROTOCOL', 'TLS'].includes(error.code) && this.#store);
        if (error instanceof Refused && !passes && this.addresses.has(url)) throw error;
        console.error(`locksley: ${url.split('@').pop().replace(/^rediss?:\/\//, '')}: ${error.message}; trying again`);
        this.addresses.turn(url, error.message);
      }
      if (Date.now() - began > 10_000) delay = 100;
      for (const end = Date.now() + delay; !this.#isOver() && Date.now() < end; ) await sleep(50);
    }
  }

  #isOver() {
    return this.#isStopping && (this.#leases.size === 0 || Date.now() >= this.#end);
  }

  // Running jobs end, for `grace` milliseconds; the others go back.
  stop() {
    this.#isStopping = true;
    this.#end = Date.now() + this.grace;
    for (const lease of [...this.#leases]) this.giveBack(lease, 0);
    console.error('locksley: stopping: jobs that run may end');
    this.stir();
  }

  stir() {
    this.#isStirred = true;
    this.#wake?.();
  }

  // A note that was sent is lost if its connection breaks.
  note(lease, index, kind, value) {
    this.#notes.set(`${lease.id} ${index} ${kind}`, [lease, index, kind, value]);
    this.stir();
  }

  #tell(command) {
    this.#link?.callBuffer(...command).catch(() => {});
  }

  giveBack(lease, at) {
    const start = lease.cut(at);
    if (start !== null) this.#tell(['YIELD', lease.name, start]);
    if (lease.left.size === 0) this.#leases.delete(lease);
  }

  async #session(url) {
    const link = await connect(url, this.redis);
    let broken = null;
    link.once('close', () => {
      broken = new Error('the connection broke');
      this.stir();
    });
    const ask = async (...words) => checked([await call(link, words)])[0];
    const askInTime = (...words) => within(ask(...words), undefined, this.replyMs);
    let beats = null;
    try {
      const joined = asMap(await askInTime('JOIN', this.name, 'SLOTS', this.slots.length, 'LEASE', this.lease, 'HANDLERS', ...this.handlers));
      if (joined.addresses.length > 1) this.addresses.add(joined.addresses.map(String)); // a cluster
      const before = this.#store;
      this.#store = String(joined.store ?? '');
      const isOther = before && this.#store && this.#store !== before;
      for (const lease of [...this.#leases]) await this.#reclaim(isOther ? lost : askInTime, lease);
      this.#link = link;
      this.#isDraining = false;
      console.error(`locksley: joined for ${this.handlers.join(', ')}`);
      beats = setInterval(() => this.#beat(ask).catch(() => link.disconnect()), Math.min(BEAT_MS, joined.beat_ms));
      await this.#serve(link, ask, () => broken);
    } finally {
      clearInterval(beats);
      this.#link = null;
      link.disconnect();
    }
  }

  async #reclaim(ask, lease) {
    const indexes = [...lease.left];
    try {
      if (indexes.length > 0) {
        const [low, high] = [indexes.reduce((a, b) => Math.min(a, b)), indexes.reduce((a, b) => Math.max(a, b)) + 1];
        const words = ['RECLAIM', lease.batch, lease.attemptNow, low, high, 'SLOT', lease.slot.number];
        // With its name, since the daemon may not know yet that the old connection is gone. Earlier daemons do not know LEASE.
        const [name, ranges, attempt] = await ask(...words, 'LEASE', lease.name).catch((error) => {
          if (error.code !== 'ERR') throw error;
          return ask(...words);
        });
        return lease.reclaimed(name.toString(), ranges, attempt);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      console.error(`locksley: jobs of batch ${lease.id} are no longer this worker's: they have ended, or run elsewhere: ${error.message}`);
    }
    lease.reclaimed('', []);
    this.#leases.delete(lease);
  }

  // Settles jobs that have ended, and claims jobs for slots that want some, until the worker is stopped and all jobs have ended.
  async #serve(link, ask, broken) {
    let [isClaiming, outcome] = [false, null];
    for (;;) {
      if (broken()) throw broken();
      this.#isStirred = false;
      if (outcome) {
        const { reply, slot, error } = outcome;
        outcome = null;
        if (error || (reply instanceof Refused && reply.code !== 'DRAINING')) throw error ?? reply;
        if (reply instanceof Refused) this.#isDraining = true;
        else if (reply) this.#take(new Lease(reply, slot, this));
      }
      for (const [lease, index, kind, value] of this.#notes.values()) this.#tell(['NOTE', lease.name, index, kind, value]);
      this.#notes.clear(); // sent before the ends of their jobs
      for (const lease of [...this.#leases]) this.#settle(ask, lease);
      if (this.#isOver()) break;
      const slot = this.slots.find((one) => one.leases === 0 || (one.leases === 1 && one.lastMs < SHORT_MS));
      if (slot && !isClaiming && !this.#isStopping && !this.#isDraining) {
        isClaiming = true;
        const came = (found) => {
          [isClaiming, outcome] = [false, found];
          this.stir();
        };
        call(link, ['CLAIM', 'SLOT', slot.number, 'BLOCK', BLOCK_MS]).then((reply) => came({ reply, slot }), (error) => came({ error }));
      }
      const isInTime = await this.#stirred(this.#isStopping ? 50 : BLOCK_MS + 10_000);
      if (!isInTime && isClaiming && !this.#isStopping) throw new Error('no reply to CLAIM');
    }
    await within(call(link, ['LEAVE']), undefined, this.replyMs); // jobs that still run go back
  }

  // Waits until stir() is called; false: the time was over before.
  #stirred(ms) {
    if (this.#isStirred) return true;
    return new Promise((resolve) => {
      const timer = afterReading(ms, () => resolve(false));
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  #take(lease) {
    this.#leases.add(lease);
    if (this.#isStopping) return this.giveBack(lease, 0);
    const { slot } = lease;
    const runs = async () => {
      const before = slot.running;
      slot.leases += 1;
      await before; // a slot runs one job at a time
      const began = Date.now();
      await lease.run(this.app);
      slot.lastMs = Date.now() - began;
      slot.leases -= 1;
      this.stir();
    };
    slot.running = runs().catch((error) => { // a bug. The jobs of this lease would never end
      console.error(`locksley: slot ${slot.number} ended by an unexpected error, and this worker with it: its jobs run elsewhere:`, error);
      process.exit(70);
    });
  }

  // A command for each run of indexes with the same status.
  #settle(ask, lease) {
    const unsent = lease.unsent.splice(0).filter((index) => lease.ended.has(index)).sort((a, b) => a - b);
    for (let i = 0; i < unsent.length; ) {
      const first = unsent[i];
      const [status] = lease.ended.get(first);
      const outputs = [];
      for (let size = 0; i < unsent.length && unsent[i] === first + outputs.length && lease.ended.get(unsent[i])[0] === status && size < SETTLE_BYTES; i += 1) {
        outputs.push(lease.ended.get(unsent[i])[1]);
        size += outputs.at(-1).length;
      }
      const indexes = outputs.map((_, n) => first + n);
      ask('SETTLE', lease.name, status, first, ...outputs).then(
        () => this.#acknowledged(lease, indexes),
        (error) => {
          // The connection broke, or the daemon closes it: the reply to RECLAIM says which of them still count.
          if (!(error instanceof Refused) || LATER.has(error.code)) return;
          console.error(`locksley: jobs ${first} to ${indexes.at(-1)} of batch ${lease.id}: ${error.message}`);
          this.#acknowledged(lease, indexes);
        },
      );
    }
  }

  #acknowledged(lease, indexes) {
    for (const index of indexes) {
      lease.left.delete(index);
      lease.ended.delete(index);
    }
    if (lease.left.size > 0) return;
    this.#leases.delete(lease);
    this.stir();
  }

  async #beat(ask) {
    if (this.#leases.size === 0) return;
    const words = [...this.#leases].flatMap((lease) => [lease.name, lease.next]);
    const orders = await within(ask('BEAT', ...words), undefined, Math.min(this.lease, this.replyMs));
    const byName = new Map([...this.#leases].map((lease) => [lease.name, lease]));
    for (const [word, name, at] of orders) {
      const lease = byName.get(String(name));
      if (String(word) === 'DRAIN') this.#isDraining = true;
      if (!lease) continue;
      if (String(word) === 'STOP') lease.job?.stop('cancelled');
      this.giveBack(lease, String(word) === 'CUT' ? at : 0);
    }
  }
}
