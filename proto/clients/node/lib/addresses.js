// The daemons of which one serves: several URLs, or one with several addresses, redis://user:password@a:7770,b:7770; a:7770 is redis://a:7770.
const PARTS = /^(\w+:\/\/(?:[^@/]*@)?)([^/?#]*)(.*)$/; // with the log-in, the addresses, and the rest

// A hint for messages of errors.
export const PORTS =
  'clients connect to the port `listen.port`, 7770 unless it is configured otherwise, and workers to `workers.port`, 7771';

export class Addresses {
  url; // of the daemon that is believed to serve
  #urls;
  #at = 0;
  #port; // where an address has none

  constructor(urls, port) {
    this.#port = port;
    const given = [urls].flat().map((url) => (url.includes('://') ? url : `redis://${url}`));
    this.#urls = given.flatMap((url) => hostOf(url).split(',').map((host) => checked(this.#atHost(url, host))));
    [this.url] = this.#urls;
  }

  // Adds other daemons of the same cluster.
  add(hosts) {
    for (const host of hosts) {
      const url = this.#atHost(this.url, host);
      if (!this.has(url)) this.#urls.push(url);
    }
  }

  // Whether the URL is in the list, and not only named by a standby.
  has(url) {
    return this.#urls.includes(url);
  }

  // The daemon at `url` does not serve: chooses the one that `trouble` names, or else the next one of the list.
  turn(url, trouble) {
    const named = /the active daemon is (\S+:\d+)$/.exec(trouble)?.[1];
    const other = named && this.#atHost(url, named);
    if (other && other !== url) {
      this.url = other;
    } else if (this.url === url) { // else another command has chosen already
      this.#at = (this.#at + 1) % this.#urls.length;
      this.url = this.#urls[this.#at];
    }
  }

  #atHost(url, host) {
    const [, head, , rest] = PARTS.exec(url);
    return head + host + (/:\d+$/.test(host) ? '' : `:${this.#port}`) + rest;
  }
}

function checked(url) {
  try {
    if (/^rediss?:/.test(url) && new URL(url).hostname) return url;
  } catch {
    // The URL is invalid, for example because of a port of 99999.
  }
  const found = `${url.split(':')[0]}://${hostOf(url)}`; // without the password
  const hint = /^https?:/.test(url) ? `; the dashboard has a port of its own: ${PORTS}` : '';
  throw new TypeError(`an address is such as redis://queue:7770, or rediss://user:password@queue:7770 for TLS; found '${found}'${hint}`);
}

// The addresses of a URL, without user and password.
export function hostOf(url) {
  return PARTS.exec(url)?.[2] ?? url;
}
