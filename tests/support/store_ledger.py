"""What a test that kills the daemon knows of its batches: what was sent, what was acknowledged, and what must hence be there afterwards."""

import bisect
import collections
import dataclasses


class Wrong(Exception):
    """What the daemon did that it must not do."""


def wrong_unless(condition, batch, what):
    if not condition:
        raise Wrong(f"{batch}: {what}")


# What is sent.


@dataclasses.dataclass
class Piece:
    """Jobs that were sent in one command. Their payloads are made again when they are needed."""

    handler: str
    key: str
    count: int
    size: int

    def payload(self, i):
        if self.handler in ("echo", "fail"):
            head = f"{self.key}.{i}."
            return (head + "0123456789abcdef" * ((self.size - len(head)) // 16 + 1))[: max(self.size, len(head))]
        return str((i * 7919 + self.count) % self.size)

    def row(self, i):
        return {"echo": ("ok", self.payload(i)), "fail": ("error", self.payload(i))}.get(self.handler, ("ok", ""))

    def words(self):
        return ["JOBS", *self.payloads()]

    def payloads(self):
        return [self.payload(i) for i in range(self.count)]


@dataclasses.dataclass
class Range(Piece):
    low: int = 0

    def payload(self, i):
        return f"{self.key}:{self.low + i}" if self.handler in ("echo", "fail") else str(self.size)

    def words(self):
        return ["RANGE", self.low, self.low + self.count, f"{self.key}:{{}}" if self.handler in ("echo", "fail") else self.size]


@dataclasses.dataclass
class Reading:
    """What a client has read of a batch, and when. `rows` are those from `cursor` on, outputs by their hashes, and `next` the cursor that came
    with them; or else `status`."""

    at: float
    cursor: str = ""
    rows: list = None
    next: str = ""
    status: dict = None

    def is_end(self):
        return self.next == "0"


def hashed(rows):
    return [(index, status, hash(output)) for index, status, output in rows]


SENT, ACKNOWLEDGED = "sent", "acknowledged"


class Batch:
    """A batch in the ledger: what is known to be, and what may be. Changed by its client's thread while the daemon runs, by the main
    thread while it does not."""

    def __init__(self, name, id_, handler, options, piece=None):
        self.name, self.id, self.handler, self.options = name, id_, handler, options
        self.id_is_chosen = bool(id_)
        self.is_streamed = piece is None
        self.pieces = [piece] if piece else []
        self.pending = []  # ADDs without a reply
        self.accepted = SENT
        self.closed = None if self.is_streamed else ACKNOWLEDGED
        self.cancelled = None
        self.forgotten = None
        self.weights = {1}  # one of these
        self.rounds = 0  # of RETRY, acknowledged
        self.retries_sent = 0  # without a reply; one of them at most has an effect
        self.readings = []
        self.was_checked = False

    def __str__(self):
        return f"batch {self.name} (id {self.id}, {self.handler} {self.options}, pieces {[p.count for p in self.pieces]})"

    @property
    def jobs(self):
        return sum(piece.count for piece in self.pieces)

    @property
    def keep(self):
        return self.options.get("KEEP", "all")

    def may_be_cancelled(self):
        return self.cancelled or any(option in self.options for option in ("DEADLINE", "MAXFAILS", "AFTEROK"))

    def is_known(self):
        return self.accepted == ACKNOWLEDGED and self.id is not None and self.forgotten is None

    def note(self, reading):
        self.readings = self.readings[-5:] + [reading]


# What is there after a start.


def check_presence(batch, status, was_draining):
    """Checks that the batch is there if it must be. `status`: its row of LIST, or None. `was_draining`: the daemon was draining when it ended, and
    refused each ADD, but no CLOSE. Returns False if the batch is not there, and need not be. Settles what was uncertain."""
    if batch.forgotten == ACKNOWLEDGED:
        wrong_unless(status is None, batch, f"forgotten, and there again: {status}")
        return False
    if status is None:
        wrong_unless(batch.accepted == SENT or batch.forgotten == SENT, batch, "acknowledged, and not there")
        return False
    say = lambda what: f"{what}; STATUS: {status}"
    wrong_unless(batch.id in (None, status["id"]), batch, say("has another id"))
    batch.id, batch.accepted, batch.forgotten = status["id"], ACKNOWLEDGED, None
    wrong_unless(status["handler"] == batch.handler, batch, say("has another handler"))
    while batch.pending and batch.jobs < status["jobs"]:
        batch.pieces.append(batch.pending.pop(0))
    pending = [piece.count for piece in batch.pending]
    wrong_unless(batch.jobs == status["jobs"], batch, say(f"jobs {batch.jobs} acknowledged; and ADDs without a reply: {pending}"))
    is_open = status["state"] == "open"
    if batch.closed == ACKNOWLEDGED or batch.cancelled == ACKNOWLEDGED:
        wrong_unless(not is_open, batch, say("closed, and open again"))
    elif not batch.closed and not batch.may_be_cancelled():
        wrong_unless(is_open, batch, say("nobody has closed it"))
    if batch.closed == SENT and not is_open and not batch.may_be_cancelled():
        wrong_unless(was_draining or not batch.pending, batch, say("closed, without ADDs that were sent before CLOSE"))
    batch.pending = []
    batch.closed = None if is_open else ACKNOWLEDGED
    wrong_unless(status["weight"] in batch.weights, batch, say(f"weight is none of {batch.weights}"))
    batch.weights = {status["weight"]}
    wrong_unless(status["retry_rounds"] in {batch.rounds, batch.rounds + (batch.retries_sent > 0)}, batch, say(f"{batch.rounds} rounds of RETRY"))
    batch.rounds, batch.retries_sent = status["retry_rounds"], 0
    counted = sum(status[key] for key in ("queued", "running", "ok", "failed", "cancelled"))
    wrong_unless(counted == status["jobs"], batch, say("the counters are not the jobs"))
    wrong_unless(batch.may_be_cancelled() or not status["cancelled"], batch, say("nobody has cancelled it"))
    return True


def check_readings(batch, connection, status, settled_before):
    """Checks that what was read of the batch reads the same now. Readings younger than `settled_before` may be of data that was not on the disk
    yet."""
    batch.readings = [reading for reading in batch.readings if reading.at <= settled_before]
    for reading in batch.readings:
        if reading.status:
            wrong_unless(status == reading.status, batch, f"was over with {reading.status}; STATUS now: {status}")
            continue
        cursor, rows = connection("RESULTS", batch.id, "FROM", reading.cursor, "COUNT", len(reading.rows))
        if hashed(rows) != reading.rows:
            both = list(zip(reading.rows, hashed(rows)))
            differ = next((i for i, (then, now) in enumerate(both) if then != now), len(both))
            raise Wrong(
                f"{batch}: RESULTS FROM {reading.cursor} had {len(reading.rows)} rows, has {len(rows)}; the first that differs is the {differ}.: "
                f"{reading.rows[differ : differ + 3]}, now {rows[differ : differ + 3]}; read {settled_before - reading.at:.3f} s before it had to be "
                f"on the disk; STATUS: {status}"
            )
        wrong_unless(cursor == "0" or not reading.is_end(), batch, f"RESULTS FROM {reading.cursor} was the end, and is no more; STATUS: {status}")


def check_whole(batch, status, rows):
    """Checks a batch that is over: each index once, the right outputs, counters as results."""
    say = lambda what: f"{what}; STATUS: {status}"
    wrong_unless(status["state"] in ("done", "cancelled"), batch, say("is not over"))
    wrong_unless(status["queued"] == status["running"] == 0, batch, say("is over, and has jobs left"))
    times = (status["submitted_at"], status["started_at"] or status["submitted_at"], status["finished_at"])
    wrong_unless(times[0] > 0 and sorted(times) == list(times), batch, say("impossible times"))
    if batch.cancelled == ACKNOWLEDGED:
        wrong_unless(status["state"] == "cancelled", batch, say("was cancelled"))
    elif not batch.may_be_cancelled():
        wrong_unless(status["state"] == "done" and not status["cancelled"], batch, say("nobody has cancelled it"))
    expected_rows = {"all": status["jobs"], "failures": status["failed"] + status["cancelled"], "none": 0}[batch.keep]
    wrong_unless(len(rows) == expected_rows, batch, say(f"{len(rows)} rows, expected {expected_rows}"))
    starts, ends = [], 0
    for piece in batch.pieces:
        starts.append(ends)
        ends += piece.count
    seen = set()
    counts = collections.Counter()
    for index, how, output in rows:
        wrong_unless(0 <= index < ends and index not in seen, batch, say(f"index {index} is there twice, or is none of its jobs"))
        seen.add(index)
        counts[how] += 1
        if how != "cancelled":
            place = bisect.bisect_right(starts, index) - 1
            expected = batch.pieces[place].row(index - starts[place])
            if (how, output) != expected:
                raise Wrong(f"{batch}: job {index} ended {how} {output[:60]!r}, expected {expected[0]} {expected[1][:60]!r}; STATUS: {status}")
    if batch.keep == "all":
        counted = (counts["ok"], counts["error"], counts["cancelled"])
        wrong_unless(counted == (status["ok"], status["failed"], status["cancelled"]), batch, say(f"results: {counts}"))
