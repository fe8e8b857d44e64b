"""Carries out the programs of a Markdown page, in its order.

| block | what is done |
| --- | --- |
| of a language, and its first line is a comment with a file's name, `# tasks.py` or `// tasks.js` | the file is written; with ", continued" after the name, the block is appended to it |
| `yaml` that begins with `handlers:` or `exec:` | from here on a daemon with this configuration serves the page. One with `exec: true` does not run as root. A path of its store is replaced |
| `console` | each line `$ command` is carried out by bash in the folder of the files, and what it prints must be what follows: `…` is anything, and a line of it alone is any lines. A command with ` &` at its end runs until the next daemon, or the end |

The ports 7770 and 7771 in commands and files become those of the daemon, and `build/bin/` nothing."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import yaml
from locksley_daemon import Daemon, end_with_parent, merged, program

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?:#!.*\n)?(?:<\?php\n)?(?:#|//) ([\w./-]+\.\w+)(, continued)?\n")
LONGEST_S = 60


def pattern(lines):
    """A pattern for printed text: `…` is anything, and a line of it alone is any lines."""
    return "".join("(?:.*\n)*?" if line == "…" else "[^\n]*".join(map(re.escape, line.split("…"))) + "\n" for line in lines)


def commands(block):
    """Pairs of a command and the lines that it prints."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


class Page:
    """`environment` is added to that of commands and of the daemon's handlers; `settings` to the daemon's configuration."""

    def __init__(self, test, path, environment=None, settings=None):
        self.test, self.text = test, pathlib.Path(path).read_text()
        folder = tempfile.TemporaryDirectory(prefix="locksley-page-")
        test.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment, self.settings = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", **(environment or {})}, settings or {}
        self.daemon, self.background, self.ports = None, [], {}
        test.addCleanup(self.end)
        (self.folder / "bin").mkdir()
        (self.folder / "bin/locksley").symlink_to(program("LOCKSLEY"))
        (self.folder / "bin/locksleyd").symlink_to(program("LOCKSLEYD"))
        (self.folder / "bin/python3").symlink_to(sys.executable)
        self.carried_out = 0
        self.mask = ""  # of commands, whose files another user is to change

    def end(self):
        for process in self.background:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.background.clear()
        if self.daemon is not None:
            self.daemon.close()
            self.daemon = None

    def carry_out(self):
        """Carries out the page; returns the number of its commands."""
        for kind, block in BLOCK.findall(self.text):
            named = FILE.match(block)
            if named:
                path = self.folder / named[1]
                path.parent.mkdir(exist_ok=True)
                path.write_text((path.read_text() if named[2] else "") + block)
            elif kind == "yaml" and block.startswith(("handlers:", "exec:")):
                settings = yaml.safe_load(block)
                self.serve(settings.pop("handlers", {}), settings)
            elif kind == "console":
                for command, printed in commands(block):
                    self.command(command, printed)
        return self.carried_out

    def serve(self, handlers, more):
        self.end()
        if "path" in more.get("store", {}):
            more["store"]["path"] = f"{self.folder}/.store"
        if more.get("exec") and os.geteuid() == 0:
            more["process"] = {"user": "nobody"}
            self.mask = "umask 0; "
            self.folder.chmod(0o777)
        for handler in handlers.values():
            handler.setdefault("environment", [])
            if "command" in handler or "worker" in handler:
                handler["environment"] += [f"{name}={value}" for name, value in self.environment.items()]
            handler.update({"directory": str(self.folder)} if "command" in handler or "worker" in handler else {})
            if not handler["environment"]:
                del handler["environment"]
        self.daemon = Daemon(merged({"workers": {"port": 0}, "handlers": handlers, **more}, self.settings))
        self.ports = {"7770": str(self.daemon.port), "9770": self.daemon.http.rsplit(":", 1)[1]}
        found = re.search(r" workers=\S*:(\d+)", self.daemon.ready_line)
        self.ports.update({"7771": found[1]} if found else {})

    def with_ports(self, text):
        return re.sub(r"\b(?:7770|7771|9770)\b", lambda found: self.ports.get(found[0], found[0]), text).replace("build/bin/", "")

    def command(self, command, printed):
        self.carried_out += 1
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.suffix in (".py", ".js", ".mjs", ".rb", ".php", ".pl", ".go", ".java", ".sh"):
                text = path.read_text()
                if text != self.with_ports(text):  # a program in the background may be reading it
                    path.write_text(self.with_ports(text))
        environment = {**os.environ, "LOCKSLEY_URL": f"redis://127.0.0.1:{self.ports.get('7770', '1')}", **self.environment}
        behind = command.endswith(" &")
        process = subprocess.Popen(["bash", "-c", f"exec 2>&1; {self.mask}{self.with_ports(command.removesuffix(' &'))}"], cwd=self.folder, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if behind else subprocess.PIPE, start_new_session=True,
                                   preexec_fn=end_with_parent)
        if behind:
            self.background.append(process)
            return
        try:
            said, _ = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            self.test.fail(f"waited {LONGEST_S} s for: {command}\nIt printed: {said.decode(errors='replace')}")
        said = re.sub(r".*\r", "", said.decode(errors="replace"))
        self.test.assertRegex(said, rf"\A{pattern(printed)}\Z", f"{command}\n{self.daemon.log()[-3000:] if self.daemon else ''}")
