// What both clients for Node.js are asked to do. `client` adapts one of them:
//   call(words)        sends a command, given as an array, and resolves to the reply
//   duplicate()        a second connection, adapted likewise
//   subscribe(channel, listener)
//   multi(commands)    sends them as a transaction, and resolves to their replies
//   close()
import assert from 'node:assert/strict';

const WAIT_MS = 30000;

// A map, whether the client makes an object of it or leaves the flat array.
export function pairs(reply) {
  if (!Array.isArray(reply)) return reply instanceof Map ? Object.fromEntries(reply) : { ...reply };
  return Object.fromEntries(reply.flatMap((key, i) => (i % 2 === 0 ? [[key, reply[i + 1]]] : [])));
}

async function allRows(client, batch, count) {
  const rows = [];
  for (let cursor = '0'; ; ) {
    const [next, page] = await client.call(['RESULTS', batch, 'FROM', cursor, 'COUNT', String(count)]);
    rows.push(...page);
    if (next === '0') return rows;
    cursor = next;
  }
}

const checks = {
  async 'submits, waits on a second connection, reads the results'(client) {
    const waiting = await client.duplicate();
    const batch = await client.call(['SUBMIT', 'sleep', 'NAME', 'from Node.js', 'JOBS', '100', '1', 'bad']);
    const wait = waiting.call(['WAIT', batch, String(WAIT_MS)]);
    // The first connection is free meanwhile.
    assert.equal(await client.call(['ECHO', 'free']), 'free');
    const status = pairs(await wait);
    assert.deepEqual([status.state, status.ok, status.failed, status.name], ['done', 2, 1, 'from Node.js']);
    const rows = await allRows(client, batch, 1);
    assert.deepEqual(rows.map(([index, state]) => [index, state]).sort(), [[0, 'ok'], [1, 'ok'], [2, 'error']]);
    await waiting.close();
  },

  async 'sends a hundred thousand payloads in one command'(client) {
    const payloads = Array.from({ length: 100000 }, (_, i) => `payload ${i}`);
    const batch = await client.call(['SUBMIT', 'echo', 'JOBS', ...payloads]);
    const status = pairs(await client.call(['WAIT', batch, String(WAIT_MS)]));
    assert.equal(status.ok, payloads.length);
    const rows = await allRows(client, batch, 25000);
    assert.equal(rows.length, payloads.length);
    for (const [index, state, output] of rows) assert.deepEqual([state, output], ['ok', payloads[index]]);
  },

  async 'sends many commands without waiting for replies'(client) {
    const replies = await Promise.all(Array.from({ length: 2000 }, (_, i) => client.call(['RUN', 'echo', 'JOBS', String(i)])));
    replies.forEach((reply, i) => assert.deepEqual(reply, [['ok', String(i)]]));
  },

  async 'sends a transaction'(client) {
    const commands = Array.from({ length: 100 }, (_, i) => ['SUBMIT', 'echo', 'JOBS', String(i)]);
    const ids = await client.multi([...commands, ['PING']]);
    assert.equal(ids.pop(), 'PONG');
    assert.equal(new Set(ids).size, commands.length);
    for (const [i, batch] of ids.entries()) {
      await client.call(['WAIT', batch, String(WAIT_MS)]);
      assert.deepEqual(await client.call(['RESULTS', batch]), ['0', [[0, 'ok', String(i)]]]);
    }
    await assert.rejects(client.multi([['PING'], ['NOSUCHCMD']]));
    assert.equal(await client.call(['PING']), 'PONG');
  },

  async 'sees errors with their code'(client) {
    await assert.rejects(client.call(['SUBMIT', 'nosuch', 'JOBS', 'a']), /^\w*Error: NOHANDLER /);
    assert.equal(await client.call(['PING']), 'PONG');
  },

  async 'hears the events of a batch'(client) {
    const listening = await client.duplicate();
    const kinds = [];
    let finished;
    const done = new Promise((resolve) => (finished = resolve));
    await listening.subscribe('batch:heard', (message) => {
      const { event } = JSON.parse(message);
      kinds.push(event);
      if (event === 'done') finished();
    });
    await client.call(['SUBMIT', 'echo', 'ID', 'heard', 'JOBS', 'a']);
    await done;
    assert.deepEqual(kinds, ['accepted', 'started', 'done']);
    await listening.close();
  },
};

// Ends the process: 0 if all went well.
export async function run(name, connect) {
  const timer = setTimeout(() => {
    console.error(`${name}: waited too long for: ${current}`);
    process.exit(1);
  }, 3 * WAIT_MS);
  let current = 'the connection';
  try {
    const client = await connect();
    for (const [claim, check] of Object.entries(checks)) {
      current = claim;
      await check(client);
    }
    current = 'the end of the connection';
    await client.close();
    console.log(`${name}: ${Object.keys(checks).length} checks, all as it should be`);
  } catch (error) {
    console.error(`${name}: ${current}:`, error);
    process.exitCode = 1;
  }
  clearTimeout(timer);
}
