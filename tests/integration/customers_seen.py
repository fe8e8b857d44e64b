#!/usr/bin/python3
"""Who sees and changes which customers, by the wire, the command line and the JSON API; what events and the log say of them; names of all kinds."""

import http.client
import json
import pathlib
import subprocess
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from customer_test import CustomerTest
from locksley_daemon import DEADLINE_S, program
from resp import Error
from scratch import scratch
from users import ALL


class Seen(CustomerTest):
    def setUp(self):
        self.daemon = self.start_with(shop={"commands": ["submit", "read", "control"]}, mill={"commands": ["submit", "read"]}, root={"commands": ALL}, reader={"commands": ["read"]})
        self.shop, self.mill, self.root, self.reader = (self.log_in(self.daemon, name) for name in ("shop", "mill", "root", "reader"))

    def test_a_user_sees_and_changes_its_own(self):
        self.shop("CUSTOMER", "SET", "acme", "WEIGHT", 5)
        self.assertEqual(self.customer(self.shop, "acme")["weight"], 5)
        self.assertEqual(self.customer(self.mill, "acme")["weight"], 1)
        self.assertEqual(self.customers(self.mill), [])
        # Of a user that is no admin a slash is a part of the name.
        self.assertEqual(self.customer(self.reader, "shop/acme")["weight"], 1)
        for command in (("SET", "acme", "WEIGHT", 2), ("DEL", "acme")):
            self.assert_error("NOPERM", self.mill.ask("CUSTOMER", *command))
        self.assert_error("NOPERM", self.mill.ask("SLOTS", "b", 1))
        self.assert_error("NOPERM", self.log_in(self.daemon, "mill").ask("CUSTOMER", "DEL", "acme"))

    def test_an_admin_says_whose(self):
        self.shop("CUSTOMER", "SET", "acme", "WEIGHT", 5)
        self.assertEqual(self.customer(self.root, "shop/acme")["weight"], 5)
        self.root("CUSTOMER", "SET", "shop/acme", "SLOTS", 2)
        self.root("CUSTOMER", "SET", "mill/x", "WEIGHT", 2)
        self.root("CUSTOMER", "SET", "mine", "WEIGHT", 4)
        self.assertEqual(self.customer(self.shop, "acme")["slots"], 2)
        names = lambda *options: sorted(f"{row['tenant']}/{row['customer']}" for row in self.customers(self.root, *options))
        self.assertEqual(names(), ["mill/x", "root/mine", "shop/acme"])
        self.assertEqual(names("COUNT", 1), names())
        self.assertEqual(names("MATCH", "shop/*"), ["shop/acme"])
        self.assertIn("no user is named 'nosuch'", str(self.root.ask("CUSTOMER", "GET", "nosuch/acme")))
        # Its batch for a customer of a user is that user's.
        batch = self.root("SUBMIT", "echo", "ID", "by-root", "FOR", "shop/acme", "JOBS", "a")
        status = self.shop.wait(batch)
        self.assertEqual((status["tenant"], status["customer"]), ("shop", "acme"))
        self.assertEqual(self.root("SUBMIT", "echo", "ID", "by-root", "FOR", "shop/acme", "JOBS", "a"), batch)
        self.assertEqual([row["id"] for row in self.root.listed("FOR", "shop/acme")], [batch])
        self.assertEqual(self.root.listed("FOR", "acme"), [])
        self.assertEqual(self.root("CUSTOMER", "DEL", "shop/acme"), 1)
        self.assertEqual(self.customer(self.shop, "acme")["set"], 0)

    def test_lists_by_customer_and_by_handler(self):
        for customer, handler in (("a", "echo"), ("a", "sha256"), ("b", "echo")):
            self.shop.wait(self.shop("SUBMIT", handler, "ID", f"{customer}-{handler}", "FOR", customer, "JOBS", "x"))
        self.shop.wait(self.shop("SUBMIT", "echo", "ID", "none", "JOBS", "x"))
        listed = lambda *options: sorted(row["id"] for row in self.shop.listed(*options))
        self.assertEqual(listed("FOR", "a"), ["a-echo", "a-sha256"])
        self.assertEqual(listed("FOR", "a", "HANDLER", "echo", "STATE", "done"), ["a-echo"])
        self.assertEqual(listed("HANDLER", "sha256"), ["a-sha256"])
        self.assertEqual(listed("FOR", ""), ["none"])
        self.assertEqual(self.mill.listed("FOR", "a"), [])
        self.assertEqual(listed("FOR", "nobody"), [])

    def test_events_and_the_log_say_the_customer(self):
        listener = self.log_in(self.daemon, "shop")
        listener("SUBSCRIBE", "batch:seen")
        self.shop.wait(self.shop("SUBMIT", "echo", "ID", "seen", "FOR", "acme", "JOBS", "x"))
        self.assertEqual(json.loads(listener.read_message()[-1])["customer"], "acme")
        self.daemon.wait_for_log(r"batch done batch=seen tenant=shop customer=acme handler=echo")
        self.shop("CUSTOMER", "SET", "acme", "WEIGHT", 5)
        self.daemon.wait_for_log(r'audit user=shop .* command="CUSTOMER SET" customer=acme outcome=ok')

    def test_transactions_check_and_execute(self):
        self.shop("MULTI")
        self.assertEqual(self.shop("CUSTOMER", "SET", "acme", "WEIGHT", 5), "QUEUED")
        self.assertEqual(self.shop("CUSTOMER", "DEL", "nosuch"), "QUEUED")
        self.assertEqual(self.shop("EXEC"), ["OK", 0])
        self.shop("MULTI")
        self.assert_error("ERR", self.shop.ask("CUSTOMER", "SET", "acme", "WEIGHT", 0))
        self.assert_error("EXECABORT", self.shop.ask("EXEC"))
        self.assertEqual(self.customer(self.shop, "acme")["weight"], 5)


