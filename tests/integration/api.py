#!/usr/bin/python3
"""The JSON under /api/ (daemon/http/API.md): it says what the wire says, to whom the wire would say it, and changes what the wire would change."""

import base64
import http.client
import json
import pathlib
import socket
import sys
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, wait_for
from resp import pairs
from scratch import scratch
from store_daemon import HOUR_MS
from users import ALL, BUILTIN, PASSWORD, UsersTest

OURS = {"Content-Type": "application/json", "X-Locksley-Request": "1"}
TOKEN = "0123456789abcdef0123456789abcdef"


def ask(daemon, method, path, body=None, headers=None, user=None):
    """Status, JSON (or text, where it is none), fields."""
    connection = http.client.HTTPConnection(daemon.http.removeprefix("http://"), timeout=DEADLINE_S)
    fields = dict(headers or {})
    if user is not None:
        fields["Authorization"] = f"Bearer {TOKEN}" if user == "token" else "Basic " + base64.b64encode(f"{user}:{PASSWORD.format(user)}".encode()).decode()
    try:
        connection.request(method, path, body=body, headers=fields)
        reply = connection.getresponse()
        text = reply.read().decode()
        found = {name.lower(): ", ".join(reply.headers.get_all(name)) for name in reply.headers}
        return reply.status, json.loads(text) if found["content-type"] == "application/json" and text else text, found
    finally:
        connection.close()


def get(daemon, path, user=None, **parameters):
    query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
    status, reply, _ = ask(daemon, "GET", path + query, user=user)
    if status != 200:
        raise AssertionError(f"{path}{query}: {status} {reply}")
    return reply


def post(daemon, id_, action, body="{}", user=None, headers=None, query=""):
    path = f"/api/batches/{urllib.parse.quote(id_, safe='')}/{action}{query}"
    return ask(daemon, "POST", path, body=body, headers=OURS | (headers or {}), user=user)[:2]


def pages(daemon, path, member, **parameters):
    """All of a list, page by page."""
    found, cursor = [], None
    for _ in range(10_000):
        page = get(daemon, path, **parameters, **({"cursor": cursor} if cursor else {}))
        found += page[member]
        cursor = page["cursor"]
        if cursor is None:
            return found
    raise AssertionError(f"{path} has no end")


def parts(row, like):
    return {name: row[name] for name in like}


