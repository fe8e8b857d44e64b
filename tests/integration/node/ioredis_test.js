// ioredis, unmodified, against a daemon: node ioredis_test.js HOST PORT
import { run } from './checks.js';
import { host, load, login, port } from './load.js';

const { Redis } = load('ioredis');

function adapt(redis) {
  return {
    call: ([command, ...words]) => redis.call(command, words),
    duplicate: async () => adapt(redis.duplicate()),
    subscribe: async (channel, listener) => {
      redis.on('message', (from, message) => from === channel && listener(message));
      await redis.subscribe(channel);
    },
    multi: async (commands) => {
      const multi = redis.multi();
      for (const [command, ...words] of commands) multi.call(command, ...words);
      return (await multi.exec()).map(([error, reply]) => {
        if (error) throw error;
        return reply;
      });
    },
    close: () => redis.quit(),
  };
}

await run('ioredis', async () => {
  const redis = new Redis({ host, port, connectionName: 'tester', ...login });
  redis.on('error', (error) => {
    console.error('ioredis:', error);
    process.exit(1);
  });
  return adapt(redis);
});
