"""A network of a test's own: hosts with a kernel network namespace each, behind one router, on this machine. Takes root, as `unshare` and `ip` do.

    network = Network(test)
    host = network.host("a")
    with host.inside():  # sockets that are made, and programs that are started, belong to that host
        daemon = Daemon(...)
    host.cut(), host.cut_out(), host.cut_in(), host.cut_to(other), host.cut_from(other), host.heal()

The namespaces have no names: the kernel removes them, and all that is in them, when the test process and the last program in them have ended, however
they end. A cut is a rule `blackhole` of the router, for what comes from a host or goes to it: packets vanish silently, as in a partition, and both
ends see a link that is up. It needs no module beyond `veth`."""

import contextlib
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    if getattr(LIBC, name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def current():
    """The namespace of this thread; the caller closes it."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


class Namespace:
    """A new namespace, in which no link is up."""

    def __init__(self):
        before = current()
        try:
            call("unshare", CLONE_NEWNET)
            self.descriptor = current()
            call("setns", before, CLONE_NEWNET)
        finally:
            os.close(before)

    @contextlib.contextmanager
    def inside(self):
        """Within the block, this thread and the threads and processes that it starts are in the namespace."""
        before = current()
        try:
            call("setns", self.descriptor, CLONE_NEWNET)
            try:
                yield
            finally:
                call("setns", before, CLONE_NEWNET)
        finally:
            os.close(before)

    def ip(self, *commands):
        """Commands of ip(8), one after the other."""
        with self.inside():
            done = subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n", capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"ip: {done.stderr.strip()}; commands: {commands}")

    def close(self):
        os.close(self.descriptor)


class Host(Namespace):
    """A namespace with an address that all hosts reach."""

    def __init__(self, router, name, number):
        super().__init__()
        self.router, self.name, self.port = router, name, f"veth{number}"
        self.address, gateway = f"10.77.{number}.2", f"10.77.{number}.1"
        router.ip(f"link add {self.port} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{self.descriptor}")
        router.ip(f"address add {gateway}/24 dev {self.port}", f"link set {self.port} up")
        self.ip("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up", f"route add default via {gateway}")
        self.rules = []

    def drop(self, *rules):
        self.rules += rules
        self.router.ip(*(f"rule add {rule} blackhole" for rule in rules))

    def cut_out(self):
        """Packets of this host reach no other host."""
        self.drop(f"iif {self.port}")

    def cut_in(self):
        """Packets of other hosts do not reach this one."""
        self.drop(f"to {self.address}/32")

    def cut(self):
        self.drop(f"iif {self.port}", f"to {self.address}/32")

    def cut_to(self, other):
        """Packets of this host do not reach the other one."""
        self.drop(f"iif {self.port} to {other.address}/32")

    def cut_from(self, other):
        """Packets of the other host do not reach this one."""
        self.drop(f"iif {other.port} to {self.address}/32")

    def heal(self):
        self.router.ip(*(f"rule delete {rule} blackhole" for rule in self.rules))
        self.rules = []


class Network:
    """Removed when the test is over."""

    def __init__(self, test):
        self.test, self.hosts = test, []
        try:
            self.router = Namespace()
        except PermissionError as error:
            test.fail(f"no network namespace can be made, for which it takes root: {error}")
        test.addCleanup(self.router.close)
        with self.router.inside():
            for name, value in (("ip_forward", 1), ("conf/all/rp_filter", 0), ("conf/default/rp_filter", 0)):
                with open(f"/proc/sys/net/ipv4/{name}", "w") as setting:
                    setting.write(str(value))
        self.router.ip("link set lo up")

    def host(self, name):
        host = Host(self.router, name, len(self.hosts) + 1)
        self.test.addCleanup(host.close)
        self.hosts.append(host)
        return host
