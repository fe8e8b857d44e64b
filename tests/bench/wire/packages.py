"""The peers as Debian packages them: what is missing, and installing it without starting any service."""

import contextlib
import os
import pathlib
import subprocess

import servers

PACKAGES = {
    "redis-server": "redis-server",
    "redis-benchmark": "redis-tools",
    "gearmand": "gearman-job-server",
    "beanstalkd": "beanstalkd",
    "parallel": "parallel",
    "rq": "python3-rq",
}
SERVICES = {"redis-server", "gearman-job-server", "beanstalkd"}
POLICY = pathlib.Path("/usr/sbin/policy-rc.d")


def missing(programs):
    """The packages of those that are not installed."""
    return sorted({PACKAGES[program] for program in programs if program in PACKAGES and not servers.find(program)})


def how_to_get(packages):
    return f"`apt-get install {' '.join(packages)}`, or `--install`"


@contextlib.contextmanager
def no_service_started():
    """Debian starts a service when it installs one, unless policy-rc.d exists and says 101."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def install(packages):
    """From the distribution, as root. The services are not started, neither now nor at the next boot."""
    if os.geteuid() != 0:
        raise SystemExit(f"installing {' '.join(packages)} needs root: run `sudo apt-get install {' '.join(packages)}`")
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    with no_service_started():
        for words in (["update"], ["install", "--no-install-recommends", *packages]):
            done = subprocess.run(apt + words, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{' '.join(apt + words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    installed = sorted(SERVICES & set(packages))
    if installed and servers.find("systemctl"):
        subprocess.run(["systemctl", "--quiet", "disable", *installed], capture_output=True)
