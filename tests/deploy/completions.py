#!/usr/bin/python3
"""What the Tab key offers, in bash, zsh and fish, against the real programs and a daemon."""

import os
import pathlib
import shlex
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, program

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "completions"

# Each prints what the shell would offer for the last word of the line "$@".
BASH = r"""
source "$COMPLETIONS/locksley.bash"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_locksley "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
ZSH = r"""
last=${@[-1]}
compadd() { shift; for word in "$@"; do [[ $word == $last* ]] && print -r -- $word; done; return 0 }
_files() { : }
words=("$@") CURRENT=$#
source "$COMPLETIONS/locksley.zsh"
"""
FISH = r"""
source "$COMPLETIONS/locksley.fish"
complete --do-complete="$LINE" | string replace -r '\t.*' ''
exit 0
"""


class Completions(DaemonTest):
    def setUp(self):
        daemon = self.start()
        connection = self.connect(daemon)
        connection("SUBMIT", "echo", "ID", "monday", "JOBS", "a")
        connection("SUBMIT", "sleep", "ID", "tuesday", "JOBS", "0", "x", "0", "y")
        connection.wait("tuesday")
        self.url = f"redis://{daemon.host}:{daemon.port}"

    def offered(self, shell, *words):
        scripts = {"bash": ["bash", "-c", BASH, "bash"], "zsh": ["zsh", "-f", "-c", ZSH, "zsh"], "fish": ["fish", "--no-config", "-c", FISH]}
        folders = {str(pathlib.Path(program(name)).parent) for name in ("LOCKSLEY", "LOCKSLEYD")}
        environment = os.environ | {
            "COMPLETIONS": str(FOLDER),
            "LINE": " ".join(map(shlex.quote, words[:-1])) + " " + words[-1],
            "LOCKSLEY_URL": self.url,
            "PATH": ":".join([*folders, os.environ["PATH"]]),
            "HOME": "/nonexistent",
            "LC_ALL": "C.UTF-8",  # bash complains of a locale that a machine does not have
        }
        arguments = [] if shell == "fish" else words
        done = subprocess.run([*scripts[shell], *arguments], capture_output=True, text=True, timeout=DEADLINE_S, env=environment, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def check(self, shell):
        for line, expected, not_expected in (
            (("locksley", ""), {"submit", "run", "results", "tenants", "bench"}, {"echo", "--json"}),
            (("locksley", "res"), {"results", "resume"}, {"run"}),
            (("locksley", "help", "res"), {"results", "resume"}, {"run", "monday"}),
            (("locksley", "help", "results", ""), set(), {"monday", "results"}),
            (("locksley", "--pass"), {"--password-file"}, set()),
            (("locksley", "submit", ""), {"echo", "sha256", "fib"}, {"monday"}),
            (("locksley", "--url", self.url, "run", "sh"), {"sha256"}, {"echo"}),
            (("locksley", "submit", "echo", "--re"), {"--retries", "--retain"}, {"--weight"}),
            (("locksley", "submit", "echo", "--keep", ""), {"all", "failures", "none"}, {"echo"}),
            (("locksley", "submit", "echo", "--after", ""), {"monday"}, {"echo"}),
            (("locksley", "list", "--state", "r"), {"running"}, {"open"}),
            (("locksley", "wait", ""), {"monday"}, {"echo"}),
            (("locksley", "retry", ""), {"monday", "tuesday"}, {"1"}),
            (("locksley", "retry", "tuesday", ""), {"1", "3"}, {"0", "2", "tuesday"}),
            (("locksley", "results", "monday", "--"), {"--results", "--files"}, {"monday"}),
            (("locksley", "bench", "--handler", "s"), {"sleep", "spin", "sha256"}, {"echo"}),
            (("locksleyd", "--c"), {"--config", "--check-config"}, {"--version"}),
        ):
            with self.subTest(" ".join(line)):
                offered = self.offered(shell, *line)
                self.assertLessEqual(expected, offered)
                self.assertFalse(not_expected & offered)

    def test_bash(self):
        self.check("bash")

    def test_zsh(self):
        self.check("zsh")

    def test_fish(self):
        self.check("fish")


if __name__ == "__main__":
    unittest.main()