class Names(CustomerTest):
    HOSTILE = ("..", "../../etc/passwd", "a/b", "/", "//", '"', "'", "\\", "\\x00", "%00", "%2F", "{}", "*", "[a]", "<b>", "$(id)", "--help", "default/x", "x" * 128, "~", "!", "=;,")

    def test_hostile_names_are_names(self):
        store = str(scratch(self))  # it goes after the daemon
        daemon = self.start({"store": {"path": store}})
        connection = self.connect(daemon)
        for i, name in enumerate(self.HOSTILE):
            with self.subTest(name):
                connection("CUSTOMER", "SET", name, "WEIGHT", i + 2)
                batch = connection("SUBMIT", "echo", "FOR", name, "JOBS", "x")
                self.assertEqual(connection.wait(batch)["customer"], name)
                self.assertEqual([row["id"] for row in connection.listed("FOR", name)], [batch])
                path = f"/api/customers/{urllib.parse.quote(name, safe='')}"
                status, body = daemon.get(path)[:2]
                seen = json.loads(body)
                self.assertEqual((status, seen["customer"], seen["weight"]), (200, name, i + 2))
                done = subprocess.run([program("LOCKSLEY"), "--server", f"{daemon.host}:{daemon.port}", "--json", "customer", "get", "--", name], capture_output=True, text=True, timeout=DEADLINE_S)
                self.assertEqual((done.returncode, json.loads(done.stdout or "{}").get("customer")), (0, name), done.stderr)
        self.assertEqual({row["customer"]: row["weight"] for row in self.customers(connection, "COUNT", 3)}, {name: i + 2 for i, name in enumerate(self.HOSTILE)})

    def test_what_is_no_name_is_refused(self):
        connection = self.connect(self.start())
        for name in ("two words", "tab\t", "new\nline", "\x00", "h\xe9", "x" * 129, "\x7f"):
            for command in (("SUBMIT", "echo", "FOR", name, "JOBS", "x"), ("OPEN", "echo", "FOR", name), ("CUSTOMER", "SET", name, "WEIGHT", 2), ("CUSTOMER", "GET", name), ("CUSTOMER", "DEL", name), ("LIST", "FOR", name)):
                with self.subTest(command):
                    error = connection.ask(*command)
                    self.assertIsInstance(error, Error)
                    self.assertIn("1 to 128 printable ASCII characters without spaces", str(error))
        self.assertEqual(self.customers(connection), [])


