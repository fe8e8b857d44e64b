"""The packages for Python and Node.js, built by deploy/client-packages, and installed into folders of a test."""

import os
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def build(folder, which="all"):
    """Builds into `folder`/packages: the wheel, the tarball, or both."""
    (pathlib.Path(folder) / "bin").mkdir(parents=True, exist_ok=True)
    python = pathlib.Path(folder) / "bin/python3"
    if not python.exists():
        python.symlink_to(sys.executable)
    into = pathlib.Path(folder) / "packages"
    environment = dict(os.environ, PATH=f"{python.parent}:{os.environ['PATH']}", PIP_ROOT_USER_ACTION="ignore")
    done = subprocess.run([ROOT / "deploy/client-packages", into, *([which] if which != "all" else [])], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise AssertionError(f"client-packages: {done.stdout}{done.stderr}")
    return sorted(into.glob("*.tgz")) + sorted(into.glob("*.whl"))


def install_python(folder):
    """Installs the wheel by pip; returns the folder for PYTHONPATH."""
    _, wheel = build(folder)
    return install_wheel(wheel, pathlib.Path(folder) / "python")


def install_wheel(wheel, target):
    """Installs the wheel by pip into the folder `target`, and returns that folder."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps", "--target", target, wheel]
    done = subprocess.run(pip, capture_output=True, text=True, env=dict(os.environ, PIP_ROOT_USER_ACTION="ignore"))
    if done.returncode:
        raise AssertionError(f"pip: {done.stdout}{done.stderr}")
    return target


def install_node(folder):
    """Makes `folder`/node_modules, with the package and what LOCKSLEY_NODE_MODULES has. Not by npm, which would ask its registry for ioredis."""
    (tarball,) = build(folder, "node")
    install_tarball(tarball, folder)


def install_tarball(tarball, folder):
    """As install_node(), with a tarball that exists already."""
    modules = pathlib.Path(folder) / "node_modules"
    (modules / "@locksley").mkdir(parents=True)
    with tarfile.open(tarball) as tar:
        tar.extractall(folder)
    (pathlib.Path(folder) / "package").rename(modules / "@locksley/client")
    for installed in (pathlib.Path(os.environ["LOCKSLEY_NODE_MODULES"]) / "node_modules").iterdir():
        if not installed.name.startswith(".") and not (modules / installed.name).exists():
            (modules / installed.name).symlink_to(installed)
    (modules / ".bin").mkdir()
    (modules / ".bin/locksley-worker").symlink_to("../@locksley/client/bin/locksley-worker.js")
