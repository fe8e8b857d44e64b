#!/usr/bin/python3
"""A daemon as the remote worker of another one: it joins, runs what it leases beside its own clients' jobs, and loses no result."""
# Length: the tests share the scripted upstream of one class.

import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority
from held_port import hold_port
from locksley_daemon import DEADLINE_S, DaemonTest, end_with_parent, merged, program, wait_for
from programs import shell, worker
from remote_worker import port_for_workers
from resp import Closed, Connection
from scratch import scratch
from scripted_upstream import NULL, ScriptedUpstream, array, number
from users import PASSWORD, users

OK, NO_PERMISSION, CONFIG, SECOND_SIGNAL = 0, 77, 78, 143

# Answers the first 2000 jobs at once. With the next it says that it has begun, and dies when it may.
DIES = """
import os, sys, time
for done in range(2001):
    for _ in range(int(sys.stdin.buffer.readline()[1:])):
        sys.stdin.buffer.read(int(sys.stdin.buffer.readline()[1:]) + 2)
    if done == 2000:
        open(sys.argv[1], "w").close()
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.01)
        os._exit(1)
    os.write(1, b"$2\\r\\nok\\r\\n")
"""


def user_timeout(pid, port):
    """TCP_USER_TIMEOUT, in ms, of the only connection of that process to this port of loopback."""
    PIDFD_GETFD = 438
    process = os.pidfd_open(pid)
    try:
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it is closed meanwhile, or has no peer
                if not os.readlink(link).startswith("socket:"):
                    continue
                with socket.socket(fileno=ctypes.CDLL(None).syscall(PIDFD_GETFD, process, int(link.name), 0)) as found:
                    if found.getpeername() == ("127.0.0.1", port):
                        return found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    finally:
        os.close(process)
    return None


