"""A client whose user has little room in the store: its finished batches are evicted while the daemon is killed again and again."""

from resp import CommandError
from store_client import Client
from store_ledger import ACKNOWLEDGED, Piece, check_presence, check_whole, wrong_unless

ROOM = 1 << 20  # users.NAME.max_stored_bytes
JOBS, SIZE = 20, 4000
COST = 2 * JOBS * SIZE + 4096  # payloads, results, and some more


class QuotaClient(Client):
    """Each new batch evicts finished batches of this user, the one that was accepted first before the others. So a batch that is not over must be
    there after every kill. So must one that is over, unless younger batches, and older ones that were not over, may have needed half of the room."""

    refusals = ("DRAINING", "QUEUEFULL")  # several that are not over fill the room

    def moves(self):
        self.busy.clear()
        open_ = [batch for batch in self.batches if batch.is_known() and not batch.closed]
        if open_ and self.random.random() < 0.3:
            return [self.close(open_[0])]
        if len(open_) < 3 and self.random.random() < 0.3:
            return self.stream()
        return self.submit()

    def stream(self):
        batch = self.new_batch("echo", {})
        return [(self.words_of("OPEN", batch), True, self.take_id(batch)), *self.add(batch)]

    def submit(self):
        batch = self.new_batch("echo", {}, lambda name: Piece("echo", name, JOBS, SIZE))
        return [((*self.words_of("SUBMIT", batch), *batch.pieces[0].words()), True, self.take_id(batch))]

    def some_piece(self, handler, key):
        return Piece(handler, key, JOBS // 4, SIZE)

    def check(self, connection, was_draining):
        """After a start, before it works again."""
        listed = {status["name"]: status for status in connection.listed()}
        kept, younger = [], 0
        for batch in reversed(self.batches):
            # Some of the older batches that are there may not have been over when this batch was evicted to make room for them.
            older = sum(one.name in listed for one in self.batches[: -1 - younger])
            status = listed.pop(batch.name, None)
            may_be_evicted = batch.closed and (younger + older) * COST > ROOM // 2 and batch.forgotten is None
            younger += 1
            if status is None and may_be_evicted:
                self.ledger.count["evicted"] += batch.accepted == ACKNOWLEDGED
            elif check_presence(batch, status, was_draining):
                rows = self.rows_of(connection, batch, may_be_evicted) if status["finished_at"] else []
                if rows is None:
                    continue
                kept.append(batch)
                if status["finished_at"]:
                    check_whole(batch, status, rows)
        wrong_unless(not listed, "LIST", f"batches that this client has not submitted, or that were evicted before: {listed}")
        self.batches = kept[::-1]

    def rows_of(self, connection, batch, may_be_evicted):
        """None if it has gone since it was listed, because results of unfinished batches grow."""
        try:
            return connection.results(batch.id)
        except CommandError as error:
            wrong_unless(may_be_evicted and "NOBATCH" in str(error), batch, str(error))
            self.ledger.count["evicted"] += 1
            return None
