// Tasks for tests of the Node.js package: `app` for a local worker and a remote one.
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Locksley, currentJob } from '@locksley/client';

export const app = new Locksley(undefined, { handler: process.env.TEST_HANDLER ?? 'far' });

app.task('identity', (value) => value);
app.task('fails', (text) => {
  throw new RangeError(text);
});
app.task('dies', () => process.exit(3));
app.task('about', () => [currentJob().batch, currentJob().index, currentJob().handler]);
app.task('prints', () => console.log('this is no answer'));
app.task('nap', async (ms) => {
  await sleep(ms, undefined, { signal: currentJob().signal });
  return currentJob().index;
});
let naps = 0; // that run in this process
app.task('napsBeside', async (ms) => {
  naps += 1;
  await sleep(ms);
  return naps--;
});
// Ends when so many of them run side by side.
app.task('gathers', async (folder, count) => {
  const { index, signal } = currentJob();
  writeFileSync(`${folder}/here-${index}`, '');
  while (readdirSync(folder).length < count) await sleep(20, undefined, { signal });
  return index;
});
app.task('notes', async () => {
  const job = currentJob();
  if (job.attempt > 1) return [job.attempt, job.note];
  job.progress(40);
  job.saveNote('half of it');
  await sleep(50);
  throw new Error('the first attempt');
});
// As `notes`, with progress that is none, and a note that is cut within a character.
app.task('saysTooMuch', async () => {
  const job = currentJob();
  for (const percent of [1e9, -1, 0 / 0, 33.3]) job.progress(percent);
  job.saveNote(`x${'é'.repeat(3000)}`);
  await sleep(50);
  if (job.attempt === 1) throw new Error('the first attempt');
  return job.note;
});
app.task('saysMuch', (count) => {
  for (let n = 0; n < count; n += 1) {
    currentJob().progress((100 * n) / count);
    currentJob().saveNote(String(n));
  }
});
app.task('leavesARejection', async () => {
  Promise.reject(new Error('left alone'));
  await sleep(20);
  return 'well';
});
app.task('throws', (what) => {
  if (what === 'nothing') throw undefined;
  if (what === 'no text') throw Object.assign(new Error(), { message: Symbol('it') });
  throw { toString: () => app.tasks.get('throws').fn('no text') };
});
app.task('returnsAFunction', () => () => 1);
app.task('sleeps', async (path) => {
  writeFileSync(`${path}-began`, '');
  try {
    await sleep(3_600_000, undefined, { signal: currentJob().signal });
  } finally {
    writeFileSync(path, '');
  }
});
app.task('sleepsUnlessStopped', (path) => app.tasks.get('sleeps').fn(path).catch(() => 'stopped'));
app.task('holdsFrom', (from, folder) => (currentJob().index >= from ? app.tasks.get('holds').fn(folder) : null));
app.task('holds', async (folder) => {
  const { index, attempt, signal } = currentJob();
  writeFileSync(`${folder}/began-${index}-${attempt}`, '');
  while (!existsSync(`${folder}/go`)) await sleep(5, undefined, { signal });
  return index;
});
app.task('deaf', async (folder) => {
  while (!existsSync(`${folder}/go`)) await sleep(5);
});
