"""App.inline(): a daemon in this process, as far as a test needs one. Jobs run when they are submitted, those of a batch one after the other.

A thread that reads may see a batch while another one runs its jobs; no lock is held meanwhile, since a job may submit others, and ask for them
from another thread."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .batch import Explanation, Status
from .errors import Refused
from .wire import Command, now
from .worker import Job, loops, run_job

if TYPE_CHECKING:
    from .app import App

_FAILED = ("error", "timeout", "crashed")


class _Stored:
    """A batch. Its methods are commands, and return their replies."""

    def __init__(self, app: App, id: str, handler: str, words: Sequence[Any]) -> None:
        options = dict(zip(words, words[1:]))
        self._app, self._id, self._handler, self._retries = app, id, handler, options.get("RETRIES", 0)
        self._words = {"name": options.get("NAME", ""), "tenant": "default", "customer": options.get("FOR", ""), "slots": options.get("SLOTS", 0)}
        self.is_open = True
        self._payloads: list[bytes] = []
        self._rows: list[tuple[int, str, bytes]] = []
        self._retried = self._rounds = 0

    def addat(self, at: int, *payloads: bytes) -> int:
        if at != len(self._payloads) or not self.is_open:
            raise Refused("CLOSED", f"the batch has {len(self._payloads)} jobs, or is closed")
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
            self._rows.append((index, status, output))

    def close(self) -> int:
        self.is_open = False
        return len(self._payloads)

    def results(self, _: str, cursor: str, __: str, count: int, *options: Any) -> Any:
        is_closed, at = not self.is_open, max(0, int(cursor) - 1)  # before it looks for rows
        rows = self._rows[at : at + count]
        is_end = is_closed and at + count >= len(self._rows)
        if not rows and not is_end:
            time.sleep(0.005)  # the caller asks again at once
        return ["0" if is_end else str(at + len(rows) + 1), [row for row in rows if "FAILED" not in options or row[1] != "ok"]]

    def status(self, *_: Any) -> dict[str, Any]:
        if self.is_open:
            time.sleep(0.005)
        ends = [status for _, status, _ in self._rows]
        words = {"id": self._id, "handler": self._handler, "state": "open" if self.is_open else "done", **self._words}
        counts = {"jobs": len(ends), "ok": ends.count("ok"), "failed": sum(map(ends.count, _FAILED)), "cancelled": ends.count("cancelled")}
        return {**dict.fromkeys(Status._fields, 0), **words, **counts, "retried": self._retried, "retry_rounds": self._rounds}

    wait = status

    def cancel(self) -> int:
        return 0

    def retry(self, _: str, __: int, *indexes: int) -> int:
        again = [index for index, status, _ in self._rows if status in _FAILED and (not indexes or index in indexes)]
        self._rows = [row for row in self._rows if row[0] not in again]
        self._rounds += bool(again)
        self._run(again)
        return len(again)

    def explain(self) -> dict[str, Any]:
        found = {"reason": "open-and-empty", "eta_ms": -1} if self.is_open else {"reason": "ended"}
        return {**dict.fromkeys(Explanation._fields, 0), "state": "", **found}

    def log(self, _: int) -> list[Any]:
        return [0, b""]  # standard error is this process's

    def job(self, index: int) -> dict[str, Any]:
        for at, status, output in self._rows:
            if at == index:
                return {"index": index, "status": status, "output": output, "payload": self._payloads[index]}
        raise Refused("ERR", f"the batch '{self._id}' has {len(self._payloads)} jobs")


class Inline(contextlib.AbstractContextManager["Inline"]):
    """Takes the place of an application's Transport until restore()."""

    def __init__(self, app: App) -> None:
        self._app, self._before = app, app.transport
        self._batches: dict[str, _Stored] = {}
        app.transport = self

    def restore(self) -> None:
        self._app.transport = self._before

    def __exit__(self, *_: object) -> None:
        self.restore()

    async def ask(self, commands: list[Command], *, patience: float | None = None) -> list[Any]:
        return [self._reply(*command) for command in commands]

    async def aask(self, commands: list[Command], *, patience: float | None = None) -> list[Any]:
        """Runs in another thread if a coroutine that is a job calls it, because a job that the coroutine submits may need its event loop."""
        loop = asyncio.get_running_loop()
        return await (loop.run_in_executor(None, now, self.ask(commands)) if loop in loops.values() else self.ask(commands))

    def _reply(self, word: str, id: str, *words: Any) -> Any:
        if word in ("SUBMIT", "OPEN"):
            return self._begin(word, id, *words)
        if id not in self._batches:
            raise Refused("NOBATCH", f"there is no batch '{id}'")
        if word == "FORGET":
            return len([self._batches.pop(id)])
        return getattr(self._batches[id], word.lower())(*words)

    def _begin(self, word: str, handler: str, _: str, id: str, *words: Any) -> Any:
        if id in self._batches:
            raise Refused("EXISTS", f"a batch '{id}' exists")
        batch = self._batches[id] = _Stored(self._app, id, handler, words)
        if "JOBS" in words:
            batch.addat(0, *words[words.index("JOBS") + 1 :])
        batch.is_open = word == "OPEN"
        return id
