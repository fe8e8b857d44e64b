"""The servers under test: each a process of its own on a free port of 127.0.0.1, in a folder of its own, in memory, and
ended by its process id."""

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

START_S = 10  # milliseconds on an idle machine
END_S = 5
SEARCH_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin"  # Debian has gearmand where only root looks


def find(program):
    """Its path, or None."""
    return shutil.which(program, path=SEARCH_PATH)


def unwind_on_signals():
    """Ctrl-C and SIGTERM then end this process from within, so that servers are ended and folders removed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _frame: sys.exit(128 + caught))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def prepare_child():
    """In a child: no Ctrl-C of the terminal, its parent ends it; and SIGKILL when that ends without."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)


class Server:
    """A running server. `words(port, folder)` gives its command line; it must not go into the background."""

    def __init__(self, words):
        self.port = free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="wire-"))
        self.words = [str(word) for word in words(self.port, self.folder)]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [find(self.words[0]), *self.words[1:]],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=prepare_child,
            )
        self.pid = self.process.pid
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.close()
            raise

    def _wait_until_it_answers(self):
        end = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    log = (self.folder / "log").read_text(errors="replace")
                    raise SystemExit(f"{' '.join(self.words)} does not serve; its log: {log[-2000:]}") from None
                time.sleep(0.01)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class WithWorker(Server):
    """A locksleyd whose handler `echo` runs in another process: `worker(url, folder)` gives its command line."""

    def __init__(self, worker):
        self.worker = None
        self.port_for_workers = free_port()
        super().__init__(lambda port, folder: locksley_words(port, folder, self.port_for_workers))
        words = [str(word) for word in worker(f"redis://127.0.0.1:{self.port_for_workers}", self.folder)]
        with open(self.folder / "worker.log", "wb") as log:
            self.worker = subprocess.Popen(words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=prepare_child)

    def close(self):
        if self.worker is not None:
            self.worker.terminate()
            self.worker.wait(END_S)
        super().close()


def locksley():
    return Server(locksley_words)


def locksley_remote():
    return WithWorker(locksley_worker_words)


def locksley_python():
    return WithWorker(python_worker_words)


def locksley_package():
    return WithWorker(package_worker_words)


def redis():
    return Server(redis_words)


def gearman():
    return Server(gearman_words)


def beanstalk():
    return Server(beanstalk_words)


def locksley_words(port, folder, port_for_workers=None):
    # The defaults, but for the ports.
    config = folder / "locksley.yaml"
    text = f"listen: {{port: {port}}}\nhttp: {{port: 0}}\nstore: {{path: ''}}\n"
    if port_for_workers is not None:
        text += f"workers: {{port: {port_for_workers}}}\nhandlers: {{echo: {{remote: true}}, json: {{remote: true}}}}\n"
    config.write_text(text)
    return [os.environ["LOCKSLEYD"], "--config", config]


def locksley_worker_words(url, folder):
    config = folder / "worker.yaml"
    config.write_text(f"listen: {{port: 0}}\nhttp: {{port: 0}}\nstore: {{path: ''}}\nupstream: {{url: '{url}', handlers: [echo]}}\n")
    return [os.environ["LOCKSLEYD"], "--config", config]


def python_worker_words(url, _folder):
    return ["/usr/bin/python3", pathlib.Path(__file__).resolve().parent / "remote_echo.py", url]


def package_worker_words(url, _folder):
    here = pathlib.Path(__file__).resolve().parent
    paths = f"PYTHONPATH={here.parents[2] / 'proto/clients/python'}:{here}"
    return ["/usr/bin/env", paths, "/usr/bin/python3", "-B", "-m", "locksley", "package_echo:app", "--url", url]


def redis_words(port, folder):
    return ["redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", folder]


def gearman_words(port, folder):
    # One I/O thread: on two cores it is faster than two or four (the default), in jobs/s and in latency.
    files = ["--log-file=none", f"--pid-file={folder}/pid", "--config-file=/dev/null"]
    return ["gearmand", "--listen=127.0.0.1", f"--port={port}", "--threads=1", "--queue-type=builtin", *files]


def beanstalk_words(port, _folder):
    return ["beanstalkd", "-l", "127.0.0.1", "-p", port]


def cpu_seconds(pid):
    """That a running process has used, all its threads together; in steps of 10 ms."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
