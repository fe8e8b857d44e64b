// The command that submits a first batch, for pages that have nothing to show.
const DEFAULT_PORT = '7770';
const PAYLOADS = { spin: '1000', echo: 'hello', sha256: 'hello', fib: '20', sleep: '100' }; // of the built-in handlers, the best example first
const NO_EXAMPLES = ['fail', 'exec'];

// null for a user who may not submit, or has no such handler. `options` are those of `locksley run`.
export function firstCommand(session, overview, options = '') {
  if (!session?.may.submit || !overview) return null;
  const names = overview.handlers.map((row) => row.name);
  const handler = Object.keys(PAYLOADS).find((name) => names.includes(name)) ?? names.find((name) => !NO_EXAMPLES.includes(name));
  if (!handler) return null;
  const port = overview.nodes.find((row) => row.state === 'active')?.wire.split(':').at(-1) ?? DEFAULT_PORT;
  const login = session.user ? `${encodeURIComponent(session.user)}@` : '';
  const { tls } = overview.server;
  const url = `--url redis${tls ? 's' : ''}://${login}${location.hostname}${port === DEFAULT_PORT ? '' : `:${port}`}`;
  return ['locksley', login || tls || port !== DEFAULT_PORT ? url : null, 'run', handler, options, PAYLOADS[handler] ?? 'PAYLOAD'].filter(Boolean).join(' ');
}