class SaysWhatTheWireSays(UsersTest):
    def setUp(self):
        self.daemon = self.start({"handlers": {"lines": {"command": ["wc", "-l"], "concurrency": 1}}})
        self.wire = self.connect(self.daemon)

    def test_one_batch(self):
        for id_ in (
            self.wire("SUBMIT", "echo", "NAME", "ä <&\"'>", "WEIGHT", 7, "JOBS", "a", "b"),
            self.wire("SUBMIT", "fail", "ID", "a/b?%+&", "JOBS", "a", "b"),
            self.wire("SUBMIT", "echo", "DELAY", HOUR_MS, "JOBS", "a"), *(self.wire("SUBMIT", "echo", "ID", dots, "JOBS", "a") for dots in (".", "..", "..;")),
        ):
            if not self.wire.explain(id_)["reason"] == "delayed":
                self.wire.wait(id_)
            row = get(self.daemon, "/api/batches/" + (f"{id_};" if id_ in (".", "..") else urllib.parse.quote(id_, safe="")))
            status, explained = self.wire.status(id_), self.wire.explain(id_)
            status["name"] = status["name"].encode("latin-1").decode()
            self.assertEqual(parts(row, status), status)
            explained.pop("eta_ms")  # that of a delayed batch runs down
            self.assertEqual(explained.pop("paused"), 0)
            self.assertEqual({name: str(value) for name, value in parts(row, explained).items()}, {name: str(value) for name, value in explained.items()} | {
                name: str(float(explained[name])) for name in ("share", "received", "jobs_per_second")})  # fmt: skip
            self.assertEqual((row["lane"], row["paused"], row["after"]), ("cpu", False, []))

    def test_lists_page_by_page(self):
        ids = [self.wire("SUBMIT", "echo" if i % 3 else "fail", "NAME", f"n{i % 2}", "JOBS", "x") for i in range(60)]
        paused = self.wire("SUBMIT", "spin", "DELAY", HOUR_MS, "JOBS", "1")
        for id_ in ids:
            self.wire.wait(id_)
        listed = lambda **parameters: [row["id"] for row in pages(self.daemon, "/api/batches", "batches", **parameters)]
        wire = lambda *options: [row["id"] for row in self.wire.listed(*options)]
        for count in (1, 7, 200):
            self.assertEqual(listed(count=count), wire())
        self.assertEqual(listed(), [paused, *ids[::-1]])
        for state in ("open", "queued", "running", "done", "cancelled"):
            self.assertEqual(listed(state=state), wire("STATE", state))
        self.assertEqual(listed(state="active"), [paused])
        self.assertEqual(listed(state="failed"), [id_ for i, id_ in enumerate(ids) if i % 3 == 0][::-1])
        self.assertEqual(listed(handler="fail"), listed(state="failed"))
        self.assertEqual(listed(match="n1", count=3), wire("MATCH", "n1"))
        self.assertEqual(listed(match=ids[5]), [ids[5]])
        self.assertEqual((listed(tenant="default"), listed(tenant="nobody")), (listed(), []))
        first = get(self.daemon, "/api/batches", count=1)
        self.assertEqual(parts(first["batches"][0], self.wire.status(paused)), self.wire.status(paused))

    def test_overview(self):
        self.wire.wait(self.wire("SUBMIT", "echo", "RANGE", 0, 1000))
        self.wire("SUBMIT", "echo", "DELAY", HOUR_MS, "JOBS", "x")
        wait_for("the worker of the first to have left it", lambda: [(row["batches"], row["running"]) for row in map(pairs, self.wire("TENANTS"))] == [(1, 0)])
        before = time.time() * 1000
        overview = get(self.daemon, "/api/overview")
        for mine, theirs, changing in (("workers", "WORKERS", {"parks", "steal_attempts", "busy_us", "turn_us"}), ("tenants", "TENANTS", {"received", "share"}), ("nodes", "NODES", {"beat_ms"})):
            wire = [pairs(row) for row in self.wire(theirs)]
            self.assertEqual(len(overview[mine]), len(wire))
            for row, of_wire in zip(overview[mine], wire):
                self.assertEqual(list(row), list(of_wire))
                self.assertEqual({**row, **{name: 0 for name in changing}}, {**of_wire, **{name: 0 for name in changing}})
        for row, of_wire in zip(overview["handlers"], self.wire("HANDLERS"), strict=True):
            self.assertEqual(parts(row, pairs(of_wire)), pairs(of_wire))
        handlers = {row["name"]: row for row in overview["handlers"]}
        self.assertEqual(handlers["echo"]["jobs"], {"ok": 1000, "error": 0, "timeout": 0, "crashed": 0, "cancelled": 0})
        self.assertEqual({row["lane"]: row["slots"] for row in overview["lanes"]}, {"cpu": 2, "processes": 2})
        totals = overview["totals"]
        self.assertEqual((totals["active_batches"], totals["retained_batches"], totals["queued_jobs"], totals["connections"]), (1, 1, 1, 1))
        server = overview["server"]
        self.assertEqual((server["state"], server["store"], server["store_at"], server["tls"]), ("serving", "memory", None, False))
        self.assertLess(server["started_at"], server["now"])
        self.assertLess(abs(server["now"] - before), 60_000)
        self.assertEqual(overview["limits"]["max_queued_jobs"], 100_000_000)
        self.assertIsNone(overview["limits"]["store_max_bytes"])
        accounts = {row["user"]: row for row in overview["accounts"]}
        self.assertEqual(set(accounts), {None, "default"})
        self.assertEqual(accounts[None]["queued_jobs"], {"used": 1, "limit": 100_000_000})
        self.assertEqual(accounts["default"]["queued_jobs"], {"used": 1, "limit": None})
        self.assertGreater(accounts["default"]["result_bytes"]["used"], 1000)
        self.assertEqual(accounts["default"]["result_bytes"]["used"], accounts[None]["result_bytes"]["used"])

    def test_steals_add_up(self):
        def stolen():
            self.wire.wait(self.wire("SUBMIT", "fib", "JOBS", "20"))
            overview = get(self.daemon, "/api/overview")
            return overview if overview["steals"] else None

        overview = wait_for("a worker to steal", stolen)
        for worker in overview["workers"]:
            self.assertEqual(worker["steals"], sum(pair["steals"] for pair in overview["steals"] if pair["thief"] == worker["worker"]))
        self.assertTrue(all(pair["thief"] != pair["victim"] for pair in overview["steals"]))

    def test_failures_page_by_page(self):
        id_ = self.wire("SUBMIT", "sleep", "JOBS", *["x" * 5000 if i % 10 == 0 else "0" for i in range(300)])
        self.wire.wait(id_)
        failed = [row for row in self.wire.results(id_) if row[1] != "ok"]
        self.assertEqual(len(failed), 30)
        for count in (1, 20, 100):
            found = pages(self.daemon, f"/api/batches/{id_}/failures", "failures", count=count)
            self.assertEqual([[row["index"], row["status"], row["output"]] for row in found], [[index, status, output[:1000]] for index, status, output in failed])
            self.assertEqual([row["output_bytes"] for row in found], [len(output) for _, _, output in failed])
        fine = self.wire("SUBMIT", "echo", "JOBS", "x")
        self.assertEqual(get(self.daemon, f"/api/batches/{fine}/failures"), {"cursor": None, "failures": []})

    def test_a_failure_that_is_tried_again_is_shown_once(self):
        id_ = self.wire("SUBMIT", "fail", "JOBS", "a", "b")
        self.wire.wait(id_)
        self.assertEqual(post(self.daemon, id_, "retry"), (200, {"ok": True, "jobs": 2}))
        self.wire.wait(id_)
        self.assertEqual(sorted(row["index"] for row in pages(self.daemon, f"/api/batches/{id_}/failures", "failures")), [0, 1])

    def test_timeline(self):
        first = self.wire("SUBMIT", "spin", "DELAY", HOUR_MS, "JOBS", "1")
        after = self.wire("SUBMIT", "echo", "AFTER", first, "DEADLINE", 2 * HOUR_MS, "JOBS", "1")
        done = self.wire("SUBMIT", "echo", "JOBS", "1")
        self.wire.wait(done)
        read = lambda id_: get(self.daemon, f"/api/batches/{id_}")
        events = lambda id_: [event["event"] for event in read(id_)["timeline"]]
        self.assertEqual(events(first), ["submitted", "starts"])
        self.assertEqual(events(after), ["submitted", "deadline"])
        self.assertEqual(read(after)["after"], [first])
        wait_for("the end to be heard of", lambda: events(done) == ["submitted", "started", "finished", "forgotten"])
        timeline = {event["event"]: event["at"] for event in read(first)["timeline"]}
        self.assertLess(abs(timeline["starts"] - timeline["submitted"] - HOUR_MS), 10_000)

    def test_head_is_get_without_the_body(self):
        status, body, fields = ask(self.daemon, "HEAD", "/api/session")
        self.assertEqual((status, body), (200, ""))
        self.assertGreater(int(fields["content-length"]), 10)

    def test_what_is_wrong(self):
        id_ = self.wire("SUBMIT", "echo", "JOBS", "x")
        for path, code in (
            ("/api/", 404), ("/api/nothing", 404), ("/api/batches/", 400), (f"/api/batches/{id_}/", 404), (f"/api/batches/{id_}/nothing", 404),
            ("/api/batches/nosuch", 404), ("/api/batches/%zz", 400), ("/api/batches/a%", 400), (f"/api/batches/{id_}?x=1", 400),
            (f"/api/batches/{id_}?tenant=nobody", 404), ("/api/batches?count=0", 400), ("/api/batches?count=201", 400), ("/api/batches?state=x", 400),
            ("/api/batches?cursor=-1", 400), ("/api/batches?cursor=1&cursor=1", 400), ("/api/batches?match=" + "a" * 300, 400),
            (f"/api/batches/{id_}/failures?count=101", 400), ("/api/overview?x=1", 400),
        ):  # fmt: skip
            status, reply, _ = ask(self.daemon, "GET", path)
            self.assertEqual((status, list(reply)), (code, ["error"]), path)
        self.assertEqual(ask(self.daemon, "GET", "/api/batches/nosuch")[1]["error"], str(self.wire.ask("STATUS", "nosuch")))

    def test_the_page_and_its_fields(self):
        for path, kind in (("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css"), ("/icon.svg", "image/svg+xml")):
            status, text, fields = ask(self.daemon, "GET", path)
            self.assertEqual((status, fields["content-type"].split(";")[0]), (200, kind))
            self.assertTrue(text)
            again = ask(self.daemon, "GET", path, headers={"If-None-Match": fields["etag"]})
            self.assertEqual(again[:2], (304, ""))
        for path in ("/", "/api/session", "/nothing"):
            fields = ask(self.daemon, "GET", path)[2]
            self.assertIn("default-src 'self'", fields["content-security-policy"])
            self.assertIn("frame-ancestors 'none'", fields["content-security-policy"])
            self.assertEqual(fields["x-content-type-options"], "nosniff")
            self.assertEqual(fields["cache-control"], "private, no-cache" if path == "/" else "no-store")