class UpstreamTest(DaemonTest):
    def upstream(self, pair=None):
        upstream = ScriptedUpstream(pair)
        self.addCleanup(upstream.close)
        return upstream

    def joined(self, upstream, **settings):
        """A daemon of which the pool's lane alone has joined, and that connection."""
        daemon = self.start({"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "name": "host-7", "handlers": ["echo"]}, **settings})
        worker = upstream.accept()
        worker.join(["echo"])
        return daemon, worker


class Jobs(UpstreamTest):
    def test_it_joins_with_its_name_its_slots_and_its_handlers(self):
        upstream = self.upstream()
        daemon = self.start({"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "name": "host-7"}})
        join, hello = upstream.accept().join(["echo", "sha256"])
        self.assertEqual(hello, ["HELLO", "3"])
        self.assertEqual(join[:7], ["JOIN", "host-7", "SLOTS", "2", "PUSH", "PARTIAL", "HANDLERS"])
        self.assertEqual(join[7:], ["echo", "fail", "fib", "sha256", "sleep", "spin"])
        daemon.wait_for_log('joined the upstream daemon.*handlers=2 not_offered="fail fib sleep spin"')

    def test_the_log_says_what_is_to_be_done(self):
        """A lane of which the upstream wants nothing is no trouble. The port for clients is no port for workers."""
        owner = self.start({"workers": {"port": 0}, "handlers": {"far": {"remote": True}}})
        settings = {"handlers": {"far": shell(), "near": {**shell(), "lane": "other"}}, "lanes": {"other": {"slots": 1}}}
        daemon = self.start({"upstream": {"url": f"redis://127.0.0.1:{port_for_workers(owner)}"}, **settings})
        for lane in ("cpu", "other"):
            daemon.wait_for_log(f"info the upstream daemon has no handler of this lane for remote workers.* lane={lane} ")
        daemon.wait_for_log("joined the upstream daemon.*lane=processes")
        self.assertNotIn("warning", daemon.log())
        secured = self.start(merged(users(work={"commands": ["work"], "handlers": ["far"]}), {"workers": {"port": 0}, "handlers": {"far": {"remote": True}}}))
        password = pathlib.Path(scratch(self), "password")
        password.touch(mode=0o600)
        password.write_text(PASSWORD.format("work"))
        upstream = {"url": f"redis://work@127.0.0.1:{port_for_workers(secured)}", "password_file": str(password)}
        for handlers, level in ({}, "info"), ({"handlers": ["far", "echo"]}, "warning"):
            worker = self.start({"upstream": {**upstream, **handlers}, "handlers": {"far": shell()}})
            worker.wait_for_log(f"{level} the upstream daemon lets this user run no handler of this lane.* lane=cpu reason=\"NOPERM")
            worker.wait_for_log("joined the upstream daemon.*lane=processes")
        mistyped = {"url": f"redis://127.0.0.1:{port_for_workers(owner)}", "handlers": ["fra"]}
        named = self.start({"upstream": mistyped, "handlers": {"fra": shell()}})
        named.wait_for_log("warning the upstream daemon has no handler of this lane.* lane=processes "
                           "reason=\"NOHANDLER no handler 'fra' for remote workers: in the daemon's configuration it needs `remote: true`; these have it: far\"")
        wrong = self.start({"upstream": {"url": f"redis://127.0.0.1:{owner.port}"}, "handlers": {"far": shell()}})
        wrong.wait_for_log("no connection to the upstream daemon.*this is its port for clients")

    def test_a_job_that_is_passed_on_is_not_taken_for_another(self):
        """This daemon has a port for workers, too; the number of its upstream's batch is not one of its own batches."""
        upstream = self.upstream()
        settings = {"handlers": {"far": {**shell(), "remote": True}}, "workers": {"port": 0}}
        daemon = self.start({"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["far"]}, **settings})
        client, worker = self.connect(daemon), Connection(daemon.host, port_for_workers(daemon))
        self.addCleanup(worker.close)
        above = upstream.accept()
        above.join(["far"])
        own = client("SUBMIT", "far", "JOBS", "sleep 3600")
        wait_for("the only process to be at work", lambda: client.map("STATUS", own)["running"] == 1)
        above.expect("CLAIM")
        above.lease("l-1", "far", 41, ["true"])
        worker("JOIN", "w", "SLOTS", 1, "HANDLERS", "far")
        passed_on = worker("CLAIM", "SLOT", 0, "BLOCK", 10_000)
        self.assertEqual((passed_on[1:5], passed_on[9:11]), ([0, "far", 41, 1], ["b7", "alice"]))
        self.assert_error("LOST", worker.ask("RECLAIM", 0, 1, 41, 42))
        worker("SETTLE", passed_on[0], "ok", 41, "done elsewhere")
        self.assertEqual(above.settled("l-1", 1), {41: ("ok", "done elsewhere")})

    def test_a_lane_offers_as_many_slots_as_an_upstream_allows(self):
        upstream = self.upstream()
        settings = {"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["script"]}}
        self.start({"handlers": {"script": shell(concurrency=5000)}, **settings})
        join, _ = upstream.accept().join(["script"])
        self.assertEqual(join[2:4], ["SLOTS", "4096"])

    def test_a_lane_tells_the_longest_grace_of_its_handlers(self):
        upstream = self.upstream()
        handlers = {"near": shell(grace="300ms"), "far": shell(grace="7s"), "own": shell(grace="9s", lane="other")}
        settings = {"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["near", "far"]}}
        daemon = self.start({"handlers": handlers, "lanes": {"other": {"slots": 1}}, **settings})
        join, _ = upstream.accept().join(["near", "far"])
        self.assertEqual(join[4:6], ["GRACE", "7000"])

    def test_leased_jobs_run_in_the_pool_beside_those_of_clients(self):
        daemon, remote = self.joined(self.upstream())
        remote.expect("CLAIM")
        remote.lease("l-1", "echo", 100, ["a", "", "c"])
        client = self.connect(daemon)
        self.assertEqual(client("RUN", "echo", "JOBS", "mine"), [["ok", "mine"]])
        self.assertEqual(remote.settled("l-1", 3), {100: ("ok", "a"), 101: ("ok", ""), 102: ("ok", "c")})

    def test_a_large_lease_is_settled_whole(self):
        _, remote = self.joined(self.upstream())
        payloads = [f"{i:032}" for i in range(50_000)]
        remote.expect("CLAIM")
        remote.lease("l-1", "echo", 0, payloads)
        results = remote.settled("l-1", len(payloads))
        self.assertEqual([results[i][1] for i in range(len(payloads))], payloads)

    def test_a_command_knows_the_upstreams_batch_index_attempt_and_tenant(self):
        upstream = self.upstream()
        settings = {"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "name": "host-7", "handlers": ["script"]}}
        self.start({"handlers": {"script": shell(concurrency=3)}, **settings})
        remote = upstream.accept()
        join, _ = remote.join(["script"])
        self.assertRegex(join[1], "^host-7/processes$")
        remote.expect("CLAIM")
        remote.lease("l-1", "script", 41, ["echo $LOCKSLEY_BATCH $LOCKSLEY_INDEX $LOCKSLEY_ATTEMPT $LOCKSLEY_TENANT", "exit 3"], attempt=5)
        results = remote.settled("l-1", 2)
        self.assertEqual(results[41], ("ok", "b7 41 5 alice\n"))
        self.assertEqual(results[42][0], "error")
        self.assertEqual(remote.notes, [["l-1", "42", "EXIT", "3"]])

    def test_the_time_out_of_a_leased_job_is_enforced_here(self):
        upstream = self.upstream()
        settings = {"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["script"]}}
        self.start({"handlers": {"script": shell()}, **settings})
        remote = upstream.accept()
        remote.join(["script"])
        remote.expect("CLAIM")
        remote.lease("l-1", "script", 0, ["sleep 600"], timeout_ms=200)
        self.assertEqual(remote.settled("l-1", 1)[0][0], "timeout")


class Orders(UpstreamTest):
    def script_lease(self, payloads):
        upstream = self.upstream()
        settings = {"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["script"]}}
        daemon = self.start({"handlers": {"script": shell(concurrency=1)}, **settings})
        remote = upstream.accept()
        remote.join(["script"])
        remote.expect("CLAIM")
        remote.lease("l-1", "script", 0, payloads)
        return daemon, remote

    def test_a_cut_hands_back_what_has_not_started(self):
        go = scratch(self) / "go"
        _, remote = self.script_lease([f"until [ -e {go} ]; do sleep 0.01; done"] + ["true"] * 99)
        remote.push("CUT", "l-1", 50)
        yielded = remote.expect("YIELD", "l-1")
        self.assertEqual(yielded, ["YIELD", "l-1", "50"])
        remote.send(b":50\r\n")
        go.touch()
        self.assertEqual(sorted(remote.settled("l-1", 50)), list(range(50)))

    def test_stop_ends_the_program_and_the_lease_goes_back(self):
        _, remote = self.script_lease(["sleep 600", "true"])
        remote.push("STOP", "l-1")
        self.assertEqual(remote.expect("YIELD"), ["YIELD", "l-1"])

    def test_at_its_end_it_finishes_what_runs_hands_back_the_rest_and_leaves(self):
        folder = scratch(self)
        mark, go = folder / "begun", folder / "go"
        daemon, remote = self.script_lease([f"touch {mark}; until [ -e {go} ]; do sleep 0.01; done; echo done", "true", "true"])
        wait_for("the first job", mark.exists)
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(remote.expect("YIELD"), ["YIELD", "l-1", "1"])
        remote.send(b":2\r\n")
        go.touch()
        self.assertEqual(remote.settled("l-1", 1), {0: ("ok", "done\n")})
        remote.expect("LEAVE")
        remote.send(b"+OK\r\n")
        self.assertEqual(daemon.wait_end(), OK)


class Restarts(UpstreamTest):
    def test_a_job_whose_machines_are_restarted_in_order_counts_no_losses(self):
        owner = self.start({"workers": {"port": 0}, "handlers": {"long": {"remote": True}}})
        client = self.connect(owner)
        batch = client("SUBMIT", "long", "JOBS", "x")
        slow_to_end = "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(2.5), sys.exit(1))); open(sys.argv[1], 'w'); time.sleep(600)"
        begun = scratch(self) / "begun"
        settings = {
            "upstream": {"url": f"redis://127.0.0.1:{port_for_workers(owner)}"},
            "shutdown": {"drain_timeout": "100ms"},
            "handlers": {"long": {"command": [sys.executable, "-c", slow_to_end, str(begun)]}},
        }
        for _ in range(3):
            machine = self.start(settings)
            wait_for("the job to run", begun.exists)
            begun.unlink()
            machine.send_signal(signal.SIGTERM)
            machine.wait_end()
            wait_for("the job to be back", lambda: client.status(batch)["queued"] == 1)
        self.assertEqual(owner.metrics()['locksley_remote_lost_jobs_total{reason="disconnected"}'], 0)
        client("CANCEL", batch)


class Faults(UpstreamTest):
    def test_results_without_an_answer_are_sent_again_after_a_reconnect(self):
        upstream = self.upstream()
        _, remote = self.joined(upstream)
        remote.expect("CLAIM")
        remote.lease("l-1", "echo", 0, ["a", "b"])
        remote.expect("SETTLE", "l-1")
        remote.close()  # the results were lost on their way
        remote = upstream.accept()
        remote.join(["echo"])
        self.assertEqual(remote.expect("RECLAIM")[:5], ["RECLAIM", "7", "1", "0", "2"])
        remote.send(b"*2\r\n$3\r\nl-2\r\n*1\r\n*2\r\n:0\r\n:2\r\n")
        self.assertEqual(remote.settled("l-2", 2), {0: ("ok", "a"), 1: ("ok", "b")})

    def test_a_dead_connection_breaks_when_its_leases_are_over(self):
        """TCP says so of its own accord, if it has the length of a lease: of 1 to 60 s."""
        upstream = self.upstream()
        daemon = self.start({"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["echo"]}})
        for lease_ms, expected in ((30_000, 30_000), (400, 1000), (86_400_000, 60_000)):
            remote = upstream.accept()
            remote.join(["echo"], lease_ms=lease_ms)
            wait_for(f"{expected} ms to be set", lambda: user_timeout(daemon.pid, upstream.port) == expected)
            remote.close()

    def test_an_upstream_that_comes_later_is_found(self):
        port = hold_port(self)
        daemon = self.start({"upstream": {"url": f"redis://127.0.0.1:{port}", "name": "host-7", "handlers": ["echo"]}})
        daemon.wait_for_log("no connection to the upstream daemon.*refused")
        later = self.upstream_at(port)
        later.accept().join(["echo"])
        daemon.wait_for_log("joined the upstream daemon")
        self.assertEqual(daemon.log().count("no connection to the upstream daemon"), 1)

    def upstream_at(self, port):
        later = ScriptedUpstream()
        later.listener.close()
        later.listener = socket.create_server(("127.0.0.1", port))
        later.listener.settimeout(30)
        self.addCleanup(later.close)
        return later

    def test_an_address_that_is_gone_or_silent_is_passed_over(self):
        gone, silent, upstream = hold_port(self), self.silent(), self.upstream()
        url = f"redis://127.0.0.1:{gone},127.0.0.1:{silent},127.0.0.1:{upstream.port}"
        daemon = self.start({"upstream": {"url": url, "name": "host-7", "handlers": ["echo"]}})
        upstream.accept().join(["echo"])
        daemon.wait_for_log(rf"joined the upstream daemon.*127.0.0.1:{upstream.port}")
        self.assertRegex(daemon.log(), rf"no connection to the upstream daemon.*127.0.0.1:{gone}.*refused")
        self.assertRegex(daemon.log(), rf"no connection to the upstream daemon.*127.0.0.1:{silent}.*no connection in 1.5 s")

    def silent(self):
        """The port of a listener whose queue is full: the kernel answers no further connection, as the machine of a daemon that is gone."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.addCleanup(listener.close)
        waiting = socket.create_connection(listener.getsockname())
        self.addCleanup(waiting.close)
        return listener.getsockname()[1]

    def test_what_is_not_the_protocol_ends_the_connection_and_is_tried_again(self):
        upstream = self.upstream()
        daemon = self.start({"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["echo"]}})
        remote = upstream.accept()
        remote.expect("HELLO")
        remote.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with self.assertRaises(Closed):
            remote.read()
        upstream.accept().join(["echo"])
        self.assertIn("what it sends is not RESP3, as of a port for HTTP; the port for workers is its workers.port (7771 by default)", daemon.log())


class Memory(UpstreamTest):
    @staticmethod
    def next_for(upstream, handlers, seconds=DEADLINE_S):
        """The next connection for one of these handlers; JOIN is refused to those before it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection = upstream.accept()
            with contextlib.suppress(Closed):
                connection.join(handlers)
                return connection
        raise AssertionError(f"after {seconds} s there are still others")

    def test_it_ends_although_results_that_wait_for_the_upstream_fill_their_memory(self):
        upstream = self.upstream()
        settings = {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["script"], "max_leased_bytes": "1MiB"}
        daemon = self.start({"upstream": settings, "handlers": {"script": shell(concurrency=1)}, "lanes": {"processes": {"slots": 1}}})
        remote = upstream.accept()
        remote.join(["script"])
        remote.expect("CLAIM")
        remote.lease("l-1", "script", 0, ["head -c 2000000 /dev/zero"] * 8)
        remote.expect("SETTLE", "l-1")
        upstream.close()
        kept = 'locksley_upstream_unacknowledged_result_bytes{lane="processes"}'
        wait_for("the results to be kept", lambda: daemon.metrics().get(kept, 0) >= 2_000_000)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait_for_log("draining")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), SECOND_SIGNAL)


    def test_results_that_the_upstream_does_not_take_of_one_lane_do_not_stop_another(self):
        upstream = self.upstream()
        handlers = {"one": shell(lane="a"), "two": shell(lane="b")}
        settings = {"url": f"redis://127.0.0.1:{upstream.port}", "name": "host-7", "handlers": list(handlers), "max_leased_bytes": "1MiB"}
        daemon = self.start({"upstream": settings, "handlers": handlers, "lanes": {"a": {"slots": 1}, "b": {"slots": 1}}})
        joined = upstream.workers(2, list(handlers))
        full, other = (joined[f"host-7/{lane}"][0] for lane in "ab")
        full.expect("CLAIM")
        full.lease("l-1", "one", 0, ["head -c 2000000 /dev/zero"])
        full.expect("SETTLE", "l-1")
        kept = 'locksley_upstream_unacknowledged_result_bytes{lane="a"}'
        wait_for("the results to be kept", lambda: daemon.metrics().get(kept, 0) >= 2_000_000)
        other.expect("CLAIM")
        other.lease("l-2", "two", 0, ["echo yes"] * 3)
        self.assertEqual(other.settled("l-2", 3), dict.fromkeys(range(3), ("ok", "yes\n")))

    def test_results_of_a_handler_that_a_reload_removed_here_and_the_upstream_lost_are_dropped(self):
        """They fill the memory of their lane, which serves another handler now."""
        upstream = self.upstream()
        address = {"url": f"redis://127.0.0.1:{upstream.port}", "name": "host-7", "max_leased_bytes": "1MiB"}
        settings = {"upstream": {**address, "handlers": ["one", "two"]}, "handlers": {"one": shell()}, "lanes": {"processes": {"slots": 1}}}
        daemon = self.start(settings)
        old = upstream.accept()
        old.join(["one"], lease_ms=1000)
        old.expect("CLAIM")
        old.lease("l-1", "one", 0, ["head -c 2000000 /dev/zero"])
        old.expect("SETTLE", "l-1")
        settings["handlers"] = {"two": shell()}
        daemon.configure(settings)
        daemon.send_signal(signal.SIGHUP)
        new = self.next_for(upstream, ["two"])
        new.expect("CLAIM")
        new.lease("l-2", "two", 0, ["echo yes"])
        old.close()
        upstream.listener.settimeout(2)
        with self.assertRaises(TimeoutError):  # it tries no more
            self.next_for(upstream, [], seconds=DEADLINE_S / 2)
        daemon.wait_for_log(r'leases are dropped, and their jobs stop: the upstream daemon has no handlers.* leases=1 results=1 bytes=2\d{6} .*reason="NOHANDLER')
        self.assertEqual(new.settled("l-2", 1), {0: ("ok", "yes\n")})

class Login(UpstreamTest):
    def test_the_password_comes_from_its_file_and_the_connection_is_tls(self):
        folder = scratch(self)
        authority = Authority(folder, "authority")
        upstream = self.upstream(authority.issue("queue"))
        secret = folder / "password"
        secret.write_text("correct horse\n")
        secret.chmod(0o600)
        settings = {"url": f"rediss://renderer@127.0.0.1:{upstream.port}", "password_file": str(secret), "handlers": ["echo"]}
        self.start({"upstream": {**settings, "ca_file": str(authority.certificate)}})
        remote = upstream.accept()
        _, hello = remote.join(["echo"])
        self.assertEqual(hello, ["HELLO", "3", "AUTH", "renderer", "correct horse"])
        remote.expect("CLAIM")
        remote.lease("l-1", "echo", 0, ["x" * 300_000])
        self.assertEqual(remote.settled("l-1", 1), {0: ("ok", "x" * 300_000)})
        elsewhere = self.upstream(authority.issue("elsewhere"))
        daemon = self.start({"upstream": {**settings, "url": f"rediss://renderer@127.0.0.1:{elsewhere.port}"}})
        with contextlib.suppress(OSError):
            elsewhere.accept()
        daemon.wait_for_log("no authority that is trusted has signed.* upstream.ca_file names another")

    def test_a_password_that_others_can_read_is_refused(self):
        secret = scratch(self) / "password"
        secret.write_text("correct horse\n")
        secret.chmod(0o644)
        with self.assertRaisesRegex(AssertionError, rf"(?s)ended with {CONFIG}.*every user of this machine can read"):
            self.start({"upstream": {"url": "redis://127.0.0.1:1", "password_file": str(secret)}})


class Reload(UpstreamTest):
    def test_a_new_handler_is_offered_and_what_runs_on_the_old_connection_ends_there(self):
        upstream = self.upstream()
        settings = {"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "name": "host-7"}, "handlers": {"one": worker()}}
        daemon = self.start(settings)
        before = upstream.workers(2, ["echo", "one", "two"])
        self.assertEqual(sorted(before), ["host-7", "host-7/processes"])
        settings["handlers"]["two"] = worker()
        daemon.configure(settings)
        daemon.send_signal(signal.SIGHUP)
        remote = upstream.accept()
        join, _ = remote.join(["two"])
        self.assertIn("two", join)

    def test_the_lease_of_a_handler_that_is_removed_ends_with_what_runs(self):
        """The program has been sent some jobs when it dies, and nothing runs these any more."""
        folder, upstream = scratch(self), self.upstream()
        mark, go, jobs = folder / "begun", folder / "go", 4000
        settings = {"upstream": {"url": f"redis://127.0.0.1:{upstream.port}", "handlers": ["dies"]}, "lanes": {"processes": {"slots": 1}}}
        dies = {"worker": [sys.executable, "-S", "-c", DIES, str(mark), str(go)], "grace": "200ms"}
        daemon = self.start({**settings, "handlers": {"dies": dies}})
        remote = upstream.accept()
        remote.join(["dies"])
        remote.expect("CLAIM")
        remote.lease("l-1", "dies", 0, ["x"] * jobs)
        wait_for("the job before the program's end", mark.exists)
        daemon.configure({**settings, "handlers": {}})
        daemon.send_signal(signal.SIGHUP)
        results, yielded, end = {}, [], time.monotonic() + DEADLINE_S
        while len(yielded) < 2:
            self.assertLess(time.monotonic(), end, yielded)
            command = remote.expect()
            if command[0] == "SETTLE":
                results.update(enumerate(command[4:], int(command[3])))
                remote.send(array(number(len(command[4:])), number(0)))
            elif command[0] == "YIELD":
                yielded.append(command)
                remote.send(number(0))
                go.touch()
            else:
                remote.send({"CLAIM": NULL, "BEAT": array(), "NOTE": b"+OK\r\n"}[command[0]])
        self.assertEqual(yielded[1], ["YIELD", "l-1"])
        self.assertEqual(sorted(results), list(range(len(results))))
        self.assertLess(len(results), int(yielded[0][2]))
        remote.expect("LEAVE")


class Work(UpstreamTest):
    def test_a_program_without_configuration_runs_jobs_and_hands_back_what_it_has_not_begun(self):
        upstream = self.upstream()
        arguments = ["work", "upper", "--url", f"redis://127.0.0.1:{upstream.port}", "--slots", "2", "--name", "lone", "--", *worker()["worker"]]
        process = subprocess.Popen([program("LOCKSLEY"), *arguments], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        remote = upstream.accept()
        join, _ = remote.join(["upper"])
        self.assertEqual(join, ["JOIN", "lone/processes", "SLOTS", "2", "GRACE", "5000", "PUSH", "PARTIAL", "HANDLERS", "upper"])
        remote.expect("CLAIM")
        remote.lease("l-1", "upper", 10, ["answer(40 + 2)", "answer(f'{batch}/{index}')"])
        self.assertEqual(remote.settled("l-1", 2), {10: ("ok", "42"), 11: ("ok", "b7/11")})
        process.send_signal(signal.SIGTERM)
        remote.expect("LEAVE")
        remote.send(b"+OK\r\n")
        self.assertEqual(process.wait(30), OK)

    def work(self, port, user="renderer", password="wrong"):
        arguments = ["work", "upper", "--url", f"redis://{user}@127.0.0.1:{port}", "--", *worker()["worker"]]
        environment = {**os.environ, "LOCKSLEY_PASSWORD": password}
        process = subprocess.Popen(
            [program("LOCKSLEY"), *arguments], env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, preexec_fn=end_with_parent
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_wrong_password_ends_it(self):
        for refusal in (b"-WRONGPASS invalid username-password pair or user is disabled.\r\n", b"-NOAUTH Authentication required.\r\n"):
            upstream = self.upstream()
            process = self.work(upstream.port)
            remote = upstream.accept()
            remote.expect("HELLO", "3", "AUTH", "renderer", "wrong")
            remote.send(refusal)
            _, said = process.communicate(timeout=30)
            self.assertEqual(process.returncode, NO_PERMISSION, said)
            self.assertIn("the daemon refuses the user or the password", said)

    def test_a_user_who_may_not_work_ends_it(self):
        settings = {"workers": {"port": 0}, "handlers": {"upper": {"remote": True}, "other": {"remote": True}}}
        may = users(alice={"commands": ["submit", "read"], "handlers": ["upper"]}, renderer={"commands": ["work"], "handlers": ["other"]})
        daemon = self.start(merged(may, settings))
        for user, reason in ("alice", "run the 'join' command"), ("renderer", "use the handler 'upper'"):
            process = self.work(port_for_workers(daemon), user, PASSWORD.format(user))
            _, said = process.communicate(timeout=30)
            self.assertEqual(process.returncode, NO_PERMISSION, said)
            self.assertIn("the daemon does not let this user work: in its configuration `users.NAME.commands: [work]` does", said)
            self.assertIn(f'reason="NOPERM User {user} has no permissions to {reason}"', said)

    def test_a_handler_that_is_not_there_is_said_once_and_waited_for(self):
        upstream = self.upstream()
        process = self.work(upstream.port)
        for _ in range(3):
            with self.assertRaises(Closed):
                upstream.accept().join(["other"])
        upstream.accept().join(["upper"])
        process.kill()
        _, said = process.communicate(timeout=30)
        self.assertEqual(said.count("no handler 'upper' for remote workers"), 1, said)
        self.assertIn("; it is asked again", said)

    def test_a_password_that_was_right_may_become_right_again(self):
        upstream = self.upstream()
        process = self.work(upstream.port)
        remote = upstream.accept()
        remote.join(["upper"])
        remote.close()
        for _ in range(2):
            remote = upstream.accept()
            remote.expect("HELLO")
            remote.send(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        upstream.accept().join(["upper"])
        self.assertIsNone(process.poll())

    def test_another_machine_needs_encryption(self):
        refused = subprocess.run([program("LOCKSLEY"), "work", "h", "--url", "redis://queue.example", "--", "true"], capture_output=True, text=True, timeout=30)
        self.assertEqual(refused.returncode, CONFIG)
        self.assertIn("insecure", refused.stderr)


if __name__ == "__main__":
    unittest.main()
