#!/usr/bin/python3
"""The operations guide, deploy/README.md: every command in it is carried out, in order, on a machine that is made of folders, with a systemctl of a
few lines in systemd's place; and it has a word on each alert."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from held_port import hold_port
from locksley_daemon import end_with_parent, program
from scratch import scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "deploy" / "README.md"

# As systemd does it, with what the unit says: started, it is over once the daemon serves; stopped, once it has ended.
SYSTEMCTL = r"""#!/bin/bash
set -eu
start() {
  : > "$MACHINE/ready"
  cd "$MACHINE/var/lib/locksley"
  "$LOCKSLEYD" --config "$MACHINE/etc/locksley/locksley.yaml" >> "$MACHINE/ready" 2>> "$MACHINE/log" < /dev/null &
  echo $! > "$MACHINE/pid"
  until grep -q '^ready ' "$MACHINE/ready"; do kill -0 "$(cat "$MACHINE/pid")"; sleep 0.05; done
}
stop() {
  kill -TERM "$(cat "$MACHINE/pid")"
  while kill -0 "$(cat "$MACHINE/pid")" 2> /dev/null; do sleep 0.05; done
}
reload() {
  local before
  before=$(grep -c 'configuration read again' "$MACHINE/log" || true)
  kill -HUP "$(cat "$MACHINE/pid")"
  until (($(grep -c 'configuration read again' "$MACHINE/log") > before)); do sleep 0.05; done
}
case $1 in
  restart) stop; start ;;
  is-active) kill -0 "$(cat "$MACHINE/pid")" && echo active ;;
  *) "$1" ;;
esac
"""
JOURNALCTL = '#!/bin/bash\n# -u UNIT -n LINES\ntail -n "$4" "$MACHINE/log"\n'


def examples():
    """For each block of commands: the line where it begins, and pairs of command and expected lines."""
    found, inside = [], False
    for number, line in enumerate(GUIDE.read_text().splitlines(), 1):
        if line == "```console":
            inside = True
            found.append((number, []))
        elif line == "```":
            inside = False
        elif inside and line.startswith("$ "):
            found[-1][1].append((line[2:], []))
        elif inside:
            found[-1][1][-1][1].append(line)
    return found


def pattern(lines):
    """Of what is printed: `…` is anything, and a line of it alone is any lines."""
    return "".join("(?:.*\n)*?" if line == "…" else "[^\n]*".join(map(re.escape, line.split("…"))) + "\n" for line in lines)


class Guide(unittest.TestCase):
    def setUp(self):
        self.machine = scratch(self, "locksley-machine-")
        for path in ("etc/locksley", "var/lib/locksley", "var/backups", "bin"):
            (self.machine / path).mkdir(parents=True)
        for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
            (self.machine / "bin" / name).write_text(text)
            (self.machine / "bin" / name).chmod(0o755)
        self.ports = {}
        for port in (7770, 9770):
            self.ports[port] = hold_port(self)
        (self.machine / "etc/locksley/locksley.yaml").write_text(self.here((ROOT / "deploy/package/locksley.yaml").read_text()))
        self.environment = os.environ | {
            "LC_ALL": "C.UTF-8",  # bash complains of a locale that a machine does not have
            "MACHINE": str(self.machine),
            "LOCKSLEY_URL": f"redis://127.0.0.1:{self.ports[7770]}",
            "PATH": ":".join([str(self.machine / "bin"), str(pathlib.Path(program("LOCKSLEYD")).parent), str(pathlib.Path(program("LOCKSLEY")).parent), os.environ["PATH"]]),
        }
        self.addCleanup(self.stop)
        self.shell = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment, preexec_fn=end_with_parent)
        self.addCleanup(self.shell.communicate)

    def stop(self):
        pid = self.machine / "pid"
        if pid.exists():
            subprocess.run(["bash", "-c", f"kill -KILL {pid.read_text()}"], stderr=subprocess.DEVNULL, check=False)

    def here(self, text):
        """Paths and ports of this machine in the place of the guide's."""
        for path in ("/etc/locksley", "/var/lib/locksley", "/var/backups"):
            text = text.replace(path, f"{self.machine}{path}")
        for port, mine in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(mine), text)
        return text

    def carry_out(self, command):
        """In one shell, so that variables stay. What it prints, and its exit status."""
        end = "--- end of the command"
        self.shell.stdin.write(f"{{ {self.here(command)}\n}} < /dev/null; echo '{end}' $?\n")
        self.shell.stdin.flush()
        said = ""
        for line in self.shell.stdout:  # CTest's time limit bounds it
            if line.startswith(end):
                return said, int(line.removeprefix(end))
            said += line
        raise AssertionError(f"the shell ended: {said}")

    def test_every_command_does_what_the_guide_says(self):
        self.assertEqual(self.carry_out("systemctl start"), ("", 0))
        self.assertGreater(sum(len(commands) for _, commands in examples()), 25)
        for number, commands in examples():
            for command, expected in commands:
                with self.subTest(f"the block at line {number}: {command}"):
                    said, status = self.carry_out(command)
                    self.assertEqual(status, 0, said)
                    expected = [self.here(line) for line in expected]
                    self.assertRegex(said, re.compile(rf"\A{pattern(expected)}\Z"))

    def test_a_word_on_each_alert(self):
        groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
        rows = re.findall(r"^\| (`Locksley[^|]+) \|", GUIDE.read_text(), re.MULTILINE)
        named = re.findall(r"`(\w+)`", " ".join(rows))
        self.assertEqual(sorted(named), sorted(rule["alert"] for group in groups for rule in group["rules"]))

    def test_what_it_links_to_is_there(self):
        for readme in ROOT.glob("deploy/**/README.md"):
            for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", readme.read_text()):
                if not target.startswith("http"):
                    self.assertTrue((readme.parent / target).exists(), f"{readme}: {target}")


if __name__ == "__main__":
    unittest.main()
