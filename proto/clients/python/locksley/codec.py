"""Values to bytes and back. A payload is the codec's bytes of {"task": name, "args": [...], "kwargs": {...}}, where kwargs may be missing;
an output is the codec's bytes of what the task returned.

JSON, the default, writes bytes as {"$bytes": "<base64>"}; tuples come back as lists."""

from __future__ import annotations

import base64
import json
from typing import Any, Protocol, cast

_BYTES = (bytes, bytearray, memoryview)


class Codec(Protocol):
    """Both functions are called from any thread."""

    def dumps(self, value: Any) -> bytes: ...
    def loads(self, data: bytes) -> Any: ...


def _no_json(value: Any) -> dict[str, str]:
    if isinstance(value, _BYTES):
        return {"$bytes": base64.b64encode(cast(bytes, value)).decode()}
    raise TypeError(f"{type(value).__name__} is not JSON: give and return numbers, strings, bytes, lists and dicts, or use another codec")


def _object(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["$bytes"]) if value.keys() == {"$bytes"} else value


class _Json:
    _encode = staticmethod(json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_no_json).encode)
    _plain, _with_bytes = json.JSONDecoder(), json.JSONDecoder(object_hook=_object)

    def dumps(self, value: Any) -> bytes:
        return self._encode(value).encode()

    def loads(self, data: bytes) -> Any:
        text = data.decode().strip(" \t\r\n")
        value, end = (self._with_bytes if b'"$bytes"' in data else self._plain).raw_decode(text)  # twice as fast as decode()
        if end < len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        return value


class _Raw:
    def dumps(self, value: Any) -> bytes:
        if isinstance(value, str):
            return value.encode()
        if value is None or isinstance(value, _BYTES):
            return bytes(cast(bytes, value or b""))
        raise TypeError(f"a raw task takes and returns bytes, str or None, not {type(value).__name__}")

    def loads(self, data: bytes) -> Any:
        return data


JSON: Codec = _Json()
RAW: Codec = _Raw()  # for handlers whose jobs other programs submit
