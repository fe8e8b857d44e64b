"""What the reports share: the machine and the build they speak of, tables in Markdown, figures with their spread."""

import os
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]


def output_of(*words):
    """What a program prints, its first line."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    return (done.stdout or done.stderr).strip().split("\n")[0]


def cpu_model():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else os.uname().machine


def cached(build, name):
    """The value of a variable of the build's CMake cache."""
    cache = pathlib.Path(build, "CMakeCache.txt")
    if not cache.exists():
        raise SystemExit(f"{build} has no CMakeCache.txt: configure a build directory with `cmake --preset dev`")
    found = re.search(rf"^{name}:\w+=(.*)$", cache.read_text(), re.MULTILINE)
    return found[1] if found else ""


def compiler(build):
    kind = cached(build, "CMAKE_BUILD_TYPE")
    flags = cached(build, f"CMAKE_CXX_FLAGS_{kind.upper()}")
    return f"{output_of(cached(build, 'CMAKE_CXX_COMPILER'), '--version')}; {kind} ({flags})"


def commit():
    git = ["git", "-C", ROOT]
    revision = output_of(*git, "rev-parse", "--short", "HEAD")
    return revision + (" with changes" if output_of(*git, "status", "--porcelain") else "")


class Machine:
    """What this machine is, and what other programs used of it since this object was made."""

    def __init__(self):
        self._before = self._look()

    @staticmethod
    def _look():
        ticks = os.sysconf("SC_CLK_TCK")
        total = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]))
        idle = total[3] + total[4]  # and iowait
        ours = os.times()
        own = ours.user + ours.system + ours.children_user + ours.children_system
        return (sum(total) - idle) / ticks - own, sum(total) / ticks

    def others(self, running_s=0):
        """The part of all CPU time that went to neither this process nor its children: those that have ended, and
        `running_s` seconds of those that have not."""
        used, total = (now - before for now, before in zip(self._look(), self._before))
        return max(0, (used - running_s) / max(0.01, total))

    def lines(self, build):
        return [
            f"- machine: {cpu_model()}, {os.cpu_count()} CPUs, Linux {os.uname().release}",
            f"- compiler: {compiler(build)}",
            f"- commit: {commit()}",
            f"- other programs used {self.others():.0%} of the CPU time meanwhile",
        ]


def table(heads, rows):
    """In Markdown; the first column is text, the others are figures."""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def number(value):
    """With as many digits as say something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(values, form=number):
    """The median, and the smallest and largest."""
    if len(values) == 1:
        return form(values[0])
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


def programs(build, names):
    """Paths of programs of the build; an error that says how to build them if one is missing."""
    cached(build, "CMAKE_BUILD_TYPE")  # says so if this is no build directory
    paths = {name: pathlib.Path(build, "bin", name).resolve() for name in names}
    lacking = [name for name, path in paths.items() if not os.access(path, os.X_OK)]
    if lacking:
        how = f"cmake --build {build} --target {' '.join(lacking)}"
        raise SystemExit(f"{build}/bin has no {', '.join(lacking)}: run `{how}`")
    return paths


def print_parts(title, build, parts, options):
    """Measures each part, a pair of its title and a function of `options` that returns its lines, and prints the report of all."""
    machine = Machine()
    sections = []
    for part, measure in parts:
        meanwhile = Machine()
        sections += ["", f"## {part}", "", measure(options)]
        sections += ["", f"Others used {meanwhile.others():.0%} of the CPU time."]
    print("\n".join([f"# {title}", "", *machine.lines(build), *sections]))
