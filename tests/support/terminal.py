"""A terminal under tmux: what is typed into it, and what is on its screen."""

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from locksley_daemon import DEADLINE_S, end_with_parent, wait_for
from programs import grandchildren_ended

SHELL = ["bash", "--norc", "--noprofile", "-i"]


class Terminal:
    """A tmux server with one window, in which a shell runs; its socket is in a folder of its own."""

    def __init__(self, environment, columns=80, rows=24):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="locksley-tmux-"))
        self.socket = self.folder / "socket"
        words = {"LC_ALL": "C.UTF-8", "PS1": "prompt> ", "HISTFILE": "", **environment}
        removed = [word for name in ("NO_COLOR", "LANG", "COLUMNS", "LINES") if name not in words for word in ("-u", name)]
        command = ["env", *removed, *(f"{name}={value}" for name, value in words.items()), *SHELL]
        # No daemon, so that it ends with the test, however that ends.
        self.server = subprocess.Popen(["tmux", "-D", "-u", "-S", self.socket, "-f", "/dev/null"], stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
        wait_for("tmux", self.listens)
        self.tmux("-u", "new-session", "-d", "-x", columns, "-y", rows, *command)
        self.wait_for_line("the shell's prompt", r"prompt>$")

    def tmux(self, *words):
        environment = {name: value for name, value in os.environ.items() if name != "TMUX"} | {"LC_ALL": "C.UTF-8"}
        done = subprocess.run(["tmux", "-S", self.socket, *map(str, words)], capture_output=True, timeout=DEADLINE_S, env=environment)
        if done.returncode != 0:
            raise AssertionError(f"tmux {words}: {done.stderr.decode()}")
        return done.stdout.decode()

    def listens(self):
        """Whether the server listens. Before that, a command would start a server of its own in its place (-N: it must not)."""
        return subprocess.run(["tmux", "-N", "-S", self.socket, "start-server"], capture_output=True, timeout=DEADLINE_S).returncode == 0

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def text(self, text):
        self.tmux("send-keys", "-l", text)

    def run(self, line):
        self.tmux("send-keys", "-l", line, ";", "send-keys", "Enter")

    def wait_for_line(self, what, pattern):
        """The first match on the screen, which is shown when it never came."""
        end = [""]

        def look():
            end[0] = self.screen()
            return re.search(pattern, end[0], re.MULTILINE)

        try:
            return wait_for(what, look, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen:\n{end[0]}") from None

    def resize(self, columns, rows):
        tty = os.open(self.tmux("display", "-p", "#{pane_tty}").strip(), os.O_RDONLY | os.O_NOCTTY)
        looks = itertools.count()

        def is_resized():
            # tmux tells the terminal a little later, and was seen to forget it: it is asked again, by way of another size.
            if (look := next(looks)) % 200 == 0:
                for more in (1, 0) if look else (0,):
                    self.tmux("resize-window", "-x", columns, "-y", rows + more)
            return os.get_terminal_size(tty) == (columns, rows)

        wait_for("the new size", is_resized)
        os.close(tty)

    def close(self):
        with grandchildren_ended(self.server.pid):
            self.server.terminate()
            self.server.wait(DEADLINE_S)
        shutil.rmtree(self.folder, ignore_errors=True)
