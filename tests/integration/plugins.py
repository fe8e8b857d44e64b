#!/usr/bin/python3
"""Native plugins, as their authors meet them: the package is installed, the example is built against it out of tree, and a daemon runs it; what
cannot be loaded keeps the daemon from starting, with a sentence that says why; with `isolate` the same jobs run in processes of their own,
where a crash is one job's. LOCKSLEY_BUILD names the build directory."""

import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, end_with_parent, program, wait_for
from resp import pairs
from time_limits import with_growing_limits

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["LOCKSLEY_BUILD"])
TEST_PLUGINS = BUILD / "plugins"
CONFIG_ERROR = 78
BUILD_DEADLINE_S = 240
# Hours of work, but for who asks it to stop.
ENDLESS = "100 105 0.02 0.25 1.5 10000000000"

# Uses locksley::core, and prints how many jobs of a batch ended.
CORE_USER = """
#include <cstdio>
#include <thread>

#include "core/batch/batch.h"
#include "core/tasks/context.h"
#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "core/batch/payload.h"
#include "core/pool/pool.h"

int main() {
  locksley::Handler handler("h", "", [](locksley::JobContext& context, std::string_view payload) { context.write(payload); });
  locksley::Lane lane("cpu", {});
  locksley::Pool pool(lane);
  pool.start(2);
  auto batch = std::make_shared<locksley::Batch>(locksley::BatchOptions{}, handler, std::make_unique<locksley::RangePayloads>(0), nullptr);
  lane.submit(batch, 1000, /*open=*/false);
  while (!batch->is_over()) std::this_thread::yield();
  std::printf("%d\\n", static_cast<int>(batch->status().ok));
  pool.stop();
}
"""
CORE_USER_CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
find_package(locksley REQUIRED)
add_executable(user user.cc)
target_link_libraries(user PRIVATE locksley::core)
"""

# Uses locksley::client: prints the results of two jobs, by the daemon whose port is the argument.
CLIENT_USER = """
#include <cstdio>
#include <cstdlib>

#include "proto/clients/cpp/client.h"

int main(int, char** arguments) {
  using namespace locksley::client;
  const auto port = static_cast<std::uint16_t>(std::atoi(arguments[1]));
  auto client = Client::connect({.host = "127.0.0.1", .port = port});
  if (!client) return std::puts(client.error().message.c_str()), 1;
  const std::string_view jobs[] = {"a", "b"};
  const auto results = client->run("echo", {}, jobs);
  if (!results) return std::puts(results.error().message.c_str()), 1;
  for (const JobResult& result : *results) std::printf("%s\\n", result.output.c_str());
}
"""
CLIENT_USER_CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
find_package(locksley REQUIRED COMPONENTS core client)
add_executable(user user.cc)
target_link_libraries(user PRIVATE locksley::client)
"""