class OtherWays(CustomerTest):
    """The command line and the JSON API."""

    def locksley(self, *arguments):
        done = subprocess.run([program("LOCKSLEY"), "--server", f"{self.daemon.host}:{self.daemon.port}", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def post(self, path, body, status=200):
        connection = http.client.HTTPConnection(self.daemon.http.removeprefix("http://"))
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Locksley-Request": "1"})
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        self.assertEqual(reply.status, status, text)
        return json.loads(text)

    def get(self, path):
        status, body = self.daemon.get(path)[:2]
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def test_the_command_line(self):
        self.daemon = self.start()
        connection = self.connect(self.daemon)
        self.locksley("customer", "set", "acme", "--weight", "3", "--slots", "8", "--rate", "300/m", "--max-jobs", "1000")
        row = json.loads(self.locksley("--json", "customer", "get", "acme"))
        self.assertEqual(row, json.loads(json.dumps(self.customer(connection, "acme"))) | {"share": 0.0, "received": 0.0})
        self.assertIn("300/m", self.locksley("customer", "get", "acme"))
        batch = self.locksley("submit", "echo", "--for", "acme", "hello").strip()
        self.assertEqual(connection.wait(batch)["customer"], "acme")
        self.assertIn("acme", self.locksley("status", batch))
        self.assertEqual([row["id"] for row in json.loads(self.locksley("--json", "list", "--for", "acme", "--handler", "echo"))], [batch])
        self.assertIn("acme", self.locksley("customers"))
        self.assertEqual([row["customer"] for row in json.loads(self.locksley("--json", "customers", "--match", "ac*"))], ["acme"])
        self.assertEqual(json.loads(self.locksley("--json", "customers", "--match", "x*")), [])
        self.assertEqual(json.loads(self.locksley("--json", "customer", "del", "acme")), {"customer": "acme", "deleted": True})
        self.assertIn("no settings", self.locksley("customer", "del", "acme"))
        opened = connection("OPEN", "echo")
        self.locksley("slots", opened, "5")
        self.assertEqual(connection.status(opened)["slots"], 5)
        self.assertEqual(json.loads(self.locksley("--json", "slots", opened, "0")), {"id": opened, "slots": 0})

    def test_the_api(self):
        self.daemon = self.start()
        connection = self.connect(self.daemon)
        self.assertEqual(self.post("/api/customers/acme/set", {"weight": 3, "slots": 8, "rate": "20/s", "max_jobs": 9}), {"ok": True})
        wire = self.customer(connection, "acme")
        shown = self.get("/api/customers/acme")
        self.assertEqual({**shown, "set": int(shown["set"]), "share": "0", "received": "0"}, {**wire, "share": "0", "received": "0"})
        self.assertEqual(self.get("/api/customers?match=ac*&count=1"), {"cursor": None, "customers": [shown]})
        self.assertEqual(self.get("/api/customers?match=x"), {"cursor": None, "customers": []})
        for body in ({}, {"weight": 0}, {"weight": "3"}, {"rate": "fast"}, {"rate": 3}, {"nosuch": 1}, {"max_jobs": -1}, []):
            self.post("/api/customers/acme/set", body, 400)
        batch = connection("OPEN", "echo", "FOR", "acme")
        self.assertEqual([row["id"] for row in self.get("/api/batches?customer=acme")["batches"]], [batch])
        self.assertEqual(self.get("/api/batches?customer=")["batches"], [])
        self.assertEqual(self.post(f"/api/batches/{batch}/slots", {"slots": 5}), {"ok": True})
        self.assertEqual(self.get(f"/api/batches/{batch}")["slots"], 5)
        self.post(f"/api/batches/{batch}/slots", {"slots": -1}, 400)
        self.assertEqual(self.post("/api/customers/acme/del", {}), {"ok": True, "deleted": True})
        self.assertEqual(self.post("/api/customers/acme/del", {}), {"ok": True, "deleted": False})
        self.assertEqual(self.get("/api/customers/acme?tenant=default")["weight"], 1)
        self.assertEqual(self.daemon.get("/api/customers/acme?tenant=nosuch")[0], 404)


if __name__ == "__main__":
    unittest.main()
