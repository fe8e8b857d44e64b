#!/usr/bin/python3
"""Certificates: those of clients, those that change while connections go on, files that cannot be used."""

import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority, Pair, openssl
from locksley_daemon import program, wait_for
from resp import Closed
from tls_client import TlsConnection, TlsTest, client_context
from users import hash_of

MINUTE_S = 60


class ClientCertificates(TlsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alice = cls.authority.issue("alice", names="DNS:alice")
        cls.late = cls.authority.issue("late", names="DNS:late", days=-1)
        cls.stranger = Authority(cls.folder, "others").issue("stranger", names="DNS:alice")

    def ping(self, daemon, pair):
        return self.secure(daemon, client_context(self.authority.certificate, pair)).ask("PING")

    def assert_refused(self, daemon, pair, reason):
        # With TLS 1.3 the client hears of it when it reads.
        with self.assertRaisesRegex((ssl.SSLError, Closed, ConnectionError), ""):
            self.ping(daemon, pair)
        daemon.wait_for_log(reason)

    def test_required(self):
        for pair, reason in ((None, "peer did not return a certificate"), (self.late, "certificate has expired"), (self.stranger, "unable to get local issuer|self.signed")):
            with self.subTest(reason):
                daemon = self.start_tls(client_ca=str(self.authority.certificate), clients="required")
                self.assert_refused(daemon, pair, reason)
                self.assertEqual(self.ping(daemon, self.alice), "PONG")

    def test_optional(self):
        daemon = self.start_tls(client_ca=str(self.authority.certificate), clients="optional")
        self.assertEqual(self.ping(daemon, None), "PONG")
        self.assertEqual(self.ping(daemon, self.alice), "PONG")
        self.assert_refused(daemon, self.stranger, "TLS handshake failed")

    def test_the_client_hears_why(self):
        daemon = self.start_tls(client_ca=str(self.authority.certificate))
        with self.assertRaisesRegex(ssl.SSLError, "CERTIFICATE_REQUIRED"):
            self.ping(daemon, None)


class Users(TlsTest):
    """The common name of a client certificate stands for a user."""

    def setUp(self):
        self.pairs = {name: self.authority.issue(name, names=f"DNS:{name.replace(' ', '-')}") for name in ("alice at work", "bob", "nobody")}
        users = {"alice": {"certificate": "alice at work"}, "bob": {"certificate": "bob", "commands": ["read"], "max_clients": 1}}
        tls = self.server.settings(client_ca=str(self.authority.certificate), clients="optional")
        self.tls = tls
        self.daemon = self.start({"listen": {"tls": tls}, "users": users})

    def by(self, name):
        pair = self.pairs[name] if name else None
        return self.secure(self.daemon, client_context(self.authority.certificate, pair))

    def test_a_certificate_logs_in(self):
        alice = self.by("alice at work")
        self.assertIn(" user=alice ", alice("CLIENT", "INFO"))
        batch = alice("SUBMIT", "echo", "JOBS", "a")
        self.assertEqual(alice.wait(batch)["ok"], 1)
        bob = self.by("bob")
        self.assert_error("NOPERM", bob.ask("SUBMIT", "echo", "JOBS", "a"))
        self.assert_error("NOBATCH", bob.ask("STATUS", batch))
        alice("RESET")
        self.assertIn(" user=alice ", alice("CLIENT", "INFO"))

    def test_one_that_stands_for_nobody_does_not(self):
        for name in ("nobody", None):
            self.assert_error("NOAUTH", self.by(name).ask("LIST"))

    def test_a_quota_of_connections_holds(self):
        first = self.by("bob")
        self.assertEqual(first("PING"), "PONG")
        self.assert_error("NOAUTH", self.by("bob").ask("LIST"))

    def reload(self, users):
        read = lambda: self.daemon.log().count("configuration read again")
        before = read()
        self.daemon.configure({"listen": {"tls": self.tls}, "users": users})
        self.daemon.send_signal(signal.SIGHUP)
        wait_for("the configuration to be read again", lambda: read() > before)

    def test_a_changed_name_closes_what_it_opened(self):
        alice = {"certificate": "alice at work", "password_hash": hash_of("hers")}
        self.reload({"alice": alice})
        by_name, by_password = self.by("alice at work"), self.by(None)
        by_password("AUTH", "alice", "hers")
        self.reload({"alice": {**alice, "certificate": "alice at home"}})
        self.assertEqual(by_name.read_until_closed(), b"")
        self.assertIn(" user=alice ", by_password("CLIENT", "INFO"))
        self.assert_error("NOAUTH", self.by("alice at work").ask("LIST"))

    def test_an_authority_that_is_removed_closes_what_its_certificates_opened(self):
        """A user's other connections, and those of the authority that stays, go on."""
        second = Authority(self.folder, "second")
        self.pairs["of the second"] = second.issue("of the second", names="DNS:second")
        both, first = (self.folder / name for name in ("both.pem", "first.pem"))
        first.write_text(pathlib.Path(self.authority.certificate).read_text())
        both.write_text(first.read_text() + pathlib.Path(second.certificate).read_text())
        users = {"alice": {"certificate": "alice at work"}, "carol": {"certificate": "of the second", "password_hash": hash_of("hers")}}
        self.tls = {**self.tls, "client_ca": str(both)}
        self.reload(users)
        alice, carol, by_password = self.by("alice at work"), self.by("of the second"), self.by(None)
        by_password("AUTH", "carol", "hers")
        self.reload(users)
        self.assertIn(" user=carol ", carol("CLIENT", "INFO"), "the authorities are the same")
        self.tls = {**self.tls, "client_ca": str(first)}
        self.reload(users)
        self.assertEqual(carol.read_until_closed(), b"")
        self.assertIn(" user=alice ", alice("CLIENT", "INFO"))
        self.assertIn(" user=carol ", by_password("CLIENT", "INFO"))

    def test_a_changed_password_leaves_what_the_certificate_opened(self):
        alice = {"certificate": "alice at work", "password_hash": hash_of("hers")}
        self.reload({"alice": alice})
        by_name, by_password = self.by("alice at work"), self.by(None)
        by_password("AUTH", "alice", "hers")
        self.reload({"alice": {**alice, "password_hash": hash_of("another")}})
        self.assertEqual(by_password.read_until_closed(), b"")
        self.assertIn(" user=alice ", by_name("CLIENT", "INFO"))


class Reload(TlsTest):
    def setUp(self):
        self.files = Pair(self.folder / "current.pem", self.folder / "current.key")
        self.put(self.server)
        self.daemon = self.start({"listen": {"tls": self.files.settings()}})

    def put(self, pair):
        for source, target in ((pair.certificate, self.files.certificate), (pair.key, self.files.key)):
            pathlib.Path(target).write_bytes(pathlib.Path(source).read_bytes())

    def serial(self, connection):
        return ssl.DER_cert_to_PEM_cert(connection.socket.getpeercert(binary_form=True))

    def test_new_connections_get_the_new_certificate_and_old_ones_go_on(self):
        old = self.secure(self.daemon)
        batch = old("OPEN", "echo")
        added = 0
        for turn in range(5):
            self.put(self.authority.issue(f"server {turn}"))
            self.daemon.send_signal(signal.SIGHUP)
            # The stream goes on while the certificate changes.
            wanted = pathlib.Path(self.files.certificate).read_text().strip()

            def has_new():
                nonlocal added
                added = old("ADD", batch, *["x"] * 100)
                connection = TlsConnection(self.daemon.host, self.daemon.port, self.context)
                try:
                    return connection("PING") == "PONG" and self.serial(connection).strip() == wanted
                finally:
                    connection.close()

            wait_for("the new certificate", has_new)
        self.assertEqual(old("CLOSE", batch), added)
        self.assertEqual(old.wait(batch)["ok"], added)

    def test_a_bad_file_changes_nothing_and_is_named(self):
        other = self.authority.issue("another")
        for spoil, reason in (
            (lambda: pathlib.Path(self.files.key).write_bytes(pathlib.Path(other.key).read_bytes()), "current.key: is not the key of the certificate"),
            (lambda: pathlib.Path(self.files.certificate).write_text("nothing"), "current.pem: holds no certificate"),
            (lambda: pathlib.Path(self.files.certificate).unlink(), "current.pem: No such file or directory"),
        ):
            with self.subTest(reason):
                self.put(self.server)
                spoil()
                # All or nothing: the rest of the file does not come into force either.
                self.daemon.configure({"listen": {"tls": self.files.settings()}, "limits": {"max_clients": 1}})
                self.daemon.send_signal(signal.SIGHUP)
                self.daemon.wait_for_log(reason)
                first, second = self.secure(self.daemon), self.secure(self.daemon)
                self.assertEqual((first("PING"), second("PING")), ("PONG", "PONG"))

    def test_tls_can_be_switched_on_and_off(self):
        self.daemon.configure({})
        self.daemon.send_signal(signal.SIGHUP)
        self.daemon.wait_for_log("configuration read again")
        self.assertEqual(self.connect(self.daemon)("PING"), "PONG")
        self.daemon.configure({"listen": {"tls": self.files.settings()}})
        self.daemon.send_signal(signal.SIGHUP)
        wait_for("two reloads", lambda: self.daemon.log().count("configuration read again") == 2)
        self.assertEqual(self.secure(self.daemon)("PING"), "PONG")


class Files(TlsTest):
    def ends_with(self, tls, section="listen"):
        """What the daemon says of files that it cannot use, when it starts."""
        config = self.folder / "bad.yaml"
        config.write_text(json.dumps({"listen": {"port": 0}, "http": {"port": 0}, "store": {"path": ""}} | {section: {"port": 0, "tls": tls}}))
        run = subprocess.run([program("LOCKSLEYD"), "--config", config], capture_output=True, text=True, timeout=MINUTE_S)
        self.assertEqual(run.returncode, 78, run.stderr)
        return run.stderr

    def test_what_cannot_be_used_is_named(self):
        good = self.server.settings()
        other = self.authority.issue("other")
        text, encrypted, damaged = (str(self.folder / name) for name in ("text.pem", "encrypted.key", "damaged.pem"))
        pathlib.Path(text).write_text("no certificate at all\n")
        openssl("pkey", "-in", self.server.key, "-aes256", "-passout", "pass:secret", "-out", encrypted)
        pathlib.Path(damaged).write_text(pathlib.Path(self.server.certificate).read_text().replace("MII", "NII", 1))
        for changes, said in (
            ({"certificate": "/nowhere.pem"}, "listen.tls.certificate: /nowhere.pem: No such file or directory"),
            ({"certificate": str(self.folder)}, f"listen.tls.certificate: {self.folder}: is not a file"),
            ({"certificate": text}, f"listen.tls.certificate: {text}: holds no certificate in PEM form"),
            ({"certificate": damaged}, f"listen.tls.certificate: {damaged}: certificate 1 is damaged"),
            ({"key": "/nowhere.key"}, "listen.tls.key: /nowhere.key: No such file or directory"),
            ({"key": text}, f"listen.tls.key: {text}: holds no private key in PEM form"),
            ({"key": other.key}, f"listen.tls.key: {other.key}: is not the key of the certificate in {self.server.certificate}"),
            ({"key": encrypted}, f"listen.tls.key: {encrypted}: the key is encrypted"),
            ({"client_ca": "/nowhere.pem"}, "listen.tls.client_ca: /nowhere.pem: No such file or directory"),
            ({"client_ca": text}, f"listen.tls.client_ca: {text}: holds no certificate in PEM form"),
        ):
            self.assertIn(said, self.ends_with(good | changes))
        self.assertIn("http.tls.key: /nowhere.key: No such file", self.ends_with(good | {"key": "/nowhere.key"}, "http"))

    def test_a_check_of_the_configuration_warns_of_what_a_start_would_refuse(self):
        """Not more: the daemon may be another user, who can read the files."""
        config = self.folder / "checked.yaml"

        def check(settings):
            config.write_text(json.dumps(settings))
            run = subprocess.run([program("LOCKSLEYD"), "--check-config", "--config", config], capture_output=True, text=True, timeout=MINUTE_S)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stderr

        good, late = self.server.settings(), self.authority.issue("late for the check", days=-1)
        refused = rf"^warning: started by this user, the daemon will refuse this file: {config}:1:\d+: "
        self.assertEqual(check({"listen": {"tls": good}}), "")
        missing = check({"listen": {"tls": good | {"key": "/nowhere.key"}}})
        self.assertRegex(missing, refused + r"listen\.tls\.key: /nowhere\.key: No such file or directory\n\Z")
        self.assertRegex(check({"http": {"tls": late.settings()}}), "^warning: http.tls.certificate: .*late for the check.pem: the certificate expired on ")
        users = {"alice": {"password_hash": hash_of("secret")}}
        self.assertRegex(check({"http": {"login": "users", "token_file": "/nowhere.token"}, "users": users}), refused + r"http\.token_file: ")

    def test_an_expired_certificate_is_told_of_with_its_date(self):
        late = self.authority.issue("late server", days=-1)
        daemon = self.start({"listen": {"tls": late.settings()}})
        daemon.wait_for_log(r"listen.tls.certificate: .*late server.pem: the certificate expired on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
        with self.assertRaisesRegex(ssl.SSLError, "certificate has expired"):
            self.secure(daemon)

    def test_a_key_that_all_can_read_is_told_of(self):
        pair = self.authority.issue("open")
        os.chmod(pair.key, 0o644)
        self.start({"listen": {"tls": pair.settings()}}).wait_for_log("open.key: every user of this machine can read the key")

    def test_the_chain_is_sent(self):
        between = Authority(self.folder, "between", signer=self.authority)
        pair = between.issue("chained")
        chain = self.folder / "chain.pem"
        chain.write_text(pathlib.Path(pair.certificate).read_text() + between.certificate.read_text())
        daemon = self.start({"listen": {"tls": {"certificate": str(chain), "key": pair.key}}})
        self.assertEqual(self.secure(daemon)("PING"), "PONG")


if __name__ == "__main__":
    unittest.main()
