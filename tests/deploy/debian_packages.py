"""Builds the Debian packages of what LOCKSLEY_BUILD holds, and takes them apart. CPack puts together what is built; it builds nothing."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST_S = 120


def run(*arguments, seconds=LONGEST_S, **options):
    """What it says; an error that shows it, if it fails."""
    done = subprocess.run(list(map(str, arguments)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, arguments))} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def build(folder):
    """By name of the package, the files."""
    config = pathlib.Path(os.environ["LOCKSLEY_BUILD"]) / "CPackConfig.cmake"
    run("cpack", "--config", config, "-B", folder)
    return {path.name.split("_")[0]: path for path in pathlib.Path(folder).glob("*.deb")}


def field(package, name):
    return run("dpkg-deb", "--field", package, name).strip()


def with_version(package, version, folder):
    """The same package under another version, as an upgrade has it."""
    inside = pathlib.Path(folder) / "inside"
    run("dpkg-deb", "--raw-extract", package, inside)
    control = inside / "DEBIAN" / "control"
    old = field(package, "Version")
    control.write_text(control.read_text().replace(f"Version: {old}\n", f"Version: {version}\n"))
    made = pathlib.Path(folder) / package.name.replace(old, version)
    run("dpkg-deb", "--root-owner-group", "--build", inside, made)
    return made
