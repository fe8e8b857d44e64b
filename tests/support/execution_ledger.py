"""A ledger of what ran, written by the programs themselves, beside all daemons; and the check that each job was recorded exactly once."""

import collections

from locksley_daemon import wait_for


class ExecutionLedger:
    """A file in `folder`. Each line is one execution: batch, index, machine."""

    def __init__(self, folder):
        self.path = folder / "executions"
        self.path.touch()

    def handler(self, machine, slots=2):
        """A handler of that machine: a payload is how many seconds the job takes, its result the machine's name."""
        script = f"echo $LOCKSLEY_BATCH $LOCKSLEY_INDEX {machine} >> {self.path}; sleep $1; printf %s {machine}"
        return {"command": ["sh", "-c", script, "sh", "{}"], "input": "argument", "concurrency": slots, "grace": "200ms"}

    def executions(self, batch):
        """For each index, the machines on which it began, in order."""
        found = collections.defaultdict(list)
        for line in self.path.read_text().splitlines():
            of, index, machine = line.split()
            if of == batch:
                found[int(index)].append(machine)
        return found

    def count(self, batch, machine):
        """The number of executions on that machine."""
        return sum(machines.count(machine) for machines in self.executions(batch).values())

    def check(self, test, connection, batch, jobs):
        """Waits until the batch is over. Each of its jobs has one result, which is that of a machine that ran it; nothing is counted twice.
        Returns the machine of each result, by index."""
        wait_for("the batch to be over", lambda: connection.status(batch)["state"] == "done", seconds=90, every=0.05)
        status = connection.status(batch)
        test.assertEqual((status["state"], status["jobs"], status["ok"]), ("done", jobs, jobs), status)
        test.assertEqual([status[key] for key in ("queued", "running", "failed", "cancelled")], [0, 0, 0, 0], status)
        rows = connection.results(batch)
        test.assertEqual(sorted(index for index, _, _ in rows), list(range(jobs)), "each index has one result")
        ran = self.executions(batch)
        for index, how, machine in rows:
            test.assertEqual(how, "ok")
            test.assertIn(machine, ran[index], f"job {index} did not run there")
        return {index: machine for index, _, machine in rows}
