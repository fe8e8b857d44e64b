#!/usr/bin/python3
"""Two daemons on a PostgreSQL primary with a synchronous standby: under load the primary is killed or paused and the standby promoted, commits are
cancelled or terminated as they wait for the standby, the standby is lost, the active daemon is killed or paused in a commit. A ledger beside the
daemons says that nothing acknowledged is lost, and that nothing is acknowledged that is not on both servers. Prints its seed and how many outcomes were
unknown; --rounds N, and names of faults to have only these."""

import argparse
import collections
import contextlib
import pathlib
import random
import signal
import statistics
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster_ledger import LedgerCluster, wrong_unless
from locksley_daemon import wait_for
from postgres_pair import PostgresPair, signal_each
from resp import encode

UNKNOWN = "the outcome of a commit is unknown"
OUTCOMES = {
    "written": "the commit whose outcome was unknown is in the database",
    "not written": "the commit whose outcome was unknown is not in the database",
}


class Promotion:
    """One method for each fault. Each leaves a primary with a standby and two daemons."""

    FAULTS = (
        "kill_primary",
        "kill_primary_before_it_sends",
        "kill_primary_after_it_sent",
        "pause_primary",
        "cancel_wait",
        "terminate_wait",
        "cancel_wait_and_kill_primary",
        "lose_standby",
        "kill_daemon",
        "kill_daemon_in_commit",
        "pause_daemon",
        "pause_daemon_in_commit",
    )

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pair = PostgresPair()
        try:
            self.cluster = LedgerCluster({**self.pair.settings(), "shutdown": {"drain_timeout": "20s"}})
        except BaseException:
            self.pair.close()
            raise
        self.took = collections.defaultdict(list)
        self.unknown = collections.Counter()

    def round(self, fault):
        self.cluster.await_batches(3)
        time.sleep(self.random.random() * 0.3)
        before = self.outcomes()
        self.began = time.monotonic()
        getattr(self, fault)()
        self.cluster.await_batches(2)  # the first of them may have been under way
        self.took[fault].append(time.monotonic() - self.began)
        for name, count in (self.outcomes() - before).items():
            self.unknown[fault, name] += count
        self.cluster.check_new()

    def outcomes(self):
        known = collections.Counter({name: self.cluster.counted(words) for name, words in OUTCOMES.items()})
        known["failed"] = self.cluster.counted(UNKNOWN) - known.total()  # the database was away for too long
        return known

    # The servers.

    def replace_primary(self):
        self.pair.promote()
        self.pair.add_standby()

    def kill_primary(self):
        self.pair.primary.crash()
        self.replace_primary()

    @contextlib.contextmanager
    def commits_wait(self, on_standby=False):
        """Inside, commits wait for the standby, and one at least does. Their rows are on the way, or, if not `on_standby`, have not been sent."""
        primary, standby = self.pair.primary, self.pair.standby
        held = standby.processes() if on_standby else primary.senders()
        signal_each(held, signal.SIGSTOP)
        try:
            wait_for("a commit to wait for the standby", primary.is_waited_for)
            yield
        finally:
            signal_each(held, signal.SIGCONT)

    def kill_primary_before_it_sends(self):
        with self.commits_wait():
            self.pair.primary.crash()
        self.replace_primary()

    def kill_primary_after_it_sent(self):
        with self.commits_wait(on_standby=True):
            self.pair.primary.crash()
        self.replace_primary()

    def pause_primary(self):
        """The old primary comes back while the daemons are at work, before or after they have noticed, and takes writes for all that it knows."""
        self.pair.primary.pause()
        self.replace_primary()
        comes_early = self.random.random() < 0.5
        if not comes_early:
            self.cluster.await_batches(2)
        self.pair.former.resume()
        if self.random.random() < 0.5:
            # What waited there is visible there from now on, though no standby has it.
            self.pair.former.end_waits("pg_terminate_backend")
        self.cluster.await_batches(2)
        self.took["pause_primary: goes on"].append(time.monotonic() - self.began)
        self.cluster.check_new()
        self.cluster.kill_active()  # whose successor must not begin at the old primary
        self.cluster.await_batches(2)
        self.cluster.check_new()
        self.pair.remove_former()

    def end_waits_again_and_again(self, function):
        """For a while, so that what the daemon does next is met by it as well."""
        ended = 0
        end = time.monotonic() + self.random.random()
        while ended == 0 or time.monotonic() < end:
            ended += self.pair.primary.end_waits(function)

    def nothing_is_acknowledged(self, seconds):
        """But for what is on its way to a client, which has one command at a time."""
        before = self.cluster.acknowledged()
        time.sleep(seconds)
        more = self.cluster.acknowledged() - before
        wrong_unless(more <= len(self.cluster.submitters), f"{more} batches were acknowledged though no standby had them")

    def cancel_wait(self, function="pg_cancel_backend"):
        with self.commits_wait():
            self.end_waits_again_and_again(function)
            self.nothing_is_acknowledged(0.5)

    def terminate_wait(self):
        self.cancel_wait("pg_terminate_backend")

    def cancel_wait_and_kill_primary(self):
        """What was cancelled is visible on the primary, and lost with it."""
        with self.commits_wait():
            self.end_waits_again_and_again(self.random.choice(("pg_cancel_backend", "pg_terminate_backend")))
            self.nothing_is_acknowledged(0.1)
            self.pair.primary.crash()
        self.replace_primary()

    def lose_standby(self):
        """For less or more than a daemon's patience, which is 20 s."""
        self.pair.standby.crash()
        wait_for("a commit to wait for the standby", self.pair.primary.is_waited_for)
        self.daemon_counts(0)
        self.nothing_is_acknowledged(25 if self.random.random() < 0.2 else 2 * self.random.random())
        self.pair.remove(self.pair.standby)
        self.pair.add_standby()
        self.daemon_counts(1)

    def daemon_counts(self, standbys):
        counted = lambda: self.cluster.active.metrics().get("locksley_cluster_synchronous_standbys")
        wait_for(f"the active daemon to count {standbys} standbys", lambda: counted() == standbys)

    # The daemons.

    def kill_daemon(self):
        self.cluster.kill_active()

    def kill_daemon_in_commit(self):
        with self.commits_wait():
            self.cluster.active.send_signal(signal.SIGKILL)
        self.cluster.kill_active()

    def pause_daemon(self, moment=contextlib.nullcontext):
        """It has a command to execute as it goes on, and acknowledges it no more."""
        paused = self.cluster.active
        witness = paused.connect()
        witness("PING")
        with moment():
            paused.send_signal(signal.SIGSTOP)
        witness.send(encode("SUBMIT", "echo", "JOBS", "x"))
        self.cluster.take_over()
        self.cluster.resume_fenced(paused, witness)

    def pause_daemon_in_commit(self):
        self.pause_daemon(self.commits_wait)

    def finish(self):
        self.cluster.check_all()

    def close(self):
        self.cluster.close()
        self.pair.close()

    def report(self):
        for fault, seconds in self.took.items():
            outcomes = ", ".join(f"{count} {name}" for (of, name), count in sorted(self.unknown.items()) if of == fault) or "none"
            print(f"{fault}: {len(seconds)} times; median {statistics.median(seconds):.2f} s, maximum {max(seconds):.2f} s; unknown outcomes: {outcomes}")
        clients = [each.client for each in self.cluster.submitters]
        refused = sum((each.refused for each in clients), collections.Counter())
        print(f"{self.cluster.acknowledged()} batches acknowledged, none lost; commands without a reply: {sum(each.unanswered for each in clients)}; "
              f"refused: {dict(refused)}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("faults", nargs="*", default=Promotion.FAULTS)
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.rounds} rounds", flush=True)
    promotion = Promotion(options.seed)
    try:
        for number in range(options.rounds):
            # Each of them before any twice.
            fault = options.faults[number] if number < len(options.faults) else promotion.random.choice(options.faults)
            promotion.round(fault)
        promotion.finish()
    except Exception as error:
        promotion.cluster.show_logs()
        traceback.print_tb(error.__traceback__)
        print(f"round {number}, {fault}: {type(error).__name__}: {str(error)[:2000]}")
        return 1
    finally:
        promotion.close()
    promotion.report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
