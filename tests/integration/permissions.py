#!/usr/bin/python3
"""Who may do what: every command for every group, handlers, and that nobody but an admin sees what belongs to another."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from resp import Error, pairs
from users import ALL, UsersTest

CONNECTION, SUBMIT, READ, CONTROL, ADMIN = "connection", "submit", "read", "control", "admin"
# Each command and subcommand: its group, and how it is sent. A container's own group is that of its subcommands, or `connection`.
COMMANDS = {
    "active": (CONNECTION, "ACTIVE"),
    "add": (SUBMIT, "ADD nosuch payload"),
    "addat": (SUBMIT, "ADDAT nosuch 0 payload"),
    "auth": (CONNECTION, "AUTH nosuch wrong"),
    "backup": (ADMIN, "BACKUP nosuch"),
    "cancel": (CONTROL, "CANCEL nosuch"),
    "client": (CONNECTION, "CLIENT ID"),
    "client|getname": (CONNECTION, "CLIENT GETNAME"),
    "client|id": (CONNECTION, "CLIENT ID"),
    "client|info": (CONNECTION, "CLIENT INFO"),
    "client|kill": (CONNECTION, "CLIENT KILL ID 1000000"),
    "client|list": (CONNECTION, "CLIENT LIST"),
    "client|no-evict": (CONNECTION, "CLIENT NO-EVICT ON"),
    "client|no-touch": (CONNECTION, "CLIENT NO-TOUCH ON"),
    "client|reply": (CONNECTION, "CLIENT REPLY ON"),
    "client|setinfo": (CONNECTION, "CLIENT SETINFO LIB-NAME x"),
    "client|setname": (CONNECTION, "CLIENT SETNAME x"),
    "close": (SUBMIT, "CLOSE nosuch"),
    "command": (CONNECTION, "COMMAND"),
    "command|count": (CONNECTION, "COMMAND COUNT"),
    "command|docs": (CONNECTION, "COMMAND DOCS ping"),
    "command|info": (CONNECTION, "COMMAND INFO ping"),
    "command|list": (CONNECTION, "COMMAND LIST"),
    "config": (CONNECTION, "CONFIG GET save"),
    "config|get": (CONNECTION, "CONFIG GET save"),
    "config|reload": (ADMIN, "CONFIG RELOAD"),
    "config|set": (ADMIN, "CONFIG SET log.level info"),
    "customer": (CONNECTION, "CUSTOMER NOSUCH"),
    "customer|del": (CONTROL, "CUSTOMER DEL nosuch"),
    "customer|get": (READ, "CUSTOMER GET nosuch"),
    "customer|list": (READ, "CUSTOMER LIST"),
    "customer|set": (CONTROL, "CUSTOMER SET nosuch WEIGHT 2"),
    "discard": (CONNECTION, "DISCARD"),
    "echo": (CONNECTION, "ECHO x"),
    "exec": (CONNECTION, "EXEC"),
    "explain": (READ, "EXPLAIN nosuch"),
    "forget": (CONTROL, "FORGET nosuch"),
    "handler": (ADMIN, "HANDLER RESTART echo"),
    "handler|restart": (ADMIN, "HANDLER RESTART echo"),
    "handlers": (READ, "HANDLERS"),
    "hello": (CONNECTION, "HELLO 3"),
    "info": (CONNECTION, "INFO"),
    "job": (READ, "JOB nosuch 0"),
    "list": (READ, "LIST"),
    "log": (READ, "LOG nosuch 0"),
    "multi": (CONNECTION, "MULTI"),
    "nodes": (READ, "NODES"),
    "open": (SUBMIT, "OPEN echo"),
    "pause": (CONTROL, "PAUSE nosuch"),
    "ping": (CONNECTION, "PING"),
    "psubscribe": (READ, "PSUBSCRIBE x"),
    "punsubscribe": (CONNECTION, "PUNSUBSCRIBE x"),
    "quit": (CONNECTION, "QUIT"),
    "reset": (CONNECTION, "RESET"),
    "results": (READ, "RESULTS nosuch"),
    "resume": (CONTROL, "RESUME nosuch"),
    "retry": (CONTROL, "RETRY nosuch"),
    "run": (SUBMIT, "RUN echo JOBS x"),
    "running": (READ, "RUNNING nosuch"),
    "select": (CONNECTION, "SELECT 0"),
    "slots": (CONTROL, "SLOTS nosuch 1"),
    "status": (READ, "STATUS nosuch"),
    "submit": (SUBMIT, "SUBMIT echo JOBS x"),
    "subscribe": (READ, "SUBSCRIBE x"),
    "tenants": (READ, "TENANTS"),
    "unsubscribe": (CONNECTION, "UNSUBSCRIBE x"),
    "unwatch": (CONNECTION, "UNWATCH"),
    "wait": (READ, "WAIT nosuch"),
    "watch": (CONNECTION, "WATCH x"),
    "weight": (CONTROL, "WEIGHT nosuch 1"),
    "workers": (READ, "WORKERS"),
}
BEFORE_LOGIN = {"active", "auth", "hello", "quit", "reset"}
# Every command that takes the id of a batch, with an id in the place of {}.
WITH_ID = [
    "STATUS {}", "WAIT {}", "RESULTS {}", "RESULTS {} BLOCK 1", "EXPLAIN {}", "JOB {} 0", "LOG {} 0", "RUNNING {}", "WEIGHT {} 2", "SLOTS {} 2", "PAUSE {}", "RESUME {}", "CANCEL {}", "RETRY {}",
    "FORGET {}", "ADD {} x", "ADDAT {} 0 x", "CLOSE {}", "SUBMIT echo AFTER {} JOBS x", "RUN echo AFTEROK {} JOBS x", "OPEN echo AFTER {}",
]  # fmt: skip


class Groups(UsersTest):
    def all_commands(self, connection):
        """From each command's and subcommand's name to its group, as COMMAND has it."""
        found = {}
        for command in connection("COMMAND"):
            for one in [command, *command[9]]:
                found[one[0]] = one[6][0].removeprefix("@")
        return found

    def test_every_command_has_its_row_here(self):
        connection = self.connect(self.start())
        self.assertEqual(self.all_commands(connection), {name: group for name, (group, _) in COMMANDS.items()})

    def test_every_command_for_every_group(self):
        groups = {group: {"commands": [group]} for group in ALL}
        daemon = self.start_with(everything={"commands": ALL}, **groups)
        for name in [*ALL, "everything"]:
            allowed = {CONNECTION, *(ALL if name == "everything" else [name])}
            for command, (group, line) in COMMANDS.items():
                with self.subTest(user=name, command=command):
                    with daemon.connect() as connection:
                        connection("AUTH", name, f"the password of {name}")
                        reply = str(connection.ask(*line.split()))
                    if group in allowed:
                        self.assertFalse(reply.startswith(("NOPERM", "NOAUTH")), reply)
                    else:
                        whole = command.split("|")[0]
                        sent = command if COMMANDS[whole][0] in allowed else whole
                        self.assertEqual(reply, f"NOPERM User {name} has no permissions to run the '{sent}' command")

    def test_before_login_there_is_little_but_what_logs_in(self):
        daemon = self.start_with(alice={})
        for command, (_, line) in COMMANDS.items():
            with self.subTest(command=command), daemon.connect() as connection:
                reply = str(connection.ask(*line.split()))
                if command in BEFORE_LOGIN:
                    self.assertFalse(reply.startswith("NOAUTH Authentication"), reply)
                else:
                    self.assertEqual(reply, "NOAUTH Authentication required.")
        connection = self.connect(daemon)
        self.assertEqual(connection.ask("NOSUCHCMD", "x"), "NOAUTH Authentication required.")
        self.assertEqual(connection.ask("STATUS"), "NOAUTH Authentication required.")

    def test_a_changed_permission_holds_from_the_next_command_on(self):
        daemon = self.start_with(alice={}, bob={})
        alice, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "bob", protocol=3)
        bob("SUBSCRIBE", "batches")
        self.assertEqual(alice("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        self.reload(daemon, alice={"commands": ["read"], "handlers": ["sha256"]}, bob={"commands": ["submit"]})
        self.assert_error("NOPERM", alice.ask("RUN", "echo", "JOBS", "x"))
        self.assertEqual([pairs(handler)["name"] for handler in alice("HANDLERS")], ["sha256"])
        bob.read_until_closed()  # it waits for what it would never hear
        self.reload(daemon, alice={"commands": ALL}, bob={})
        self.assertEqual(alice("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        bob_again = self.log_in(daemon, "bob")
        self.assertIn("limits.max_clients", pairs(alice("CONFIG", "GET", "*")))
        self.assertEqual(pairs(bob_again("CONFIG", "GET", "limits.*", "save")), {"save": ""})


class Handlers(UsersTest):
    def test_every_handler_for_every_user(self):
        """Also one that there is not: nobody learns which there are."""
        lists = {"alice": ["echo", "sha256"], "bob": ["fail"], "carol": []}
        daemon = self.start_with(**{name: {"handlers": handlers} if handlers else {} for name, handlers in lists.items()})
        names = [pairs(handler)["name"] for handler in self.log_in(daemon, "carol")("HANDLERS")]
        self.assertEqual(names, ["echo", "fail", "sha256"])
        for name, handlers in lists.items():
            connection = self.log_in(daemon, name)
            self.assertEqual([pairs(handler)["name"] for handler in connection("HANDLERS")], sorted(handlers) or names)
            for handler in [*names, "nosuch"]:
                for command in ("SUBMIT {} JOBS 1", "RUN {} JOBS 1", "OPEN {}"):
                    with self.subTest(user=name, handler=handler, command=command):
                        reply = connection.ask(*command.format(handler).split())
                        if handlers and handler not in handlers:
                            self.assertRegex(str(reply), f"^NOPERM User {name} has no permissions to use the handler '{handler}'")
                        elif handler == "nosuch":
                            self.assert_error("NOHANDLER", reply)
                        else:
                            self.assertNotIsInstance(reply, Error)

    def test_what_is_for_demonstrations_is_for_users_whose_handlers_name_it(self):
        daemon = self.start_with(alice={}, bob={"handlers": ["sleep"]}, carol={"handlers": ["echo"], "commands": ALL}, dora={"handlers": ["spin"]}, eve={"handlers": ["fib"]})
        may = {"sleep": ("bob", ""), "spin": ("dora", ""), "fib": ("eve", "1")}
        for user in ("alice", "bob", "carol", "dora", "eve"):
            connection = self.log_in(daemon, user)
            for handler, (allowed, output) in may.items():
                replies = [connection.ask("RUN", handler, "JOBS", "1"), connection.ask("SUBMIT", handler, "JOBS", "1"), connection.ask("OPEN", handler)]
                if allowed == user:
                    self.assertEqual(replies[0], [["ok", output]])
                    self.assertFalse([reply for reply in replies if isinstance(reply, Error)])
                else:
                    refusal = f"NOPERM User {user} has no permissions to use the handler '{handler}'; only users.{user}.handlers gives them"
                    self.assertEqual([str(reply) for reply in replies], [refusal] * 3)
        everybody = self.connect(self.start())
        for handler, (_, output) in may.items():
            self.assertEqual(everybody("RUN", handler, "JOBS", "1"), [["ok", output]], "without users all may")

    def test_what_is_open_takes_no_more_jobs_of_a_handler_that_is_the_users_no_more(self):
        daemon = self.start_with(alice={})
        alice = self.log_in(daemon, "alice")
        alice("OPEN", "echo", "ID", "stream")
        alice("SUBMIT", "fail", "ID", "failed", "JOBS", "x")
        alice.wait("failed")
        self.reload(daemon, alice={"handlers": ["sha256"]})
        for command in (("ADD", "stream", "x"), ("RETRY", "failed")):
            self.assert_error("NOPERM", alice.ask(*command))
        self.assertEqual(alice("CLOSE", "stream"), 0)


class OwnBatches(UsersTest):
    def setUp(self):
        self.daemon = self.start_with(alice={}, bob={}, root={"commands": ALL})
        self.alice, self.bob, self.root = (self.log_in(self.daemon, name) for name in ("alice", "bob", "root"))

    def test_of_others_there_is_nothing_to_be_found(self):
        self.alice("OPEN", "echo", "ID", "hers")
        self.alice("ADD", "hers", "x")
        for command in WITH_ID:
            with self.subTest(command=command):
                of_hers, of_none = (str(self.bob.ask(*command.format(batch).split())) for batch in ("hers", "none"))
                self.assertEqual(of_hers, of_none.replace("none", "hers"))
                if not command.startswith("FORGET"):
                    self.assertTrue(of_hers.startswith("NOBATCH"), of_hers)
        status = self.alice.status("hers")
        self.assertEqual((status["tenant"], status["jobs"], status["weight"], status["state"]), ("alice", 1, 1, "open"))
        self.assertEqual(self.bob("LIST"), ["0", []])
        self.assertEqual(self.alice("CLOSE", "hers"), 1)
        self.assertEqual(self.alice.wait("hers")["ok"], 1)

    def test_two_users_may_choose_the_same_id(self):
        for connection, payload in ((self.alice, "of alice"), (self.bob, "of bob")):
            self.assertEqual(connection("SUBMIT", "echo", "ID", "same", "JOBS", payload), "same")
            self.assertEqual(connection("SUBMIT", "echo", "ID", "same", "JOBS", payload), "same", "a repetition")
        for connection, payload, name in ((self.alice, "of alice", "alice"), (self.bob, "of bob", "bob")):
            self.assertEqual(connection.wait("same")["tenant"], name)
            self.assertEqual(connection.results("same"), [[0, "ok", payload]])
            self.assertEqual([status["tenant"] for status in connection.listed()], [name])
        # An admin says whose.
        error = self.root.ask("STATUS", "same")
        self.assert_error("ERR", error)
        self.assertRegex(error, "(alice|bob)/same")
        self.assertEqual(self.root.results("bob/same"), [[0, "ok", "of bob"]])
        self.assertEqual(self.alice("FORGET", "same"), 1)
        self.assertEqual(self.root.status("same")["tenant"], "bob", "the only one that is left")
        self.assertEqual(self.bob.results("same"), [[0, "ok", "of bob"]])
        # Its own comes first.
        self.root("SUBMIT", "echo", "ID", "same", "JOBS", "of root")
        self.assertEqual(self.root.wait("same")["tenant"], "root")
        self.assertEqual(self.root("FORGET", "bob/same"), 1)
        self.assert_error("NOBATCH", self.bob.ask("STATUS", "same"))
        self.assertEqual(self.root.results("same"), [[0, "ok", "of root"]])

    def test_an_id_with_a_slash_is_only_an_id(self):
        self.alice("SUBMIT", "echo", "ID", "bob/x", "JOBS", "of alice")
        self.alice.wait("bob/x")
        self.assert_error("NOBATCH", self.bob.ask("STATUS", "x"))
        self.assertEqual(self.root.status("bob/x")["tenant"], "alice")
        self.bob("SUBMIT", "echo", "ID", "x", "JOBS", "of bob")
        self.bob.wait("x")
        self.assertEqual(self.root.status("bob/x")["tenant"], "bob")
        self.assertEqual(self.root.status("alice/bob/x")["tenant"], "alice")
        self.assert_error("NOBATCH", self.bob.ask("STATUS", "alice/bob/x"))

    def test_an_admin_sees_and_controls_all(self):
        for connection, batch in ((self.alice, "a"), (self.bob, "b")):
            connection("OPEN", "echo", "ID", batch)
        self.assertEqual({status["tenant"] for status in self.root.listed()}, {"alice", "bob"})
        self.assertEqual(self.root("ADD", "a", "x"), 1)
        self.assertEqual(self.root("PAUSE", "b"), "OK")
        self.assertEqual(self.root("CLOSE", "alice/a"), 1)
        self.assertEqual(self.alice.wait("a")["ok"], 1)
        self.assertEqual(self.root("CANCEL", "b"), 0)
        self.assertEqual(self.bob.wait("b")["state"], "cancelled")

    def test_pages_of_a_list_pass_over_others(self):
        for n in range(30):
            for connection in (self.alice, self.bob):
                connection("SUBMIT", "echo", "ID", f"b{n}", "JOBS", "x")
        found, cursor = [], "0"
        while True:
            cursor, page = self.alice("LIST", "CURSOR", cursor, "COUNT", 7)
            found += [(pairs(status)["id"], pairs(status)["tenant"]) for status in page]
            if cursor == "0":
                break
        self.assertEqual(found, [(f"b{n}", "alice") for n in reversed(range(30))])

    def test_events_are_of_ones_own(self):
        listeners = {name: self.log_in(self.daemon, name, protocol=3) for name in ("alice", "bob", "root")}
        for listener in listeners.values():
            listener("SUBSCRIBE", "batches")
            listener("SUBSCRIBE", "batch:theirs")
            listener("PSUBSCRIBE", "batch:th*")
        for connection, batch in ((self.alice, "theirs"), (self.bob, "theirs"), (self.alice, "last"), (self.bob, "last"), (self.root, "end")):
            connection("SUBMIT", "echo", "ID", batch, "JOBS", "x")
            connection.wait(batch)
        last = {"alice": ("alice", "last"), "bob": ("bob", "last"), "root": ("root", "end")}
        for name, listener in listeners.items():
            heard = []
            while not heard or (heard[-1][1:] != (*last[name], "done")):
                message = listener.read()
                event = json.loads(message[-1])
                heard.append((message[-2], event["tenant"], event["batch"], event["event"]))
            tenants = {tenant for _, tenant, _, _ in heard}
            self.assertEqual(tenants, {"alice", "bob", "root"} if name == "root" else {name})
            done = [each for each in heard if each[2:] == ("theirs", "done")]
            # On each of the three subscriptions once, for each tenant that it hears of.
            self.assertEqual(len(done), 3 * (2 if name == "root" else 1), heard)

    def test_tenants_and_connections_and_numbers_are_ones_own(self):
        self.alice("OPEN", "echo", "ID", "open")
        self.alice("ADD", "open", "x")
        names = lambda connection: [pairs(tenant)["tenant"] for tenant in connection("TENANTS")]
        self.assertEqual(names(self.bob), ["bob"])
        self.assertEqual(names(self.alice), ["alice"])
        self.assertEqual(names(self.root), ["alice", "root"])
        users_in = lambda connection: [word for word in connection("CLIENT", "LIST").split() if word.startswith("user=")]
        self.assertEqual(users_in(self.bob), ["user=bob"])
        self.assertCountEqual(users_in(self.root), ["user=alice", "user=bob", "user=root"])
        stranger = self.connect(self.daemon)
        wait_for("the admin to see who is not logged in", lambda: "user=(none)" in users_in(self.root))
        self.assertEqual(users_in(self.bob), ["user=bob"])
        stranger.close()
        self.assertEqual(self.bob("CLIENT", "KILL", "ID", self.alice("CLIENT", "ID")), 0)
        self.assertEqual(self.alice("PING"), "PONG")
        info = dict(line.split(":", 1) for line in self.bob("INFO").splitlines() if ":" in line)
        self.assertEqual((info["connected_clients"], info["active_batches"], info["queued_jobs"]), ("1", "0", "0"))
        self.assertEqual((info["role"], info["loading"]), ("master", "0"))
        self.assertNotIn("total_commands_processed", info)
        self.assertNotIn("ended_jobs", info)
        self.assertEqual((info["user"], info["store"]), ("bob", "memory"))
        lanes = lambda connection: dict(line.split(":", 1) for line in connection("INFO", "lanes").splitlines() if ":" in line)
        self.assertEqual({lane[lane.index("running") :] for lane in lanes(self.bob).values()}, {"running=0,queued=0,batches=0"})
        self.assertLessEqual(set(lanes(self.bob)), set(lanes(self.root)))
        everything = self.root("INFO")
        self.assertIn("active_batches:1\r\n", everything)
        self.assertIn("total_commands_processed", everything)
        self.assertEqual(self.root("CLIENT", "KILL", "ID", self.alice("CLIENT", "ID")), 1)
        self.alice.read_until_closed()


class WithoutUsers(UsersTest):
    def test_everybody_is_default_and_may_all(self):
        connection = self.connect(self.start())
        connection("SUBMIT", "echo", "ID", "x", "JOBS", "y")
        self.assertEqual(connection.wait("x")["tenant"], "default")
        for command, (_, line) in COMMANDS.items():
            if command not in ("quit", "reset", "hello", "subscribe", "psubscribe", "auth"):
                self.assertFalse(str(connection.ask(*line.split())).startswith(("NOPERM", "NOAUTH")), line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
