"""Plays the daemon for a local worker: gives it one job, and tells it to stop while the job runs."""

import json
import signal
import subprocess

from locksley_daemon import DEADLINE_S, wait_for


def message(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def told_to_stop(test, command, task, path, version, **options):
    """Starts the worker, and gives it a job: the task, with this path, where it makes a file named PATH-began. Then sends SIGTERM. Returns what the
    worker writes until it ends; a worker that does not end by itself, with 0, fails the test. Its input ends before the signal, as the daemon's
    does."""
    payload = json.dumps({"task": task, "args": [str(path), 3600]}).encode()
    words = (payload, b"0", b"b") if version == 1 else (b"job", payload, b"0", b"b", b"1", b"", b"", b"0")
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
    test.addCleanup(worker.wait)
    test.addCleanup(worker.kill)
    worker.stdin.write(message(*words))
    worker.stdin.flush()
    wait_for(f"{task} to begin", path.with_name(path.name + "-began").exists)
    worker.stdin.close()
    worker.send_signal(signal.SIGTERM)
    with worker.stdout:
        written = worker.stdout.read()
    test.assertEqual(worker.wait(DEADLINE_S), 0)
    return written
