// The clients are installed below build/, not beside these scripts: LOCKSLEY_NODE_MODULES names the folder that has their
// node_modules.
import { createRequire } from 'node:module';
import path from 'node:path';

const folder = process.env.LOCKSLEY_NODE_MODULES;
if (!folder) throw new Error('LOCKSLEY_NODE_MODULES must name the folder where npm ci installed the clients');
export const load = createRequire(path.join(path.resolve(folder), 'package.json'));
// Empty, or who is served: see with_daemon.py.
const username = process.env.LOCKSLEY_TEST_USER;
export const login = username ? { username, password: process.env.LOCKSLEY_TEST_PASSWORD } : {};
export const [host, port] = [process.argv[2], Number(process.argv[3])];
