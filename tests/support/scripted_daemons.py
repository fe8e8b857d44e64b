"""Daemons of a test that reply to a remote worker of one slot as the test says; and tests of what the worker of each package must do then."""

from scripted_upstream import array, bulk, number
from standby_server import LOADING, StandbyServer
from time_limits import with_growing_limits

NIL, SILENCE = b"$-1\r\n", b""
JOINED = array(bulk("addresses"), array(), bulk("beat_ms"), number(100))


def lease_of(*payloads):
    """The reply to a CLAIM; these are the first jobs of batch 7, and it is their first attempt."""
    about = [bulk("lease"), number(7), bulk("far"), number(0), number(len(payloads)), number(1), number(0), NIL]
    return array(*about, array(*map(bulk, payloads)), bulk("b7"), bulk("alice"), NIL, NIL, NIL)


def reclaimed(name, count, *rest):
    return array(bulk(name), array(array(number(0), number(count))), *rest)


class ScriptedDaemons:
    """For a TestCase with one worker. The worker has a task `attempt`, which runs until let_go() and returns the attempt that it was told; PAYLOAD
    calls it. The subclass has let_go(), stop_worker(), and run_worker(addresses, reply_s), which returns when the worker has ended: after `reply_s`,
    a daemon that says nothing counts as one that hangs."""

    def setUp(self):
        self.settled = []  # the outputs

    def says(self, jobs, **replies):
        """The replies to the worker: what these functions of a command return, and otherwise the replies of a daemon that has a lease of `jobs` jobs.
        After the last result the worker is told to stop."""
        leases = [lease_of(*[self.PAYLOAD] * jobs)]

        def settle(words):
            self.settled += words[4:]
            if len(self.settled) >= jobs:
                self.stop_worker()
            return array(number(len(words) - 4), number(jobs - len(self.settled)))

        does = {"JOIN": lambda _: JOINED, "CLAIM": lambda _: leases.pop() if leases else NIL, "BEAT": lambda _: array(), "SETTLE": settle, **replies}
        return lambda words: does.get(words[0].upper(), lambda _: b"+OK\r\n")(words)

    def servers_of(self, *all_say):
        servers = [StandbyServer(says) for says in all_say]
        for server in servers:
            self.addCleanup(server.close)
        return servers

    def work_for(self, *all_say, **limits):
        """Runs the worker until it stops, with a server for each argument. Returns the servers."""
        servers = self.servers_of(*all_say)
        self.run_worker([server.address for server in servers], **limits)
        return servers

    def named(self, server, name):
        return [words[1:] for words in server.heard if words[0].upper() == name]

    def test_a_daemon_that_hangs_is_left_while_jobs_run(self):
        """The kernel of its machine still acknowledges what the worker sends."""

        def attempt(ms, _):
            """False if another server took so long as well, or the worker did not come to its second BEAT: for that the machine was too slow."""
            self.doCleanups()
            self.setUp()
            joins = iter([JOINED])  # not a second time

            def reclaim(_):
                self.let_go()
                return reclaimed("again", 1)

            claims = iter([NIL] * 200)  # the worker would go on without end if it had no lease

            def idle(_):
                if next(claims, None) is None:
                    self.stop_worker()
                return NIL

            hangs = self.says(1, JOIN=lambda _: next(joins, LOADING), BEAT=lambda _: SILENCE)
            hung, other = self.work_for(hangs, self.says(1, CLAIM=idle, RECLAIM=reclaim), reply_s=ms / 1000)
            if len(self.named(hung, "BEAT")) < 2 or len(self.named(other, "JOIN")) != 1:
                return False
            self.assertEqual(self.named(other, "RECLAIM"), [["7", "1", "0", "1", "SLOT", "0", "LEASE", "lease"]])
            self.assertEqual(self.named(other, "SETTLE"), [["again", "ok", "0", "1"]])
            return True

        with_growing_limits(attempt)

    def test_each_reclaim_names_the_lease_and_the_attempt_that_the_last_one_was_told(self):
        """And the jobs keep theirs, also those that start later."""
        replies = [reclaimed("third", 2, number(6), bulk("more")), reclaimed("second", 2), reclaimed("first", 2, number(4))]

        def beat(_):
            if replies:
                raise OSError("the server closes the connection")
            self.let_go()
            return array()

        [server] = self.work_for(self.says(2, BEAT=beat, RECLAIM=lambda _: replies.pop()))
        told = [[*words[:2], *words[6:]] for words in self.named(server, "RECLAIM")]
        self.assertEqual(told, [["7", "1", "LEASE", "lease"], ["7", "4", "LEASE", "first"], ["7", "4", "LEASE", "second"]])
        self.assertEqual({words[0] for words in self.named(server, "SETTLE")}, {"third"})
        self.assertEqual(self.settled, ["1", "1"])

    def test_results_for_which_a_daemon_has_no_memory_are_sent_again_on_the_next_connection(self):
        does, refusals, closes = self.says(1, RECLAIM=lambda _: reclaimed("again", 1)), [b"-QUEUEFULL no memory\r\n"], []

        def says(words):
            if words[0].upper() == "SETTLE" and refusals:
                closes.append("the server closes the connection")
                return refusals.pop()
            if closes:
                raise OSError(closes.pop())
            return does(words)

        self.let_go()
        [server] = self.work_for(says)
        self.assertEqual(self.named(server, "SETTLE"), [["lease", "ok", "0", "1"], ["again", "ok", "0", "1"]])

    def test_a_daemon_that_does_not_know_the_names_of_leases_is_asked_without_them(self):
        breaks = [True]

        def beat(_):
            if breaks:
                raise OSError(f"the server closes the connection: {breaks.pop()}")
            self.let_go()
            return array()

        def reclaim(words):
            return b"-ERR syntax error at 'LEASE'\r\n" if "LEASE" in words else reclaimed("again", 1)

        [server] = self.work_for(self.says(1, BEAT=beat, RECLAIM=reclaim))
        self.assertEqual([words[6:] for words in self.named(server, "RECLAIM")], [["LEASE", "lease"], []])
        self.assertEqual(self.named(server, "SETTLE"), [["again", "ok", "0", "1"]])