def run(*words):
    """A command that must succeed; what it said."""
    done = subprocess.run(
        [str(word) for word in words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=BUILD_DEADLINE_S,
        preexec_fn=end_with_parent,
        env={key: value for key, value in os.environ.items() if key not in ("CFLAGS", "CXXFLAGS", "DESTDIR")},
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def call_price(spot, strike, rate, volatility, years):
    """What the simulation is about to find: Black and Scholes' formula."""
    spread = volatility * math.sqrt(years)
    d = (math.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    normal = lambda x: math.erfc(-x / math.sqrt(2)) / 2
    return spot * normal(d) - strike * math.exp(-rate * years) * normal(d - spread)


def setUpModule():
    global scratch, prefix, pricing
    scratch = tempfile.TemporaryDirectory(prefix="locksley-plugins-")
    unittest.addModuleCleanup(scratch.cleanup)
    prefix = pathlib.Path(scratch.name, "prefix")
    for component in ("core", "client"):
        run("cmake", "--install", BUILD, "--prefix", prefix, "--component", component)
    pricing = build(ROOT / "deploy/examples/plugin", "pricing") / "libpricing.so"


def build(source, name):
    """A project that is not of this tree's build. Its build directory."""
    into = pathlib.Path(scratch.name, name + "-build")
    # Not in the registry of packages, nor in a system folder: the prefix alone.
    run("cmake", "-G", "Ninja", "-S", source, "-B", into, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF")
    run("cmake", "--build", into)
    return into


def build_user(name, cmake, text):
    """A program that uses a library of the package."""
    source = pathlib.Path(scratch.name, name)
    source.mkdir()
    (source / "CMakeLists.txt").write_text(cmake)
    (source / "user.cc").write_text(text)
    return build(source, name) / "user"


def cancel_when_it_runs(command, handler, payload):
    """How the job ended. Nothing if it was cancelled between the claim, from which on it counts as running, and its begin."""
    batch = command("SUBMIT", handler, "JOBS", payload)
    wait_for("the job to run", lambda: command.map("STATUS", batch)["running"] == 1)
    command("CANCEL", batch)
    command.wait(batch)
    return [row[1:] for row in command.results(batch) if row[2] != "cancelled by request"] or None


class Package(DaemonTest):
    def test_the_example_was_built_from_what_is_installed_alone(self):
        commands = run("cmake", "--build", pathlib.Path(scratch.name, "pricing-build"), "--clean-first", "--verbose")
        self.assertIn(str(prefix / "include/locksley"), commands)
        self.assertNotIn(f"-I{ROOT}", commands)
        needed = run("readelf", "--dynamic", pricing)
        self.assertNotIn("locksley", needed.replace(str(pricing), ""), "a plugin links nothing of the daemon")

    def test_core_is_a_library_for_other_programs(self):
        self.assertEqual(run(build_user("core-user", CORE_USER_CMAKE, CORE_USER)), "1000\n")

    def test_client_is_a_library_for_other_programs(self):
        user = build_user("client-user", CLIENT_USER_CMAKE, CLIENT_USER)
        self.assertEqual(run(user, self.start().port), "a\nb\n")


class Jobs(DaemonTest):
    def setUp(self):
        self.daemon = self.start(
            {
                "handlers": {
                    "pricing": {"plugin": str(pricing)},
                    "in-c": {"plugin": str(TEST_PLUGINS / "in_c.so")},
                    "in-cxx": {"plugin": str(TEST_PLUGINS / "in_cxx.so")},
                }
            }
        )
        self.command = self.connect(self.daemon)

    def run_jobs(self, handler, *payloads):
        return self.command("RUN", handler, "JOBS", *payloads)

    def test_they_are_listed_with_their_descriptions(self):
        listed = {entry["name"]: entry for entry in map(pairs, self.command("HANDLERS"))}
        self.assertEqual((listed["in-c"]["kind"], listed["in-c"]["description"]), ("plugin", "is written in C"))
        self.assertEqual(listed["pricing"]["description"], "prices a call option: spot strike rate volatility years paths")
        self.assertEqual(listed["echo"]["kind"], "builtin")

    def test_the_price_is_right(self):
        for option in ((100, 105, 0.02, 0.25, 1.5), (100, 80, 0.05, 0.4, 0.5)):
            payload = " ".join(map(str, (*option, 400_000)))
            ((status, first), (_, second)) = self.run_jobs("pricing", payload, payload)
            self.assertEqual(status, "ok", first)
            self.assertEqual(first, second, "the same whoever computed which part")
            price, error = map(float, first.split())
            self.assertGreater(error, 0)
            # The random numbers are always the same, so this is settled once and for all.
            self.assertLess(abs(price - call_price(*option)), 4 * error)

    def test_a_wrong_payload_is_the_jobs_error(self):
        good = "100 105 0.02 0.25 1.5 1000"
        wrong = ["", "100 105", "x 105 0.02 0.25 1.5 1000", "100 105 0.02 -1 1.5 1000", good + " 7", "100 105 0.02 0.25 1.5 1e3"]
        rows = self.run_jobs("pricing", good, *wrong)
        self.assertEqual([status for status, _ in rows], ["ok"] + ["error"] * len(wrong))
        self.assertEqual(rows[3][1], 'spot: expected a number from 1e-06 to 1e+09, found "x"')
        self.assertEqual(rows[4][1], 'volatility: expected a number from 0 to 10, found "-1"')

    def test_failures_are_counted_as_any_other(self):
        batch = self.command("SUBMIT", "in-cxx", "JOBS", "throw", "fail", "x")
        status = self.command.wait(batch)
        self.assertEqual((status["ok"], status["failed"]), (1, 2))
        self.assertEqual(self.daemon.metrics()['locksley_jobs_total{handler="in-cxx",status="error"}'], 2)

    def test_cancellation_reaches_a_loop_and_a_job(self):
        for handler, payload in (("pricing", ENDLESS), ("in-cxx", "linger"), ("in-c", "linger")):
            with self.subTest(handler):
                ended = lambda: cancel_when_it_runs(self.command, handler, payload)
                self.assertEqual(wait_for("a cancellation that reaches the job", ended), [["cancelled", "cancelled"]])

    def test_a_time_limit_reaches_a_loop(self):
        batch = self.command("SUBMIT", "pricing", "TIMEOUT", 50, "JOBS", ENDLESS)
        self.command.wait(batch)
        self.assertEqual([row[1] for row in self.command.results(batch)], ["timeout"])

    def test_sub_jobs_run_on_the_pool(self):
        rows = self.run_jobs("in-c", *["fib 18"] * 20, "task fails") + self.run_jobs("in-cxx", "fib", "flood", "loops")
        self.assertEqual([output for _, output in rows], ["2584"] * 20 + ["from below", "6765", "flood 7 after 100, then 101", "1000 500"])

    def test_a_job_knows_its_place(self):
        batch = self.command("SUBMIT", "in-c", "ID", "mine", "TRACE", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "JOBS", "describe", "describe")
        self.command.wait(batch)
        rows = sorted(self.command.results(batch))
        self.assertRegex(rows[1][2], r"^in-c 1 1 mine \S+ 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01$")

    def test_a_loop_uses_every_worker(self):
        batch = self.command("SUBMIT", "pricing", "JOBS", ENDLESS)
        steals = lambda: sum(value for key, value in self.daemon.metrics().items() if key.startswith("locksley_worker_steals_total"))
        wait_for("both workers to work at the one job", lambda: steals() >= 1)
        self.command("CANCEL", batch)
        self.command.wait(batch)


class Isolated(DaemonTest):
    def isolated(self, plugin, **settings):
        return {"plugin": str(plugin), "isolate": True, **settings}

    def begin(self, **handlers):
        self.daemon = self.start({"handlers": handlers})
        self.command = self.connect(self.daemon)

    def run_jobs(self, handler, *payloads):
        return self.command("RUN", handler, "JOBS", *payloads)

    def rows(self, handler, *payloads, options=()):
        """[index, status, output] of a batch's jobs, in their order."""
        batch = self.command("SUBMIT", handler, *options, "JOBS", *payloads)
        self.command.wait(batch)
        return sorted(self.command.results(batch))

    def test_they_are_plugins_with_a_concurrency_of_their_own(self):
        self.begin(**{"in-c": self.isolated(TEST_PLUGINS / "in_c.so", concurrency=3)})
        listed = {entry["name"]: entry for entry in map(pairs, self.command("HANDLERS"))}["in-c"]
        self.assertEqual((listed["kind"], listed["description"], listed["concurrency"]), ("plugin", "is written in C", 3))
        self.assertNotIn("in_c.so", pathlib.Path(f"/proc/{self.daemon.pid}/maps").read_text(), "its code stays out of the daemon")

    def test_jobs_end_as_they_do_in_the_daemon(self):
        self.begin(
            **{
                "c": self.isolated(TEST_PLUGINS / "in_c.so"),
                "cxx": self.isolated(TEST_PLUGINS / "in_cxx.so"),
                "pricing": self.isolated(pricing),
                "here-c": {"plugin": str(TEST_PLUGINS / "in_c.so")},
                "here-cxx": {"plugin": str(TEST_PLUGINS / "in_cxx.so")},
                "here-pricing": {"plugin": str(pricing)},
            }
        )
        for handler, payloads in (
            ("c", ["echo x", "echo ", "echo " + "x" * 1_000_000, "fail", "silent", "fib 18", "task fails", "task is forgiven", "task writes", "large argument", "loop 1000", "seven", "give up", "what"]),
            ("cxx", ["", "\r\n", "throw", "throw int", "fail", "fib", "closures", "flood", "flood of a job", "loops", "give up"]),
            ("pricing", ["100 105 0.02 0.25 1.5 100000", "100 105 0.02 -1 1.5 1000"]),
        ):
            with self.subTest(handler):
                rows = self.run_jobs(handler, *payloads)
                self.assertEqual(rows, self.run_jobs("here-" + handler, *payloads))
                self.assertGreaterEqual({status for status, _ in rows}, {"ok", "error"})

    def test_a_job_knows_index_and_batch(self):
        self.begin(h=self.isolated(TEST_PLUGINS / "in_c.so"))
        rows = self.rows("h", "describe", "describe", options=("ID", "mine"))
        self.assertEqual([row[2] for row in rows], ["h 0 1 mine  ", "h 1 1 mine  "])

    def test_a_crash_is_one_jobs_and_the_rest_goes_on(self):
        self.begin(h=self.isolated(TEST_PLUGINS / "in_c.so", concurrency=2))
        # Many before: by then a process has many jobs at a time.
        many = 3000
        payloads = ["pid", *["echo a"] * many, "crash", "echo b", "exit 3", *["echo c"] * 200]
        rows = self.rows("h", *payloads)
        ends = {index: (status, output) for index, status, output in rows}
        self.assertEqual(ends.pop(many + 1), ("crashed", "the worker was killed by signal 6 (Aborted)"))
        self.assertEqual(ends.pop(many + 3), ("crashed", "the worker ended with exit status 3"))
        before = ends.pop(0)
        self.assertEqual(ends, {i: ("ok", payload[5:]) for i, payload in enumerate(payloads) if i in ends})
        self.assertEqual(len(rows), len(payloads))
        self.assertNotEqual(int(before[1]), self.daemon.pid)
        self.assertEqual(self.daemon.metrics()['locksley_jobs_total{handler="h",status="crashed"}'], 2)
        self.assertIsNone(self.daemon.process.poll())

    def test_a_time_limit_and_a_cancellation_end_the_process(self):
        # SIGTERM does it: nobody would wait for the other.
        settings = {"plugin": TEST_PLUGINS / "in_c.so", "grace": "5m"}
        self.begin(h=self.isolated(**settings), limited=self.isolated(**settings, timeout="50ms"))
        # With room for a process to start: what is behind the limit must not run into it.
        ends = lambda ms: [row[1] for row in self.rows("h", "echo a", "linger", "echo b", options=("TIMEOUT", ms))]
        with_growing_limits(lambda ms, _: ends(ms) == ["ok", "timeout", "ok"])
        self.assertEqual([row[1] for row in self.rows("limited", "linger")], ["timeout"])
        ended = lambda: cancel_when_it_runs(self.command, "h", "linger")
        self.assertEqual(wait_for("a cancellation that reaches the job", ended), [["cancelled", "cancelled"]])

    def test_what_it_prints_is_logged_and_its_input_is_empty(self):
        self.begin(h=self.isolated(TEST_PLUGINS / "in_c.so"))
        self.assertEqual(self.run_jobs("h", "print 42", "echo x"), [["ok", "nothing to read"], ["ok", "x"]])
        self.daemon.wait_for_log("printed: print 42")

    def test_a_process_is_replaced_after_its_number_of_jobs(self):
        self.begin(h=self.isolated(TEST_PLUGINS / "in_c.so", max_jobs=2))
        pids = [output for _, output in self.run_jobs("h", *["pid"] * 6)]
        self.assertEqual((len(set(pids)), pids[0] == pids[1], pids[1] == pids[2]), (3, True, False), pids)

    def test_it_is_torn_down_when_the_daemon_ends(self):
        with tempfile.TemporaryDirectory() as here:
            seen = pathlib.Path(here, "torn-down")
            self.begin(h=self.isolated(TEST_PLUGINS / "in_c.so", environment=[f"LOCKSLEY_TEST_TEARDOWN={seen}"]))
            self.assertEqual(seen.read_text(), "h\n", "by the process that tried it out")
            self.assertEqual(self.run_jobs("h", "echo x"), [["ok", "x"]])
            self.daemon.send_signal(signal.SIGTERM)
            self.assertEqual(self.daemon.wait_end(), 0)
            self.assertEqual(seen.read_text(), "h\nh\n")

    def test_it_works_where_it_is_told_to(self):
        with tempfile.TemporaryDirectory() as here:
            relative = os.path.relpath(TEST_PLUGINS / "in_c.so")
            self.begin(h=self.isolated(relative, directory=here))
            (_, pid), = self.run_jobs("h", "pid")
            self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), os.path.realpath(here))


class Refusals(unittest.TestCase):
    """What cannot be loaded: the daemon ends before it is ready."""

    SETTINGS = ""  # of the handler, beside the plugin

    def start_with(self, plugin, handler="pricing"):
        with tempfile.TemporaryDirectory() as here:
            config = pathlib.Path(here, "locksley.yaml")
            config.write_text(
                f"listen: {{port: 0}}\nhttp: {{port: 0}}\nstore: {{path: ''}}\nhandlers: {{{handler}: {{plugin: {plugin}{self.SETTINGS}}}}}\n"
            )
            done = subprocess.run(
                [os.path.abspath(program("LOCKSLEYD")), "--config", config], capture_output=True, text=True, timeout=60, cwd=here, preexec_fn=end_with_parent
            )
        self.assertEqual((done.returncode, done.stdout), (CONFIG_ERROR, ""), done.stderr)
        return done.stderr

    def test_each_fault_is_named_with_handler_and_file(self):
        for fault, sentence in (
            ("other_version", "it was built for version 2 of the plugin ABI, and this program has version 1: build it again"),
            ("no_entry", "exports no function locksley_plugin_entry"),
            ("init_fails", "its init failed: there is no market today"),
            ("unresolved", "undefined symbol: a_function_that_is_nowhere"),
        ):
            with self.subTest(fault):
                path = TEST_PLUGINS / f"{fault}.so"
                said = self.start_with(path)
                self.assertIn(f"handlers.pricing.plugin: {path}: ", said)
                self.assertIn(sentence, said)

    def test_a_file_that_is_missing_or_no_object(self):
        self.assertIn("handlers.pricing.plugin: ./libpricing.so: there is no file /", self.start_with("./libpricing.so"))
        self.assertIn("cannot be loaded: ", self.start_with(ROOT / "README.md"))

    def test_the_name_of_a_handler_that_is_built_in(self):
        self.assertIn("handlers.echo: ", self.start_with(pricing, handler="echo"))


class IsolatedRefusals(Refusals):
    """The same sentences, by way of the process that tried it out."""

    SETTINGS = ", isolate: true"

    def test_a_crash_at_the_start(self):
        path = TEST_PLUGINS / "init_crashes.so"
        said = self.start_with(path)
        self.assertIn(f"handlers.pricing.plugin: {path}: the process that checks it ended without a result: killed by signal 6", said)

    def test_all_that_is_wrong_is_said_at_once(self):
        said = self.start_with(f"{TEST_PLUGINS}/init_fails.so, isolate: true}}, other: {{plugin: /nowhere.so}}, third: {{plugin: /nowhere/either.so")
        self.assertIn("handlers.pricing.plugin: ", said)
        self.assertIn("handlers.other.plugin: /nowhere.so: there is no such file", said)
        self.assertIn("handlers.third.plugin: /nowhere/either.so: there is no such file", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
