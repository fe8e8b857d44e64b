#!/usr/bin/python3
"""The dashboard in a real browser: what it shows is what the daemon says on the wire, and its buttons do what they say. Screenshots are left in
build/artifacts/dashboard/."""

import base64
import pathlib
import re
import signal
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from dashboard_page import FACTS, HIDE, PHONE, TILES, DashboardTest, number
from held_port import hold_port
from locksley_daemon import wait_for
from resp import pairs
from users import ALL, BUILTIN, PASSWORD

BUSY = "() => [...document.querySelectorAll('svg.workers .busy')].map((bar) => Number(bar.getAttribute('height')))"
HOSTILE = "<img src=x onerror=alert(1)>"
AWKWARD = "a/b%2F?tenant=x#&+\"'"  # an id


class Shown(DashboardTest):
    """A daemon with something of everything, at rest but for two processes that sleep."""

    @classmethod
    def settings(cls):
        return {"http": {"login": "users"}, "handlers": {"nap": {"command": ["sleep", "3600"], "concurrency": 2}}}

    def setUp(self):
        super().setUp()
        self.daemon = self.start_with(
            self.settings(),
            anna={"weight": 3, "commands": ["submit", "read", "control"], "handlers": ["nap", *BUILTIN["handlers"]]},
            bob={"commands": ["submit", "read"]},
            root={"commands": ALL, "handlers": ["nap", *BUILTIN["handlers"]]},
        )
        self.anna, self.bob, self.root = (self.log_in(self.daemon, name) for name in ("anna", "bob", "root"))
        self.anna("SUBMIT", "spin", "ID", "big", "NAME", "nightly spin", "WEIGHT", 7, "RANGE", 0, 10_000_000, "100")
        self.anna("SUBMIT", "fail", "ID", "broken", "RETRIES", 0, "JOBS", "no space left on device", HOSTILE)
        self.anna("SUBMIT", "nap", "ID", "naps", "RANGE", 0, 5)
        self.bob("SUBMIT", "echo", "ID", AWKWARD, "NAME", HOSTILE, "JOBS", "a", "b", "c")
        self.bob("SUBMIT", "echo", "ID", "later", "DELAY", 3_600_000, "JOBS", "x")
        self.anna.wait("broken")
        self.bob.wait(AWKWARD)
        wait_for("some of the large batch to be done", lambda: self.anna.status("big")["ok"] > 100)
        self.anna("PAUSE", "big")
        processes = lambda: {row["name"]: row["processes"] for row in map(pairs, self.root("HANDLERS"))}
        wait_for("the workers to rest, and both processes to run", lambda: self.anna.status("big")["running"] == 0 and processes()["nap"] == 2)

    def listed(self, connection, *options):
        return {(row["tenant"], row["id"]): row for row in connection.listed(*options)}

    def rows(self, page):
        """What the list of batches shows, in the words of STATUS."""
        found = {}
        for row in self.table(page, "Batches"):
            name, _, id = row["Batch"][0].partition("\n")
            jobs = re.fullmatch(r"\S+ of (\S+) jobs have ended: (\S+) ok, (\S+) failed, (\S+) cancelled; (\S+) running, (\S+) queued", row["Progress"][1])
            numbers = dict(zip(("jobs", "ok", "failed", "cancelled", "running", "queued"), (int(text.replace(",", "")) for text in jobs.groups())))
            self.assertEqual(number(row["Failed"]), numbers["failed"])
            found[(row["Tenant"][0], id or name)] = {"id": id or name, "name": name if id else "", "tenant": row["Tenant"][0], "handler": row["Handler"][0], "weight": int(row["Weight"][0]), **numbers, "state": row["State"][0].partition("\n")[0]}
        return found

    def said(self, connection, *options):
        """The same, by LIST and EXPLAIN."""
        keys = ("id", "name", "tenant", "handler", "weight", "jobs", "ok", "failed", "cancelled", "running", "queued", "state")
        result = {}
        for key, row in self.listed(connection, *options).items():
            paused = connection.explain(row["id"])["reason"] == "paused"
            result[key] = {name: row[name] for name in keys} | ({"state": "paused"} if paused else {})
        return result

    def test_batches_are_those_of_the_daemon(self):
        page = self.open(self.daemon, "#/batches", "root")
        self.shows("the list of batches", lambda: self.rows(page), lambda: self.said(self.root))
        self.assertIn(HOSTILE, page.text("main"))
        self.assertEqual(page.run("() => document.querySelectorAll('main img').length"), 0)
        self.picture(page, "batches-light")
        # Why does it wait?
        page.click("[aria-label='Why? later']")
        page.wait_for_text("tr.why", "It was submitted with a delay")
        page("setViewportSize", PHONE["viewport"])
        self.assert_fits(page)
        self.assert_accessible(page)
        self.picture(page, "batches-phone")
        # Whatever its id looks like, there is a way to its page.
        page.click("td.name a >> text=<img")
        page.wait_for_text(".tally", "3")
        self.assertEqual((page.text("h1"), page.text(".subtitle")), (HOSTILE, f"{AWKWARD} · handler echo · tenant bob"))

    def test_filters_find_what_list_finds(self):
        page = self.open(self.daemon, "#/batches", "root")
        page.wait_for("the rows", "table.batches tbody tr >> nth=0")
        page.at("#filter-match")("fill", "nightly")
        self.shows("those that match", lambda: self.rows(page), lambda: self.said(self.root, "MATCH", "*nightly*"))
        self.assertIn("match=nightly", page.run("() => location.hash"))
        page.at("#filter-match")("fill", "")
        page.at("#filter-state")("selectOption", "done")
        self.shows("those in a state", lambda: self.rows(page), lambda: self.said(self.root, "STATE", "done"))
        page.at("#filter-state")("selectOption", "failed")
        self.shows("those with failures", lambda: list(self.rows(page)), lambda: [("anna", "broken")])
        page.at("#filter-state")("selectOption", "active")
        page.at("#filter-tenant")("fill", "bob")
        self.shows("those of one tenant that are not over", lambda: list(self.rows(page)), lambda: [("bob", "later")])
        # The address alone says what is looked for.
        page("reload")
        self.shows("the same after a reload", lambda: list(self.rows(page)), lambda: [("bob", "later")])
        page("goto", f"{self.daemon.http}/#/batches?handler=nap")
        self.shows("those of one handler", lambda: list(self.rows(page)), lambda: [("anna", "naps")])
        self.assertEqual(page.at("#filter-handler")("inputValue"), "nap")

    def test_the_overview_is_what_the_daemon_says(self):
        page = self.open(self.daemon, "", "root")
        page.click("summary")
        wire = ("weight", "queued", "running", "batches")
        shown = lambda: {row["Tenant"][0]: {name: number(row[name.title()]) for name in wire} for row in self.table(page, "Tenants")}
        self.shows("the tenants", shown, lambda: {row["tenant"]: {name: row[name] for name in wire} for row in map(pairs, self.root("TENANTS"))})
        share = lambda row: re.fullmatch(r"due (\S+)\s+got (\S+)", row["Share: due, received"][0]).groups()
        percent = lambda value: "<1%" if 0 < float(value) < 0.01 else ">99%" if 0.99 < float(value) < 1 else f"{int(float(value) * 100 + 0.5)}%"
        self.shows("their shares", lambda: {row["Tenant"][0]: share(row) for row in self.table(page, "Tenants")}, lambda: {row["tenant"]: (percent(row["share"]), percent(row["received"])) for row in map(pairs, self.root("TENANTS"))})
        columns = {"In its queue": "queue_depth", "Executed": "executed", "Steals": "steals", "Stolen by it": "stolen", "Parked": "parks"}
        shown = lambda: [{"worker": number(row["Worker"])} | {key: number(row[title]) for title, key in columns.items()} for row in self.table(page, "Workers")]
        self.shows("the workers", shown, lambda: [{key: row[key] for key in ("worker", *columns.values())} for row in map(pairs, self.root("WORKERS"))])
        self.assertEqual(page.at("svg.workers .worker")("count"), 2)
        lane = lambda metrics, name: tuple(int(metrics[f'locksley_lane_{what}{{lane="{name}"}}']) for what in ("running_jobs", "slots", "queued_jobs", "active_batches"))
        shown = lambda: {row["Lane"][0]: (*map(int, row["Slots in use"][0].split(" of ")), number(row["Queued"]), number(row["Batches"])) for row in self.table(page, "Lanes")}
        self.shows("the lanes", shown, lambda: {name: lane(self.metrics(), name) for name in ("cpu", "processes")})
        self.assertEqual(shown()["processes"][:3], (2, 2, 3))
        shown = lambda: {row["Handler"][0]: (number(row["Ok"]), number(row["Failed"])) for row in self.table(page, "Handlers") if row["Handler"][0] in ("spin", "fail", "echo")}
        statuses = lambda: {row["handler"]: (row["ok"], row["failed"]) for row in self.listed(self.root).values() if row["ok"] + row["failed"]}
        self.shows("the handlers", shown, statuses)
        self.assertEqual([row["Processes"] for row in self.table(page, "Handlers") if row["Handler"][0] == "nap"][0][0].split(), ["2", "Restart"])
        page.click("button:visible >> text=Restart")
        page.wait_for_text("#said", "nap: 2 processes are replaced, each after its jobs.")
        tiles = lambda: {name: int(text.replace(",", "")) for name, text in page.run(TILES).items() if name in ("Queued jobs", "Active batches")}
        unfinished = lambda: sum(row["jobs"] - row["ok"] - row["failed"] - row["cancelled"] for row in self.listed(self.root).values())
        self.shows("the totals", tiles, lambda: {"Queued jobs": unfinished(), "Active batches": sum(not row["finished_at"] for row in self.listed(self.root).values())})

    def metrics(self):
        login = base64.b64encode(f"root:{PASSWORD.format('root')}".encode()).decode()
        request = urllib.request.Request(self.daemon.http + "/metrics", headers={"Authorization": f"Basic {login}"})
        with urllib.request.urlopen(request, timeout=20) as reply:
            text = reply.read().decode()
        return {key: float(value) for key, value in (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")}

    def test_one_batch_is_as_status_and_explain_have_it(self):
        page = self.open(self.daemon, "#/batches/broken?tenant=anna", "anna")
        tally = {"Jobs": "jobs", "Ok": "ok", "Failed": "failed", "Cancelled": "cancelled", "Running": "running", "Queued": "queued", "Retried": "retried"}
        shown = lambda: {tally[name]: int(text.replace(",", "")) for name, text in page.run(FACTS, ".tally").items()}
        of = lambda batch: lambda: {key: self.anna.status(batch)[key] for key in tally.values()}
        self.shows("its numbers", shown, of("broken"))
        rows = lambda: sorted((int(row["Job"][0]), row["Ended"][0], row["Error"][0]) for row in self.table(page, "Failed jobs"))
        self.shows("its failed jobs", rows, lambda: sorted(tuple(row) for row in self.anna.results("broken")))
        self.shows("its life", lambda: page.at(".timeline .what")("allInnerTexts")[:3], lambda: ["Submitted", "Its first job started", "Ended"])
        times = page.run("() => [...document.querySelectorAll('.timeline time')].map((one) => Date.parse(one.dateTime))")
        self.assertEqual(times[:3], [self.anna.status("broken")[key] for key in ("submitted_at", "started_at", "finished_at")])
        self.picture(page, "failures-light")
        page.click("nav.main >> text=Batches")
        page.click("text=nightly spin")
        self.shows("the numbers of another", shown, of("big"))
        page.wait_for_text(".explanation", "It is paused: no job starts until it is resumed.")
        self.assertEqual(page.text("h1"), "nightly spin")
        page("goto", f"{self.daemon.http}/#/batches/nosuch?tenant=anna")
        page.wait_for_text("main", "There is no such batch, or it has been evicted: NOBATCH")
        self.assert_calm(page, self.daemon, ["404"])

    def test_buttons_do_what_they_say(self):
        page = self.open(self.daemon, "#/batches/big?tenant=anna", "anna")
        page.click("button >> text=Resume")
        page.wait_for_text("#said", "Resumed.")
        self.assertNotEqual(self.anna.explain("big")["reason"], "paused")
        # By the keyboard alone.
        page.wait_for("the other button", "button >> text=Pause")
        page.at("button >> text=Pause")("press", "Enter")
        page.wait_for_text("#said", "Paused")
        wait_for("what ran to end", lambda: self.anna.explain("big")["reason"] == "paused")
        page.at("#weight")("fill", "42")
        page.click("text=Set weight")
        page.wait_for_text("#said", "Its weight is now 42.")
        self.assertEqual(self.anna.status("big")["weight"], 42)
        self.picture(page, "batch-light")
        page("setViewportSize", PHONE["viewport"])
        self.assert_fits(page)
        # The way back is open until the question is answered.
        page.click(".actions button >> text=Cancel")
        self.assertRegex(page.text("dialog[open]"), r"Cancel the batch nightly spin\? [\d.,]+( [kM])? jobs will not run")
        page.at("dialog")("press", "Escape")
        page.at("dialog")("waitFor", {"state": "detached"})
        self.assertEqual(self.anna.status("big")["cancelled"], 0)
        page.click(".actions button >> text=Cancel")
        page.click("dialog[open] button >> text=Keep it")
        self.assertEqual(self.anna.status("big")["cancelled"], 0)
        page.click(".actions button >> text=Cancel")
        left = self.anna.status("big")["queued"]
        page.click("dialog[open] button.danger")
        page.wait_for_text("#said", "will not run.")
        status = self.anna.status("big")
        self.assertEqual((status["state"], status["cancelled"]), ("cancelled", left))
        page.wait_for_text(".headline", "cancelled")
        self.assertEqual(page.at(".actions button:visible")("count"), 0)
        page("goto", f"{self.daemon.http}/#/batches/broken?tenant=anna")
        page.click("text=Retry failed jobs")
        page.wait_for_text("#said", "2 jobs queued again.")
        self.assertEqual(self.anna.wait("broken")["retried"], 2)

    def test_jobs_are_not_retried_twice(self):
        """The page does not know yet that the batch was retried, as where the reply of its own request was lost."""
        page = self.open(self.daemon, "#/batches/broken?tenant=anna", "anna")
        page.wait_for("its buttons", "text=Retry failed jobs")
        page.run(HIDE, True)  # so that it does not notice
        self.assertEqual(self.anna("RETRY", "broken"), 2)
        self.assertEqual(self.anna.wait("broken")["retried"], 2)
        page.click("text=Retry failed jobs")
        page.wait_for_text("#said", "Nothing was queued again: the batch has been retried meanwhile.")
        self.assertEqual(self.anna.status("broken")["retry_rounds"], 1)
        page.run(HIDE, False)
        self.assert_calm(page, self.daemon)

    def test_a_refused_action_is_said(self):
        page = self.open(self.daemon, "#/batches/big?tenant=anna", "anna")
        page.wait_for("its buttons", "button >> text=Resume")
        page.run(HIDE, True)  # so that it does not notice
        self.anna("CANCEL", "big")
        self.anna.wait("big")
        self.assertEqual(self.anna("FORGET", "big"), 1)
        page.click("button >> text=Resume")
        page.wait_for_text("#said", "Not done: NOBATCH")
        page.run(HIDE, False)
        page.wait_for_text("main", "There is no such batch")
        self.assert_calm(page, self.daemon, ["404"])

    def test_who_may_not_control_finds_no_buttons_and_is_refused(self):
        page = self.open(self.daemon, "#/batches/later?tenant=bob", "bob")
        page.wait_for_text(".explanation", "delay")
        self.assertEqual(page.at(".actions")("count"), 0)
        post = """([path, fields]) => fetch(path, {method: 'POST', headers: {'Content-Type': 'application/json', ...fields}, body: '{}'}).then((reply) => reply.status)"""
        for what in ("pause", "resume", "cancel", "retry"):
            self.assertEqual(page.run(post, [f"/api/batches/later/{what}", {"X-Locksley-Request": "1"}]), 403)
        self.assertEqual(self.bob.explain("later")["reason"], "delayed")
        self.assert_calm(page, self.daemon, ["403"])
        # anna may, but not without the field that no form can send.
        page = self.open(self.daemon, "#/batches/big?tenant=anna", "anna")
        self.assertEqual(page.run(post, ["/api/batches/big/cancel", {}]), 403)
        self.assertEqual(self.anna.status("big")["cancelled"], 0)
        self.assert_calm(page, self.daemon, ["403"])

    def test_what_belongs_to_others_is_not_shown(self):
        page = self.open(self.daemon, "#/batches", "bob")
        self.shows("bob's batches", lambda: sorted(row["Batch"][0].split("\n")[-1] for row in self.table(page, "Batches")), lambda: sorted([AWKWARD, "later"]))
        self.assertFalse(page.at("#filter-tenant")("isVisible"))
        page("goto", f"{self.daemon.http}/#/batches/big?tenant=anna")
        page.wait_for_text("main", "There is no such batch")
        page.click("nav.main >> text=Overview")
        self.shows("bob's numbers", lambda: [row["Tenant"][0] for row in self.table(page, "Tenants")], lambda: ["bob"])
        self.assertNotIn("anna", page.text("body"))
        self.assert_calm(page, self.daemon, ["404"])


class Alive(DashboardTest):
    """Daemons without users."""

    def test_workers_are_busy_and_steal(self):
        daemon = self.start()
        connection = self.connect(daemon)
        # One job at a time, of which the other worker takes what it can.
        connection("SUBMIT", "fib", "ID", "tree", "NAME", "a tree of sub-jobs", "SLOTS", 1, "RANGE", 0, 10_000_000, "29")
        connection("SUBMIT", "fail", "NAME", "some that fail", "JOBS", *["disk full"] * 30)
        page = self.open(daemon)
        page.wait_for("an arc of steals", "svg.workers .steal >> nth=0")
        stealing = [pairs(row)["steals"] > 0 for row in connection("WORKERS")]
        self.assertIn(True, stealing)
        pair = "() => document.querySelector('svg.workers .steal')?.dataset.pair ?? null"  # it is there while there are steals
        self.assertIn(wait_for("its thief and victim", lambda: page.run(pair)), ("0>1", "1>0"))
        wait_for("both workers to be shown busy", lambda: all(height > 20 for height in page.run(BUSY)), every=0.2)
        wait_for("the rate of jobs", lambda: re.search(r"[1-9]", page.run(TILES)["Jobs ended"]), every=0.2)
        # They stay busy, for what the page shows, and leave the processors to the browser.
        connection("SUBMIT", "sleep", "RANGE", 0, 10_000_000, "40")
        connection("CANCEL", "tree")
        wait_for("the line of the last seconds", lambda: page.run("() => document.querySelector('.sparkline .line').getAttribute('d').split('L').length") >= 4, every=0.2)
        self.assert_accessible(page)
        self.picture(page, "overview-light")
        page("emulateMedia", {"colorScheme": "dark"})
        self.assert_accessible(page)
        self.picture(page, "overview-dark")
        page("setViewportSize", PHONE["viewport"])
        page.wait_for("the picture to fit", "svg.workers[width]")
        self.assert_fits(page)
        self.picture(page, "overview-phone")

    def test_ids_that_browsers_resolve_in_a_path_have_pages(self):
        daemon = self.start()
        connection = self.connect(daemon)
        for id in (".", ".."):
            connection("SUBMIT", "echo", "ID", id, "NAME", f"named {len(id)}", "JOBS", "a")
            connection.wait(id)
        page = self.open(daemon, "#/batches")
        for id in (".", ".."):
            page.click(f"td.name a >> text=named {len(id)}")
            page.wait_for_text(".subtitle", f"{id} · handler echo")
            page.wait_for_text(".tally", "1")
            page.run("() => { location.hash = '#/batches'; }")
        self.assert_calm(page, daemon)

    def test_128_workers_fit_a_phone(self):
        daemon = self.start({"pool": {"workers": 128}})
        connection = self.connect(daemon)
        connection("SUBMIT", "sleep", "RANGE", 0, 10_000_000, "40")  # busy, for what the pool knows
        page = self.open(daemon, **PHONE, colorScheme="dark")
        page.wait_for("the workers", "svg.workers .worker >> nth=127")
        wait_for("all of them to be shown busy", lambda: all(height > 20 for height in page.run(BUSY)), every=0.2)
        self.assert_fits(page)
        wide = page.run("() => { const all = [...document.querySelectorAll('svg.workers .track')].map((bar) => bar.getBoundingClientRect()); return [Math.min(...all.map((one) => one.width)), Math.max(...all.map((one) => one.right))]; }")
        self.assertGreater(wide[0], 2)
        self.assertLess(wide[1], 360)
        self.picture(page, "overview-128-phone")
        page("setViewportSize", {"width": 1280, "height": 900})
        self.picture(page, "overview-128-dark")
        self.assertEqual(len(connection("WORKERS")), 128)

    def test_numbers_and_times_as_people_read_them(self):
        page = self.open(self.start())
        read = lambda name, *values: page.run("async ([name, values]) => { const format = await import('/format.js'); return values.map((value) => format[name](...value)); }", [name, [value if isinstance(value, tuple) else (value,) for value in values]])
        self.assertEqual(read("count", 0, 9999, 10_000, 12_345, 999_499, 999_500, 1_234_567, 3e9, None), ["0", "9,999", "10 k", "12.3 k", "999 k", "1 M", "1.23 M", "3 G", "–"])
        self.assertEqual(read("bytes", 0, 1023, 1024, 1536, 5_000_000, 8 << 30), ["0 B", "1023 B", "1 KiB", "1.5 KiB", "4.77 MiB", "8 GiB"])
        self.assertEqual(read("rate", 0, 0.001, 0.5, 12.34, 99.9, 12_345.6), ["0/s", "3.6/h", "0.5/s", "12.3/s", "100/s", "12.3 k/s"])
        self.assertEqual(read("percent", 0, 0.001, 0.5, 0.995, 1), ["0%", "<1%", "50%", ">99%", "100%"])
        self.assertEqual(read("duration", 0, 0.0004, 0.42, 12, 59.7, 200, 7200, 90_061), ["0 ms", "0.4 ms", "0.4 s", "12 s", "1 min", "3 min 20 s", "2 h", "1 d 1 h"])
        self.assertEqual(read("duration", 2e-6, 4.25e-5, 0.0001), ["2 us", "42.5 us", "0.1 ms"])
        now = 1_700_000_000_000
        self.assertEqual(read("ago", *((now - before, now) for before in (300, 12_000, 200_000, 86_400_000, -7_200_000)), (0, now)), ["now", "12 s ago", "3 min ago", "1 d ago", "in 2 h", "–"])
        self.assertEqual(read("ago", *((now + after, now) for after in (5_400, 7_190_000, 7_199_900))), ["in 5 s", "in 1 h 59 min", "in 2 h"])

    def test_a_caller_who_is_refused_sees_why_and_no_cards(self):
        page = self.browser.open(self.start_with(anna={}).http)
        self.addCleanup(page.close)
        page.wait_for_text("#trouble-text", "http.login is none, so no client can log in here: set http.login: users")
        self.assertFalse(page.at("#view")("isVisible"))

    def test_older_batches_are_on_other_pages(self):
        daemon = self.start()
        connection = self.connect(daemon)
        for i in range(120):
            connection("SUBMIT", "echo", "ID", f"batch-{i:03}", "JOBS", "x")
        page = self.open(daemon, "#/batches")
        shown = lambda: [row["Batch"][0] for row in self.table(page, "Batches")]
        newest = [f"batch-{i:03}" for i in range(119, -1, -1)]
        for button, expected in ((None, newest[:50]), ("Older", newest[50:100]), ("Older", newest[100:]), ("Newer", newest[50:100]), ("Newest", newest[:50])):
            if button:
                page.click(f".pages >> text='{button}'")
            self.shows("a page of the list", shown, lambda: expected)

    def test_nothing_is_asked_while_nobody_looks(self):
        daemon = self.start()
        page = self.open(daemon)
        page.wait_for("the workers", "svg.workers .worker >> nth=1")
        page.run(HIDE, True)
        page.seen()
        other = self.open(daemon)  # which polls meanwhile
        polled = lambda: sum("/api/overview" in address for address in other.seen()["requests"])
        count = 0

        def three():
            nonlocal count
            count += polled()
            return count >= 3

        wait_for("another page to ask three times", three, every=0.1)
        self.assertEqual(page.seen()["requests"], [])
        page.run(HIDE, False)
        wait_for("it to ask again", lambda: page.seen()["requests"], every=0.1)

    def test_a_daemon_that_goes_and_comes_back(self):
        settings = {"http": {"port": hold_port(self)}}
        daemon = self.start(settings)
        self.connect(daemon)("SUBMIT", "echo", "ID", "before", "JOBS", "x")
        page = self.open(daemon)
        page.wait_for_text("#state", "serving")
        daemon.send_signal(signal.SIGTERM)
        daemon.wait_end()
        page.wait_for_text("#trouble", "The daemon does not answer.")
        self.assertEqual(page.text("#state"), "no answer")
        self.picture(page, "no-answer-light")
        daemon = self.start(settings)
        connection = self.connect(daemon)
        connection("SUBMIT", "echo", "ID", "after", "JOBS", "x", "y")
        page.wait_for_text("#state", "serving")
        self.assertFalse(page.at("#trouble")("isVisible"))
        page.click("nav.main >> text=Batches")
        self.shows("the batches of now", lambda: [row["Batch"][0] for row in self.table(page, "Batches")], lambda: ["after"])
        self.assert_calm(page, daemon, ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_SOCKET_NOT_CONNECTED"])


if __name__ == "__main__":
    unittest.main()
