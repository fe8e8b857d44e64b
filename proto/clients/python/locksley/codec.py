"""Values to bytes and back. A payload is the codec's bytes of {"task": name, "args": [...], "kwargs": {...}}, where kwargs may be missing;
an output is the codec's bytes of what the task returned.

JSON, the default, writes bytes as {"$bytes": "<base64>"}; tuples come back as lists."""

from __future__ import annotations

import base64
import json
import json.encoder
from collections.abc import Callable, Iterable
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


def _encoder() -> Callable[[Any, int], Iterable[str]]:
    """JSONEncoder.encode() makes a new encoder in C for each value, which takes longer than to encode a small value; this encoder is made once."""
    module: Any = json.encoder
    make: Callable[..., Callable[[Any, int], Iterable[str]]] | None = module.c_make_encoder
    if make:
        return make(None, _no_json, module.encode_basestring, None, ":", ",", False, False, False)
    encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), default=_no_json)
    return lambda value, _: encoder.iterencode(value)


class _Json:
    _encode = staticmethod(_encoder())
    _plain, _with_bytes = json.JSONDecoder(), json.JSONDecoder(object_hook=_object)

    def dumps(self, value: Any) -> bytes:
        return "".join(self._encode(value, 0)).encode()

    def loads(self, data: bytes) -> Any:
        text = data.decode().strip(" \t\r\n")
        value, end = (self._with_bytes if '"$bytes"' in text else self._plain).raw_decode(text)  # twice as fast as decode()
        if end < len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        return value


class _Raw:
    def dumps(self, value: Any) -> bytes:
        if type(value) is bytes:
            return value
        if isinstance(value, str):
            return value.encode()
        if value is None or isinstance(value, _BYTES):
            return bytes(cast(bytes, value or b""))
        raise TypeError(f"a raw task takes and returns bytes, str or None, not {type(value).__name__}")

    def loads(self, data: bytes) -> Any:
        return data


JSON: Codec = _Json()
RAW: Codec = _Raw()  # for handlers whose jobs other programs submit
