"""Users for a daemon's configuration, and connections of theirs."""

import ctypes
import functools
import signal

from locksley_daemon import DaemonTest, merged, wait_for

PASSWORD = "the password of {}"


@functools.cache
def hash_of(password):
    """An argon2id hash as the configuration has it, at the least cost there is: tests have no secrets."""
    sodium = ctypes.CDLL("libsodium.so.23")
    if sodium.sodium_init() < 0:
        raise AssertionError("libsodium cannot be initialised")
    text, password = ctypes.create_string_buffer(128), password.encode()
    size, operations, memory = ctypes.c_ulonglong(len(password)), ctypes.c_ulonglong(1), ctypes.c_size_t(8192)
    if sodium.crypto_pwhash_str(text, password, size, operations, memory) != 0:
        raise AssertionError("libsodium made no hash")
    return text.value.decode()


def user(name, **more):
    """A user whose password is PASSWORD of the name."""
    return {"password_hash": hash_of(PASSWORD.format(name)), **more}


def users(**named):
    """Settings with these users; each value has the keys beside the password."""
    return {"users": {name: user(name, **more) for name, more in named.items()}}


ALL = ["submit", "read", "control", "admin"]
# The settings of a user who may use all built-in handlers: sleep, spin and fib have to be named.
BUILTIN = {"handlers": ["echo", "fail", "fib", "sha256", "sleep", "spin"]}


class UsersTest(DaemonTest):
    """A test of daemons with users."""

    def start_with(self, settings=None, **named):
        return self.start(merged(settings or {}, users(**named)))

    def reload(self, daemon, settings=None, **named):
        """These users are in force when it returns."""
        read = lambda: daemon.log().count("configuration read again")
        before = read()
        daemon.configure(merged(settings or {}, users(**named)))
        daemon.send_signal(signal.SIGHUP)
        wait_for("the configuration to be read again", lambda: read() > before)

    def log_in(self, daemon, name, protocol=2, **options):
        """A connection of this user."""
        connection = self.connect(daemon, **options)
        connection("HELLO", protocol, "AUTH", name, PASSWORD.format(name))
        return connection
