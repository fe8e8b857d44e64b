"""A client of a daemon that is killed again and again: sends commands at random, and keeps in its batches what was sent and acknowledged."""

import time
import traceback

from resp import Closed, Error, encode, pairs
from store_ledger import ACKNOWLEDGED, SENT, Batch, Piece, Range, Reading, Wrong, hashed, wrong_unless

MOST_BATCHES = 40  # a client's; then it forgets before it submits


class Client:
    """A client that uses one connection at a time and has batches of its own; it outlives the daemons."""

    refusals = ("DRAINING",)  # errors with which a command may be refused at any time

    def __init__(self, number, random_, ledger):
        self.number, self.random, self.ledger = number, random_, ledger
        self.batches = []
        self.names = 0
        self.free_ids = []  # of batches that were forgotten
        self.busy = set()
        self.in_flight_since = None
        self.longest_exchange = 0
        self.written_at = 0  # what was done before this is on the disk
        self.trouble = None

    def work(self, connect, stop):
        self.longest_exchange = self.written_at = 0
        self.in_flight_since = None
        try:
            with connect() as connection:
                while not stop.is_set():
                    self.exchange(connection, self.moves())
        except (Closed, ConnectionError):
            pass
        except Exception as error:
            self.trouble = error if isinstance(error, Wrong) else Wrong(traceback.format_exc())

    def exchange(self, connection, calls):
        self.in_flight_since = began = time.monotonic()
        commands = b"".join(encode(*words) for words, _, _ in calls)
        if self.random.random() < 0.25:
            connection.send(encode("MULTI") + commands + encode("EXEC"))
            replies = self.replies_of_exec(connection, len(calls))
        else:
            connection.send(commands)
            replies = (connection.read() for _ in calls)
        for (_, is_new, take), reply in zip(calls, replies):
            if is_new and not isinstance(reply, Error):
                self.written_at = began  # its reply waits for all that had been done before
            take(reply)
        self.in_flight_since = None
        self.longest_exchange = max(self.longest_exchange, time.monotonic() - began)

    def replies_of_exec(self, connection, count):
        queued = [connection.read() for _ in range(count + 1)]
        wrong_unless(queued == ["OK"] + ["QUEUED"] * count, "MULTI", f"the replies were {queued!r}")
        replies = connection.read()
        wrong_unless(isinstance(replies, list) and len(replies) == count, "EXEC", f"the reply was {replies!r}")
        self.ledger.count["transactions"] += 1
        return replies

    def moves(self):
        """The next commands, which are sent together: for each its words, whether it writes something in any case, and the function for its reply.
        Commands that read much come last, so that their replies cannot keep the others from being sent."""
        self.busy.clear()
        calls = []
        for _ in range(self.random.choice((1, 1, 1, 2, 4, 8))):
            alive = sum(batch.is_known() for batch in self.batches)
            kinds = {self.submit: 40 if alive < MOST_BATCHES else 0, self.stream: 10 if alive < MOST_BATCHES else 0, self.go_on: 15, self.weigh: 6,
                     self.cancel: 4, self.retry: 8, self.forget: 12 if alive < MOST_BATCHES else 60, self.repeat: 5, self.read: 30}
            move = self.random.choices(list(kinds), list(kinds.values()))[0]
            calls += move()
            if move == self.read and calls:
                break
        return calls or [(("PING",), False, lambda reply: None)]

    def pick(self, accept=lambda batch: True):
        """A batch that no other command of this pipeline names."""
        fit = [batch for batch in self.batches if batch.is_known() and batch not in self.busy and accept(batch)]
        if not fit:
            return None
        batch = self.random.choice(fit)
        self.busy.add(batch)
        return batch

    def new_batch(self, handler, options, piece_of=None):
        self.names += 1
        name = f"c{self.number}-{self.names}"
        id_ = None
        if piece_of is None or self.random.random() < 0.6:
            id_ = self.free_ids.pop() if self.free_ids and self.random.random() < 0.5 else f"id-{name}"
        batch = Batch(name, id_, handler, options, piece_of(name) if piece_of else None)
        self.batches.append(batch)
        self.busy.add(batch)
        return batch

    def words_of(self, command, batch):
        words = [command, batch.handler, "NAME", batch.name]
        if batch.id_is_chosen:
            words += ["ID", batch.id]
        for option in batch.options.items():
            words += option
        return words

    def take_id(self, batch):
        def take(reply):
            if self.is_refused(reply):
                batch.forgotten = ACKNOWLEDGED  # it must never be seen
                return
            wrong_unless(not isinstance(reply, Error) and batch.id in (None, reply), batch, f"the reply was {reply!r}")
            batch.id, batch.accepted = reply, ACKNOWLEDGED

        return take

    def is_refused(self, reply):
        return isinstance(reply, Error) and reply.startswith(self.refusals)

    def some_piece(self, handler, key):
        r = self.random.random()
        count = self.random.randint(1, 5) if r < 0.6 else self.random.randint(6, 100) if r < 0.93 else self.random.randint(500, 3000)
        if handler == "sleep":
            return Piece(handler, key, min(count, 20), self.random.choice((2, 5, 100)))
        if handler == "spin":
            return Piece(handler, key, min(count, 200), self.random.choice((20, 1000)))
        size = self.random.choice((1, 20, 50, 200, 1000, 4000, 100 << 10))
        # 6 MiB at most, and seldom: a group that is larger than 4 MiB is written in parts.
        most = (6 << 20) if self.random.random() < 0.05 else 400_000
        return Piece(handler, key, max(1, min(count, most // size)), size)

    def some_handler(self):
        return self.random.choices(("echo", "spin", "sleep", "fail"), (10, 3, 3, 2))[0]

    def submit(self):
        handler = self.some_handler()
        options = {}
        if self.random.random() < 0.15:
            options["KEEP"] = self.random.choice(("failures", "none"))
        if self.random.random() < 0.05:
            options["DEADLINE"] = self.random.randint(1, 1000)
        if self.random.random() < 0.1:
            options["SLOTS"] = self.random.randint(1, 3)
        if handler == "fail" and self.random.random() < 0.5:
            options["MAXFAILS"] = self.random.randint(1, 50)
        if self.random.random() < 0.3:
            options["RETRIES"] = self.random.randint(1, 2)
        if self.random.random() < 0.1:
            options["DELAY"] = self.random.randint(1, 300)
        if self.random.random() < 0.15:
            other = self.pick()
            if other is not None:
                options[self.random.choice(("AFTER", "AFTEROK"))] = other.id

        def piece(name):
            if self.random.random() < 0.2 and handler != "sleep":
                return Range(handler, name, self.random.choice((1, 50, 3000)), self.random.randint(0, 50), low=self.random.randint(-5, 1000))
            return self.some_piece(handler, name)

        batch = self.new_batch(handler, options, piece)
        return [((*self.words_of("SUBMIT", batch), *batch.pieces[0].words()), True, self.take_id(batch))]

    def add(self, batch):
        """ADD or ADDAT of a piece; an ADDAT sometimes twice, as after a lost reply."""
        piece = self.some_piece(batch.handler, f"{batch.name}.{len(batch.pieces) + len(batch.pending)}")
        at = batch.jobs + sum(one.count for one in batch.pending)
        batch.pending.append(piece)
        is_addat = self.random.random() < 0.5

        def is_refused(reply):
            """Whether the reply is a refusal; an ADDAT after a refused one is refused, too."""
            out_of_turn = is_addat and at != batch.jobs and reply == f"OFFSET the batch has {batch.jobs} jobs"
            return self.is_refused(reply) or (isinstance(reply, Error) and (batch.forgotten or out_of_turn))

        def take(reply):
            if is_refused(reply):
                batch.pending.remove(piece)
                return
            wrong_unless(batch.pending[0] is piece and reply == batch.jobs + piece.count, batch, f"the reply to ADD of {piece.count} was {reply!r}")
            batch.pieces.append(batch.pending.pop(0))

        def take_again(reply):
            self.ledger.count["ADDATs sent twice"] += 1
            is_there = piece in batch.pieces and reply == batch.jobs
            wrong_unless(is_there or is_refused(reply), batch, f"the reply to a second ADDAT {at} of {piece.count} was {reply!r}")

        words = ("ADDAT", batch.id, at) if is_addat else ("ADD", batch.id)
        calls = [((*words, *piece.payloads()), True, take)]
        if is_addat and self.random.random() < 0.3:
            calls.append((calls[0][0], False, take_again))
        return calls

    def close(self, batch):
        batch.closed = SENT

        def take(reply):
            if isinstance(reply, Error) and batch.forgotten:
                return
            wrong_unless(reply == batch.jobs, batch, f"the reply to CLOSE was {reply!r}")
            batch.closed = ACKNOWLEDGED

        return ("CLOSE", batch.id), False, take

    def stream(self):
        batch = self.new_batch(self.some_handler(), {})
        calls = [(self.words_of("OPEN", batch), True, self.take_id(batch))]
        for _ in range(self.random.randint(0, 5)):
            calls += self.add(batch)
        if self.random.random() < 0.5:
            calls.append(self.close(batch))
        return calls

    def go_on(self):
        batch = self.pick(lambda batch: not batch.closed and not batch.cancelled)
        if batch is None:
            return []
        calls = []
        for _ in range(self.random.randint(0, 4)):
            calls += self.add(batch)
        if self.random.random() < 0.3:
            calls.append(self.close(batch))
        return calls

    def weigh(self):
        batch = self.pick()
        if batch is None:
            return []
        weight = self.random.randint(1, 1000)
        batch.weights.add(weight)  # or not, if it is over

        def take_status(reply):
            wrong_unless(pairs(reply)["weight"] in batch.weights, batch, f"STATUS after WEIGHT {weight}: {reply}")
            batch.weights = {pairs(reply)["weight"]}

        return [(("WEIGHT", batch.id, weight), False, self.expect(batch, "OK")), (("STATUS", batch.id), False, take_status)]

    def expect(self, batch, *replies):
        return lambda reply: wrong_unless(reply in replies, batch, f"the reply was {reply!r}")

    def cancel(self):
        batch = self.pick()
        if batch is None:
            return []
        batch.cancelled = batch.cancelled or SENT
        batch.closed = batch.closed or SENT

        def take(reply):
            wrong_unless(not isinstance(reply, Error), batch, f"the reply to CANCEL was {reply!r}")
            batch.closed = ACKNOWLEDGED
            if reply:
                batch.cancelled = ACKNOWLEDGED

        return [(("CANCEL", batch.id), False, take)]

    def retry(self):
        """RETRY of a batch whose jobs fail, whether it is over or not; with its round it is sometimes sent twice, as after a lost reply."""
        batch = self.pick(lambda batch: batch.handler == "fail")
        if batch is None:
            return []
        words = ("RETRY", batch.id, "ROUND", batch.rounds) if self.random.random() < 0.7 else ("RETRY", batch.id)
        batch.was_checked = False
        batch.readings.clear()  # rows of failures go, and new ones come

        calls = 2 if "ROUND" in words and self.random.random() < 0.3 else 1
        batch.retries_sent = calls

        def take(reply):
            batch.retries_sent -= 1
            if self.is_refused(reply):
                return
            acts = "ROUND" not in words or batch.rounds == words[3]
            wrong_unless(isinstance(reply, int) and (acts or reply == 0), batch, f"the reply to {words} was {reply!r}")
            if reply > 0:
                batch.rounds += 1
                batch.retries_sent = 0  # the same round acts once
                self.ledger.count["rounds of RETRY"] += 1

        return [(words, False, take)] * calls

    def forget(self):
        """FORGET of a closed batch; the reply is 0 if the batch is not over."""
        batch = self.pick(lambda batch: batch.closed)
        if batch is None:
            return []
        batch.forgotten = SENT

        def take(reply):
            wrong_unless(reply in (0, 1), batch, f"the reply to FORGET was {reply!r}")
            batch.forgotten = ACKNOWLEDGED if reply else None
            if reply and batch.id_is_chosen:
                self.free_ids.append(batch.id)

        return [(("FORGET", batch.id), False, take)]

    def repeat(self):
        """SUBMIT with the id of a batch that is there: as it was, and with another job."""
        batch = self.pick(lambda batch: batch.id_is_chosen and not batch.is_streamed)
        if batch is None:
            return []
        again = (*self.words_of("SUBMIT", batch), *batch.pieces[0].words())
        other = (*self.words_of("SUBMIT", batch), "JOBS", *["0"] * (batch.jobs + 1))
        take = lambda reply: wrong_unless(isinstance(reply, Error) and reply.startswith("EXISTS"), batch, f"other jobs, same id: {reply!r}")
        return [(again, False, self.expect(batch, batch.id)), (other, False, take)]

    def read(self):
        batch = self.pick()
        if batch is None:
            return []
        cursors = ["0"] + [reading.next for reading in batch.readings if reading.rows and not reading.is_end()]
        cursor = self.random.choice(cursors)

        def take(reply):
            wrong_unless(not isinstance(reply, Error), batch, f"RESULTS FROM {cursor}: {reply!r}")
            if reply[1]:
                batch.note(Reading(time.monotonic(), cursor, hashed(reply[1]), reply[0]))

        def take_status(reply):
            wrong_unless(not isinstance(reply, Error), batch, f"STATUS: {reply!r}")
            status = pairs(reply)
            if status["finished_at"]:
                batch.note(Reading(time.monotonic(), status=status))

        count = self.random.choice((1, 50, 400))
        return [(("STATUS", batch.id), False, take_status), (("RESULTS", batch.id, "FROM", cursor, "COUNT", count), False, take)]
