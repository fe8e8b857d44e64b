// node-redis, unmodified, against a daemon, with RESP2 and with RESP3: node node_redis_test.js HOST PORT
import { run } from './checks.js';
import { host, load, login, port } from './load.js';

const { createClient } = load('redis');

function adapt(client) {
  return {
    call: (words) => client.sendCommand(words),
    duplicate: async () => adapt(await client.duplicate().connect()),
    subscribe: (channel, listener) => client.subscribe(channel, listener),
    multi: (commands) => {
      const multi = client.multi();
      for (const words of commands) multi.addCommand(words);
      return multi.exec();
    },
    close: () => client.close(),
  };
}

for (const RESP of [2, 3]) {
  await run(`node-redis, RESP${RESP}`, async () => {
    const client = createClient({ socket: { host, port }, name: 'tester', RESP, ...login });
    client.on('error', (error) => {
      console.error('node-redis:', error);
      process.exit(1);
    });
    const adapted = adapt(await client.connect());
    await adapted.call(['FORGET', 'heard']); // of the round before
    return adapted;
  });
}
