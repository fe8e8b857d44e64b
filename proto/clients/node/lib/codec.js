// Values to bytes and back. A payload is the codec's bytes of {"task": name, "args": [...], "kwargs": {...}}, where kwargs may be missing;
// an output is the codec's bytes of what the task returned. JSON, the default, writes bytes as {"$bytes": "<base64>"}.

const isNoJson = (kind) => new TypeError(`a ${kind} is not JSON: give and return numbers, strings, bytes, arrays and objects, or use another codec`);

function withBytes(key, value) {
  const original = this[key]; // Buffer has a toJSON of its own
  // JSON would have null in its place: a job with another argument.
  if (Array.isArray(this) && (typeof value === 'function' || typeof value === 'symbol')) throw isNoJson(typeof value);
  return original instanceof Uint8Array ? { $bytes: Buffer.from(original).toString('base64') } : value;
}

function bytesBack(key, value) {
  return value !== null && typeof value === 'object' && typeof value.$bytes === 'string' && Object.keys(value).length === 1 ? Buffer.from(value.$bytes, 'base64') : value;
}

export const JSON_CODEC = {
  dumps: (value) => {
    const text = JSON.stringify(value === undefined ? null : value, withBytes);
    if (text === undefined) throw isNoJson(typeof value);
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
