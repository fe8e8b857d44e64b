#!/usr/bin/python3
"""Jobs that other programs run: `true` as a command, two at a time, beside a bare posix_spawn() loop, xargs and GNU parallel; an echo worker
in Python, two processes, beside RQ. README.md says how each is measured. Prints a report in Markdown."""

import argparse
import contextlib
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import packages
import report
import servers

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "support"))
from programs import children
from resp import Connection

AT_A_TIME = 2
ECHO_JOBS, RQ_JOBS = 500_000, 2_000
PATIENCE_S = 120
TRUE = "/bin/true"
RQ_WORKERS = {"RQ": "rq.worker.Worker", "RQ, SimpleWorker": "rq.worker.SimpleWorker"}


def locksley_words(port, folder):
    config = folder / "locksley.yaml"
    config.write_text(
        f"""listen: {{port: {port}}}
http: {{port: 0}}
store: {{path: ''}}
handlers:
  true: {{command: [{TRUE}, "{{}}"], input: argument, concurrency: {AT_A_TIME}}}
  echo-worker: {{worker: [{sys.executable}, {HERE.resolve()}/echo_worker.py], concurrency: {AT_A_TIME}}}
""".replace("  true:", '  "true":')
    )
    return [os.environ["LOCKSLEYD"], "--config", config]


def ticks(pid, *, with_children):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11 : 15 if with_children else 13])) / os.sysconf("SC_CLK_TCK")


class Locksley:
    """A daemon whose handlers have run once."""

    def __init__(self):
        self.server = servers.Server(locksley_words)
        self.connection = Connection("127.0.0.1", self.server.port)
        for handler in ("true", "echo-worker"):
            self.connection("RUN", handler, "JOBS", *map(str, range(200)))
        (self.keeper,) = children(self.server.pid)

    def close(self):
        self.connection.close()
        self.server.close()

    def cpu_seconds(self):
        """Of the daemon, the keeper, and the programs that have ended."""
        return ticks(self.server.pid, with_children=False) + ticks(self.keeper, with_children=True)

    def run(self, handler, jobs):
        cpu, began = self.cpu_seconds(), time.perf_counter()
        batch = self.connection("SUBMIT", handler, "RETAIN", 0, "RANGE", 0, jobs)
        status = self.connection.wait(batch, PATIENCE_S)
        took = time.perf_counter() - began
        if status["ok"] != jobs:
            raise SystemExit(f"jobs failed: {status}")
        return {"rate": jobs / took, "cpu_us": (self.cpu_seconds() - cpu) / jobs * 1e6}


def program(words, jobs, **options):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # The environment that Locksley gives, because the program's loader reads it; and a session, which is what Linux shares a busy
    # machine by.
    options |= {"env": {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, "start_new_session": True}
    subprocess.run(list(map(str, words)), check=True, timeout=PATIENCE_S, **options)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rate": jobs / took, "cpu_us": used / jobs * 1e6}


def rq(worker_class):
    """Two workers that wait at a queue; from the first job's arrival to the last one's result."""
    import redis
    import rq

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.closing(servers.redis()))
        connection = redis.Redis(port=server.port)
        queue = rq.Queue(connection=connection)
        words = [servers.find("rq"), "worker", "--quiet", "--url", f"redis://127.0.0.1:{server.port}", "--worker-class", worker_class]
        for _ in range(AT_A_TIME):
            worker = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=servers.prepare_child)
            stack.callback(worker.wait)
            stack.callback(worker.kill)
        wait_until(lambda: rq.Worker.count(queue=queue) == AT_A_TIME, "RQ's workers")

        def run(jobs):
            done = queue.finished_job_registry.count + jobs
            queue.enqueue_many([rq.Queue.prepare_data("copy.copy", (str(i),)) for i in range(jobs)])
            began = time.perf_counter()
            wait_until(lambda: queue.finished_job_registry.count == done, f"{jobs} jobs of RQ")
            return jobs / (time.perf_counter() - began)

        run(20)
        return {"rate": run(RQ_JOBS if "Simple" in worker_class else RQ_JOBS // 10), "cpu_us": float("nan")}


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"timed out waiting for {what}")
        time.sleep(0.001)


def one_round(bare_spawn, jobs, names):
    numbers = "\n".join(map(str, range(jobs))).encode()
    found = {}
    with contextlib.closing(Locksley()) as locksley:
        found["bare loop"] = program([bare_spawn, jobs, AT_A_TIME, TRUE], jobs)
        found["Locksley"] = locksley.run("true", jobs)
        found["xargs"] = program(["xargs", f"-P{AT_A_TIME}", "-n1", TRUE], jobs, input=numbers)
        if "parallel" in names:
            fewer = jobs // 10
            words = ["parallel", "--will-cite", f"-j{AT_A_TIME}", TRUE]
            found["GNU parallel"] = program(words, fewer, input=b"\n".join(numbers.split(b"\n")[:fewer]), stderr=subprocess.DEVNULL)
        found["echo worker"] = locksley.run("echo-worker", ECHO_JOBS)
    if "rq" in names:
        for name, worker_class in RQ_WORKERS.items():
            found[name] = rq(worker_class)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="build directory, with the programs in its bin/")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=5000, help="programs started in one measurement (default: %(default)s)")
    parser.add_argument("--install", action="store_true", help="install the peers that are missing, from Debian, as root")
    arguments = parser.parse_args()
    servers.unwind_on_signals()
    paths = report.programs(arguments.build, ["locksleyd", "bare_spawn"])
    os.environ["LOCKSLEYD"] = str(paths["locksleyd"])
    wanted = ["parallel", "rq", "redis-server"]
    if arguments.install and packages.missing(wanted):
        packages.install(packages.missing(wanted))
    names = {name for name in wanted if not packages.missing([name])}
    if "redis-server" not in names:
        names.discard("rq")
    machine = report.Machine()
    rounds = []
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
        rounds.append(one_round(paths["bare_spawn"], arguments.jobs, names))

    print("\n".join(machine.lines(arguments.build)))
    print(f"- {arguments.rounds} rounds, medians with the smallest and largest; ratios are within a round\n")

    def rows(of, beside):
        lines = []
        for name in of:
            if name not in rounds[0]:
                lines.append([name, "not installed: " + packages.how_to_get(packages.missing(wanted)), "", ""])
                continue
            cpu = statistics.median(r[name]["cpu_us"] for r in rounds)
            ratio = report.spread([r[beside]["rate"] / r[name]["rate"] for r in rounds])
            lines.append([name, report.spread([r[name]["rate"] for r in rounds]), ratio, "" if cpu != cpu else report.number(cpu)])
        return lines

    print(report.table([f"`true`, {AT_A_TIME} at a time", "jobs/s", "bare loop ÷ it", "CPU us a job, programs included"],
                       rows(["bare loop", "Locksley", "xargs", "GNU parallel"], "bare loop")))  # fmt: skip
    print()
    print(report.table([f"a worker in Python, {AT_A_TIME} processes", "jobs/s", "Locksley ÷ it", "CPU us a job, without the workers"],
                       rows(["echo worker", *RQ_WORKERS], "echo worker")))  # fmt: skip


if __name__ == "__main__":
    main()
