// A headless Chromium for tests in another language: one JSON object a line comes in, one goes out. tests/support/browser.py is the other end.
//   {do: "open", options}                           a context of its own with one page; its number
//   {do: "call", page, selector?, method, args}     a method of Playwright's page, or of the locator for `selector`; what it returns
//   {do: "axe", page}                               what axe-core finds: [{id, impact, help, at}], at: where, as selectors
//   {do: "seen", page}                              what happened since the last time: {console, errors, dialogs, requests}
//   {do: "close", page}
import { createInterface } from 'node:readline';
import { load } from './load.js';

const { chromium } = load('playwright-core');
const { source: axeSource } = load('axe-core');
const LONGEST_MS = 120000; // of a machine that is busy: no test is about it

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  // Tests run as root too, and where /dev/shm is small.
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
});
const pages = [];

async function open(options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(LONGEST_MS);
  const page = await context.newPage();
  const seen = { console: [], errors: [], dialogs: [], requests: [] };
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && seen.console.push(message.text()));
  page.on('pageerror', (error) => seen.errors.push(String(error.stack)));
  page.on('request', (request) => seen.requests.push(request.url()));
  page.on('dialog', (dialog) => {
    seen.dialogs.push(dialog.message());
    dialog.dismiss();
  });
  return pages.push({ context, page, seen }) - 1;
}

// Evaluated, not added as a script: the page's Content-Security-Policy forbids scripts of others. Contrast takes axe longer than all the rest
// together, and dashboard_page.py looks at it by itself, and more strictly: at text of any size alike.
async function axe(page) {
  if (await page.evaluate(() => globalThis.axe === undefined)) await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'], rules: { 'color-contrast': { enabled: false } } }));
  return violations.map(({ id, impact, help, nodes }) => ({ id, impact, help, at: nodes.map((node) => node.target.join(' ')) }));
}

async function answer({ do: what, page: number, selector, method, args = [], options }) {
  if (what === 'open') return open(options);
  const { context, page, seen } = pages[number];
  if (what === 'close') return context.close();
  if (what === 'seen') return Object.fromEntries(Object.entries(seen).map(([name, list]) => [name, list.splice(0)]));
  if (what === 'axe') return axe(page);
  const target = selector === undefined ? page : page.locator(selector);
  const result = await target[method](...args);
  // What is no plain value (a response, a buffer of a picture) stays here.
  return result !== null && typeof result === 'object' && Object.getPrototypeOf(result) !== Object.prototype && !Array.isArray(result) ? null : result;
}

for await (const line of createInterface({ input: process.stdin })) {
  let reply;
  try {
    reply = { result: (await answer(JSON.parse(line))) ?? null };
  } catch (error) {
    reply = { error: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
await browser.close();