class Changes(UsersTest):
    def setUp(self):
        self.daemon = self.start()
        self.wire = self.connect(self.daemon)

    def test_each_does_what_the_command_does(self):
        id_ = self.wire("SUBMIT", "sleep", "RANGE", 600_000, 600_010)
        self.assertEqual(post(self.daemon, id_, "pause"), (200, {"ok": True}))
        self.assertTrue(get(self.daemon, f"/api/batches/{id_}")["paused"])
        self.assertEqual(post(self.daemon, id_, "weight", '{"weight": 9}'), (200, {"ok": True}))
        self.assertEqual(self.wire.status(id_)["weight"], 9)
        self.assertEqual(post(self.daemon, id_, "resume", ""), (200, {"ok": True}))
        self.assertFalse(get(self.daemon, f"/api/batches/{id_}")["paused"])
        status, reply = post(self.daemon, id_, "cancel")
        self.assertEqual((status, reply["ok"]), (200, True))
        self.assertEqual(self.wire.wait(id_)["state"], "cancelled")
        self.assertGreaterEqual(reply["jobs"], 8)
        self.assertEqual(post(self.daemon, id_, "cancel"), (200, {"ok": True, "jobs": 0}))
        failed = self.wire("SUBMIT", "fail", "JOBS", "a", "b", "c")
        self.wire.wait(failed)
        self.assertEqual(post(self.daemon, failed, "retry", '{"round": 1}'), (200, {"ok": True, "jobs": 0}))
        self.assertEqual(post(self.daemon, failed, "retry", '{"round": 0}'), (200, {"ok": True, "jobs": 3}))
        self.assertEqual(self.wire.wait(failed)["retried"], 3)
        self.assertRegex(self.daemon.log(), rf'audit user=default peer=\S+ command="HTTP pause" batch={id_} outcome=ok')

    def test_a_handler_is_restarted(self):
        daemon = self.start({"handlers": {"naps": {"command": ["sleep", "1000"]}}})
        wire = self.connect(daemon)
        wire("SUBMIT", "naps", "ID", "runs", "JOBS", "")
        wait_for("its program to run", lambda: [row["name"] for row in map(pairs, wire("HANDLERS")) if row["processes"] == 1] == ["naps"])
        restart = lambda name, body="{}", query="", headers=OURS: ask(daemon, "POST", f"/api/handlers/{name}{query}", body=body, headers=headers)[:2]
        self.assertEqual(restart("naps/restart"), (200, {"ok": True, "processes": 1}))
        for name, code in (("echo", 400), ("nosuch", 404)):
            self.assertEqual(restart(f"{name}/restart"), (code, {"error": str(wire.ask("HANDLER", "RESTART", name))}))
        for wrong, code in (({"body": '{"x": 1}'}, 400), ({"body": "["}, 400), ({"query": "?x=1"}, 400), ({"headers": {}}, 403)):
            self.assertEqual(restart("naps/restart", **wrong)[0], code, wrong)
        self.assertEqual([restart(path)[0] for path in ("/restart", "naps", "naps/stop")], [400, 404, 404])
        self.assertRegex(daemon.log(), r'audit user=default peer=\S+ command="HTTP restart" handler=naps outcome=ok')

    def test_what_is_wrong_changes_nothing(self):
        id_ = self.wire("SUBMIT", "sleep", "DELAY", HOUR_MS, "JOBS", "1")
        for action, body, code in (
            ("weight", "{}", 400), ("weight", '{"weight": 0}', 400), ("weight", '{"weight": 1001}', 400), ("weight", '{"weight": "3"}', 400),
            ("weight", '{"weight": 3.5}', 400), ("weight", '{"weight": 3, "x": 1}', 400), ("weight", "[3]", 400), ("weight", "{", 400),
            ("weight", "[" * 4000, 400), ("pause", '{"x": 1}', 400), ("pause", "null", 400), ("pause", "\0", 400), ("nothing", "{}", 404),
        ):  # fmt: skip
            status, reply = post(self.daemon, id_, action, body)
            self.assertEqual((status, list(reply)), (code, ["error"]), (action, body[:50]))
        self.assertEqual(post(self.daemon, "nosuch", "cancel")[0], 404)
        self.assertEqual(post(self.daemon, id_, "pause", "{}" + " " * 4094)[0], 200)
        self.wire("RESUME", id_)
        self.assertEqual(post(self.daemon, id_, "pause", "{}" + " " * 4095)[0], 413)
        row = get(self.daemon, f"/api/batches/{id_}")
        self.assertEqual((row["weight"], row["paused"], row["state"]), (1, False, "queued"))

    def test_only_pages_of_ours_change_something(self):
        id_ = self.wire("SUBMIT", "sleep", "DELAY", HOUR_MS, "JOBS", "1")
        host = self.daemon.http.removeprefix("http://")
        fine = {**OURS, "Origin": self.daemon.http, "Sec-Fetch-Site": "same-origin"}
        path = f"/api/batches/{id_}/cancel"
        for change, code in (
            ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403), ({"X-Locksley-Request": ""}, 403),
            ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
            ({"Host": "evil.example", "Origin": "http://evil.example"}, 403), ({"Host": f"evil.example:{host.split(':')[1]}", "Origin": ""}, 403),
            ({"Transfer-Encoding": "chunked"}, 501), ({"Content-Length": "2, 2"}, 400),
        ):  # fmt: skip
            self.assertEqual(ask(self.daemon, "POST", path, body=b"{}", headers=fine | change)[0], code, change)
        self.assertEqual(ask(self.daemon, "OPTIONS", path, headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})[0], 405)
        for method in ("PUT", "DELETE", "PATCH"):
            self.assertEqual(ask(self.daemon, method, path, headers=fine)[0], 405)
        self.assertEqual(ask(self.daemon, "GET", path)[0], 404)
        self.assertEqual(ask(self.daemon, "GET", "/api/overview", headers={"Host": "evil.example"})[0], 403)
        self.assertEqual(self.wire.status(id_)["state"], "queued")
        self.assertEqual(ask(self.daemon, "POST", path, body=b"{}", headers=fine)[0], 200)

    def test_garbage_costs_its_connection_alone(self):
        host, port = self.daemon.http.removeprefix("http://").split(":")
        for data in (b"\0" * 5000, b"POST /api/batches/x/cancel HTTP/1.1\r\n\r\n", b"POST /api/batches/x/cancel HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{"):
            with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as client:
                client.sendall(data)
        self.assertEqual(get(self.daemon, "/api/session")["caller"], "anybody")


