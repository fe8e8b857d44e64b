// Values to bytes and back. A payload is the codec's bytes of {"task": name, "args": [...], "kwargs": {...}}, where kwargs may be missing;
// an output is the codec's bytes of what the task returned. JSON, the default, writes bytes as {"$bytes": "<base64>"}.

const isNoJson = (what) => new TypeError(`${what} is not JSON: give and return finite numbers, strings, bytes, arrays and objects, or use another codec`);
const kindOf = (value) => (value === undefined ? 'undefined' : `a ${typeof value}`);

function withBytes(key, value) {
  const original = this[key]; // Buffer has a toJSON of its own
  // JSON would write null in their place, and the job would get another argument. A member of an object that is undefined is left out, which reads as
  // undefined.
  if (typeof value === 'number' && !Number.isFinite(value)) throw isNoJson(String(value));
  if (typeof value === 'bigint') throw isNoJson('a bigint');
  if (Array.isArray(this) && (value === undefined || typeof value === 'function' || typeof value === 'symbol')) throw isNoJson(kindOf(value));
  return original instanceof Uint8Array ? { $bytes: Buffer.from(original).toString('base64') } : value;
}

function bytesBack(key, value) {
  return value !== null && typeof value === 'object' && typeof value.$bytes === 'string' && Object.keys(value).length === 1 ? Buffer.from(value.$bytes, 'base64') : value;
}

export const JSON_CODEC = {
  dumps: (value) => {
    const text = JSON.stringify(value === undefined ? null : value, withBytes);
    if (text === undefined) throw isNoJson(kindOf(value));
    return Buffer.from(text);
  },
  loads: (bytes) => {
    const text = bytes.toString();
    return text.includes('"$bytes"') ? JSON.parse(text, bytesBack) : JSON.parse(text);
  },
};

// For handlers whose jobs other programs submit: bytes as they are.
export const RAW_CODEC = {
  dumps: (value) => {
    if (value === undefined || value === null) return Buffer.alloc(0);
    if (typeof value === 'string' || value instanceof Uint8Array) return Buffer.from(value);
    throw new TypeError(`a raw task takes and returns a Buffer, a string or nothing, not ${typeof value}`);
  },
  loads: (bytes) => bytes,
};
