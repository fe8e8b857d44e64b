"""App.inline(): a daemon in this process, as far as a test needs one. Jobs run when they are submitted, one after the other."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List

from .batch import Status
from .errors import Refused
from .wire import Command
from .worker import EventLoop, Job, run_job

if TYPE_CHECKING:
    from .app import App

_FAILED = ("error", "timeout", "crashed")


class _Stored:
    def __init__(self, handler: str, options: Dict[Any, Any]) -> None:
        self.handler, self.name, self.retries = handler, options.get("NAME", ""), int(options.get("RETRIES", 0))
        self.is_open = True
        self.payloads: List[bytes] = []
        self.rows: List[List[Any]] = []
        self.retried = self.rounds = 0


class Inline:
    """In the place of an application's Transport until restore()."""

    breaks = 0

    def __init__(self, app: App) -> None:
        self._app, self._before = app, app.transport
        self._batches: Dict[str, _Stored] = {}
        self._lock, self._loop = threading.RLock(), EventLoop()
        app.transport = self

    def restore(self) -> None:
        self._app.transport = self._before

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    async def ask(self, commands: List[Command]) -> List[Any]:
        return [self._reply(*command) for command in commands]

    aask = ask

    def close(self) -> None:
        self._before.close()

    async def aclose(self) -> None:
        await self._before.aclose()

    def _reply(self, word: str, id: str, *words: Any) -> Any:
        with self._lock:
            if word in ("SUBMIT", "OPEN"):
                return self._open(word, id, *words)
            if id not in self._batches:
                return Refused("NOBATCH", f"there is no batch '{id}'")
            reply = getattr(self, f"_{word.lower()}")(id, self._batches[id], *words)
        if word == "RESULTS" and not reply[1] and reply[0] != "0":
            time.sleep(0.005)  # it is asked again at once
        return reply

    def _open(self, word: str, handler: str, _: str, id: str, *words: Any) -> Any:
        if id in self._batches:
            return Refused("EXISTS", f"a batch '{id}' exists")
        batch = self._batches[id] = _Stored(handler, dict(zip(words, words[1:])))
        if "JOBS" in words:
            self._addat(id, batch, 0, *words[words.index("JOBS") + 1 :])
        batch.is_open = word == "OPEN"
        return id

    def _addat(self, id: str, batch: _Stored, at: int, *payloads: bytes) -> Any:
        if at != len(batch.payloads) or not batch.is_open:
            return Refused("CLOSED", f"the batch has {len(batch.payloads)} jobs, or is closed")
        batch.payloads += payloads
        for index in range(at, len(batch.payloads)):
            self._run(id, batch, index)
        return len(batch.payloads)

    def _run(self, id: str, batch: _Stored, index: int) -> None:
        attempt, status, output = 0, "error", b""
        while status in _FAILED and attempt <= batch.retries:
            attempt += 1
            status, output = run_job(self._app, Job(id, index, batch.handler, attempt), batch.payloads[index], self._loop)
        batch.retried += attempt - 1
        batch.rows.append([index, status, output])

    def _close(self, _: str, batch: _Stored) -> int:
        batch.is_open = False
        return len(batch.payloads)

    def _results(self, _: str, batch: _Stored, __: str, cursor: str, ___: str, count: int, *options: Any) -> Any:
        at = max(0, int(cursor) - 1)
        rows = batch.rows[at : at + count]
        is_end = not batch.is_open and at + count >= len(batch.rows)
        return ["0" if is_end else str(at + len(rows) + 1), [row for row in rows if "FAILED" not in options or row[1] != "ok"]]

    def _status(self, id: str, batch: _Stored, *_: Any) -> Dict[str, Any]:
        ends = [row[1] for row in batch.rows]
        found: Dict[str, Any] = {**dict.fromkeys(Status._fields, 0), "id": id, "name": batch.name, "handler": batch.handler}
        found.update(tenant="default", state="open" if batch.is_open else "done", retried=batch.retried, retry_rounds=batch.rounds)
        failed = sum(end in _FAILED for end in ends)
        return {**found, "jobs": len(ends), "ok": ends.count("ok"), "failed": failed, "cancelled": ends.count("cancelled")}

    _wait = _status

    def _cancel(self, _: str, __: _Stored) -> int:
        return 0

    def _retry(self, id: str, batch: _Stored, _: str, __: int, *indexes: int) -> int:
        again = [row[0] for row in batch.rows if row[1] in _FAILED and (not indexes or row[0] in indexes)]
        batch.rows = [row for row in batch.rows if row[0] not in again]
        batch.rounds += bool(again)
        for index in again:
            self._run(id, batch, index)
        return len(again)

    def _explain(self, _: str, batch: _Stored) -> Dict[str, Any]:
        found = {"reason": "open-and-empty" if batch.is_open else "ended", "eta_ms": -1 if batch.is_open else 0}
        return {"state": "", "paused": 0, "ahead": 0, "share": 0, "received": 0, "jobs_per_second": 0, **found}

    def _job(self, _: str, batch: _Stored, index: int) -> Dict[str, Any]:
        found = {row[0]: {"index": index, "status": row[1], "output": row[2], "payload": batch.payloads[index]} for row in batch.rows}
        return found[index]

    def _forget(self, id: str, _: _Stored) -> int:
        del self._batches[id]
        return 1