class Permissions(UsersTest):
    ACTIONS = ("pause", "resume", "cancel", "retry", "weight")

    def start_with_login(self, **named):
        folder = scratch(self, "locksley-api-")
        (folder / "token").write_text(TOKEN)
        (folder / "token").chmod(0o600)
        return self.start_with({"http": {"login": "users", "token_file": str(folder / "token")}}, **named)

    def test_every_user_and_every_change(self):
        """As the wire has it, of the user's own batch and of another's."""
        groups = {"reads": ["read"], "controls": ["control"], "submits": ["submit"], "admins": ["admin"], "all": ALL, "most": ["submit", "read", "control"]}
        daemon = self.start_with_login(owner=BUILTIN, **{name: {"commands": commands, **BUILTIN} for name, commands in groups.items()})
        owner = self.log_in(daemon, "owner")
        theirs = owner("SUBMIT", "sleep", "ID", "theirs", "DELAY", HOUR_MS, "JOBS", "1")
        for user in [*groups, "owner", "token"]:
            for action in self.ACTIONS:
                body = '{"weight": 2}' if action == "weight" else "{}"
                status, reply = post(daemon, theirs, "resume" if action == "cancel" else action, body, user=user)
                if user == "token":
                    expected = 403
                else:
                    with daemon.connect() as wire:
                        wire("AUTH", user, PASSWORD.format(user))
                        said = str(wire.ask(*{"weight": ["WEIGHT", theirs, 2], "cancel": ["RESUME", theirs]}.get(action, [action.upper(), theirs])))
                    expected = {"NOPERM": 403, "NOBATCH": 404}.get(said.split()[0], 200)
                    if expected != 200 and action != "cancel":
                        self.assertEqual(reply["error"], said)
                self.assertEqual(status, expected, (user, action, reply))
            status, reply, _ = ask(daemon, "POST", "/api/handlers/echo/restart", body="{}", headers=OURS, user=user)
            said = "NOPERM the token sees everything and changes nothing" if user == "token" else str(self.log_in(daemon, user).ask("HANDLER", "RESTART", "echo"))
            self.assertEqual((status, reply["error"]), ({"NOPERM": 403, "ERR": 400}[said.split()[0]], said))
        self.assertEqual(post(daemon, theirs, "cancel", user="most")[0], 404)
        self.assertEqual(post(daemon, theirs, "cancel", user="all", query="?tenant=owner")[0], 200)
        self.assertEqual(owner.status(theirs)["state"], "cancelled")

    def test_everybody_sees_what_is_its_own(self):
        daemon = self.start_with_login(alice={"max_batches": 5}, bob={"handlers": ["echo"]}, root={"commands": ["read", "admin"]}, submits={"commands": ["submit"]})
        for name in ("alice", "bob"):
            wire = self.log_in(daemon, name)
            wire("SUBMIT", "echo", "ID", "same", "NAME", f"of {name}", "DELAY", HOUR_MS, "JOBS", "1", "2")
        listed = lambda user, **parameters: [(row["tenant"], row["name"]) for row in get(daemon, "/api/batches", user=user, **parameters)["batches"]]
        self.assertEqual(listed("alice"), [("alice", "of alice")])
        self.assertEqual(listed("alice", tenant="bob"), [])
        for user in ("root", "token"):
            self.assertEqual(listed(user), [("bob", "of bob"), ("alice", "of alice")])
            self.assertEqual(listed(user, tenant="alice"), [("alice", "of alice")])
            for tenant in ("alice", "bob"):
                self.assertEqual(get(daemon, "/api/batches/same", user=user, tenant=tenant)["name"], f"of {tenant}")
        self.assertEqual(ask(daemon, "GET", "/api/batches/same?tenant=bob", user="alice")[0], 404)
        self.assertEqual(ask(daemon, "GET", "/api/batches/same/failures?tenant=bob", user="alice")[0], 404)
        overview = get(daemon, "/api/overview", user="alice")
        self.assertEqual([row["tenant"] for row in overview["tenants"]], ["alice"])
        self.assertEqual((overview["totals"]["active_batches"], overview["totals"]["queued_jobs"], overview["totals"]["retained_batches"]), (1, 2, None))
        self.assertEqual((overview["limits"]["max_batches"], overview["limits"]["max_queued_jobs"]), (5, 50_000_000), "a quota, and half of the limit of all")
        self.assertEqual([row["name"] for row in get(daemon, "/api/overview", user="bob")["handlers"]], ["echo"])
        self.assertEqual(get(daemon, "/api/overview", user="root")["totals"]["queued_jobs"], 4)
        names = {pairs(row)["tenant"] for row in self.log_in(daemon, "root")("TENANTS")}
        self.assertEqual({row["tenant"] for row in get(daemon, "/api/overview", user="root")["tenants"]}, names)
        self.assertEqual({row["tenant"] for row in get(daemon, "/api/overview", user="token")["tenants"]}, names - {"root"})
        for path in ("/api/overview", "/api/batches", "/api/batches/same", "/api/batches/same/failures"):
            status, reply, _ = ask(daemon, "GET", path, user="submits")
            self.assertEqual((status, reply["error"].split()[0]), (403, "NOPERM"), path)

    def test_who_asks(self):
        daemon = self.start_with_login(alice={"commands": ["read"]}, root={"commands": ALL})
        for path in ("/", "/app.js", "/api/session", "/api/overview", "/api/batches/x/cancel"):
            status, _, fields = ask(daemon, "GET", path)
            self.assertEqual(status, 401, path)
            self.assertIn("Basic", fields["www-authenticate"])
        self.assertEqual(post(daemon, "x", "cancel")[0], 401)
        session = lambda user: parts(get(daemon, "/api/session", user=user), ("caller", "user", "may"))
        may = lambda submit, read, control, admin: {"submit": submit, "read": read, "control": control, "admin": admin}
        self.assertEqual(session("alice"), {"caller": "user", "user": "alice", "may": may(False, True, False, False)})
        self.assertEqual(session("root"), {"caller": "user", "user": "root", "may": may(True, True, True, True)})
        self.assertEqual(session("token"), {"caller": "token", "user": None, "may": may(False, True, False, True)})

    def test_users_and_no_login_serve_nobody(self):
        daemon = self.start_with(alice={})
        self.assertEqual(get(daemon, "/api/session")["may"], {"submit": False, "read": False, "control": False, "admin": False})
        for path in ("/api/overview", "/api/batches", "/api/batches/x"):
            status, reply, _ = ask(daemon, "GET", path)
            self.assertEqual((status, reply["error"].split()[0], reply["error"].partition(": ")[2]), (403, "NOAUTH", "set http.login: users"))
        self.assertEqual(post(daemon, "x", "cancel")[0], 403)

    def test_a_handler_that_is_not_allowed_is_not_retried(self):
        daemon = self.start_with_login(alice={})
        wire = self.log_in(daemon, "alice")
        wire.wait(wire("SUBMIT", "fail", "ID", "x", "JOBS", "a"))
        self.reload(daemon, {"http": {"login": "users"}}, alice={"handlers": ["echo"]})
        self.assertEqual(post(daemon, "x", "retry", user="alice"), (403, {"error": str(wire.ask("RETRY", "x"))}))


if __name__ == "__main__":
    unittest.main()
