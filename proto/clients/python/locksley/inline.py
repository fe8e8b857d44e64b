"""App.inline(): a daemon in this process, as far as a test needs one. Jobs run when they are submitted, one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .batch import Status
from .errors import Refused
from .wire import Command
from .worker import Job, run_job

if TYPE_CHECKING:
    from .app import App

_FAILED = ("error", "timeout", "crashed")


class _Stored:
    """A batch. Its methods are commands, and return their replies."""

    def __init__(self, app: App, id: str, handler: str, words: list[Any]) -> None:
        options = dict(zip(words, words[1:]))
        self._app, self._id, self._handler, self._name, self._retries = app, id, handler, options.get("NAME", ""), options.get("RETRIES", 0)
        self.is_open = True
        self._payloads: list[bytes] = []
        self._rows: list[list[Any]] = []
        self._retried = self._rounds = 0

    def addat(self, at: int, *payloads: bytes) -> Any:
        if at != len(self._payloads) or not self.is_open:
            return Refused("CLOSED", f"the batch has {len(self._payloads)} jobs, or is closed")
        self._payloads += payloads
        self._run(range(at, len(self._payloads)))
        return len(self._payloads)

    def _run(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            attempt, status, output = 0, "error", b""
            while status in _FAILED and attempt <= self._retries:
                attempt += 1
                status, output = run_job(self._app, Job(self._id, index, self._handler, attempt), self._payloads[index])
            self._retried += attempt - 1
            self._rows.append([index, status, output])

    def close(self) -> int:
        self.is_open = False
        return len(self._payloads)

    def results(self, _: str, cursor: str, __: str, count: int, *options: Any) -> Any:
        at = max(0, int(cursor) - 1)
        rows = self._rows[at : at + count]
        is_end = not self.is_open and at + count >= len(self._rows)
        if not rows and not is_end:
            time.sleep(0.005)  # it is asked again at once
        return ["0" if is_end else str(at + len(rows) + 1), [row for row in rows if "FAILED" not in options or row[1] != "ok"]]

    def status(self, *_: Any) -> dict[str, Any]:
        ends = [row[1] for row in self._rows]
        found: dict[str, Any] = {**dict.fromkeys(Status._fields, 0), "id": self._id, "name": self._name, "handler": self._handler}
        found.update(tenant="default", state="open" if self.is_open else "done", retried=self._retried, retry_rounds=self._rounds)
        failed = sum(end in _FAILED for end in ends)
        return {**found, "jobs": len(ends), "ok": ends.count("ok"), "failed": failed, "cancelled": ends.count("cancelled")}

    wait = status

    def cancel(self) -> int:
        return 0

    def retry(self, _: str, __: int, *indexes: int) -> int:
        again = [row[0] for row in self._rows if row[1] in _FAILED and (not indexes or row[0] in indexes)]
        self._rows = [row for row in self._rows if row[0] not in again]
        self._rounds += bool(again)
        self._run(again)
        return len(again)

    def explain(self) -> dict[str, Any]:
        found = {"reason": "open-and-empty" if self.is_open else "ended", "eta_ms": -1 if self.is_open else 0}
        return {"state": "", "paused": 0, "ahead": 0, "share": 0, "received": 0, "jobs_per_second": 0, **found}

    def log(self, _: int) -> list[Any]:
        return [0, b""]  # standard error is this process's

    def job(self, index: int) -> Any:
        found = [row for row in self._rows if row[0] == index]
        if not found:
            return Refused("ERR", f"the batch '{self._id}' has {len(self._payloads)} jobs")
        [(_, status, output)] = found
        return {"index": index, "status": status, "output": output, "payload": self._payloads[index]}


class Inline:
    """In the place of an application's Transport until restore()."""

    def __init__(self, app: App) -> None:
        self._app, self._before = app, app.transport
        self._batches: dict[str, _Stored] = {}
        self._lock = threading.RLock()
        app.transport = self

    def restore(self) -> None:
        self._app.transport = self._before

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    async def ask(self, commands: list[Command]) -> list[Any]:
        return [self._reply(*command) for command in commands]

    aask = ask

    def _reply(self, word: str, id: str, *words: Any) -> Any:
        with self._lock:
            if word in ("SUBMIT", "OPEN"):
                return self._begin(word, id, *words)
            if id not in self._batches:
                return Refused("NOBATCH", f"there is no batch '{id}'")
            if word == "FORGET":
                return len([self._batches.pop(id)])
            return getattr(self._batches[id], word.lower())(*words)

    def _begin(self, word: str, handler: str, _: str, id: str, *words: Any) -> Any:
        if id in self._batches:
            return Refused("EXISTS", f"a batch '{id}' exists")
        batch = self._batches[id] = _Stored(self._app, id, handler, list(words))
        if "JOBS" in words:
            batch.addat(0, *words[words.index("JOBS") + 1 :])
        batch.is_open = word == "OPEN"
        return id
