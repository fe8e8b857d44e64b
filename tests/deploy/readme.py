#!/usr/bin/python3
"""README.md: every command in it is carried out, each block in a folder that looks like a clone in which `deploy/demo` has built, with what the text
around it gives: configurations, workers, programs, a plugin, pictures. The two commands at its beginning are deploy.demo and what runs all tests."""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from client_packages import install_node
from held_port import hold_port
from locksley_daemon import DEADLINE_S, end_with_parent, program, wait_for
from scratch import scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = [(kind, text.splitlines()) for kind, text in re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)]
# As it is called in the text, but for its ports; what it prints when it is ready is in a file.
LOCKSLEYD = """#!/bin/bash
config=here.yaml
if [[ ${1:-} == --config ]]; then cp "$2" "$config"; fi
printf 'listen: {port: %s}\\nhttp: {port: %s}\\n' "$PORT" "$HTTP_PORT" >> "$config"
exec "$LOCKSLEYD" --config "$config" > ready
"""


def commands(name):
    """The block of commands in which `name` occurs, without remarks."""
    (found,) = [[line[2:].split("  #")[0].strip() for line in lines if line.startswith("$ ")] for _, lines in BLOCKS if any(line.startswith("$ ") and name in line for line in lines)]
    return found


def example(kind, name):
    """The text of that kind in which `name` occurs."""
    (found,) = ["\n".join(lines) + "\n" for its_kind, lines in BLOCKS if its_kind == kind and any(name in line for line in lines)]
    return found


class Readme(unittest.TestCase):
    carried_out = set()  # by all tests

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.installed = pathlib.Path(folder.name)
        install_node(cls.installed)

    def setUp(self):
        self.clone = scratch(self, "locksley-readme-")
        self.bin = self.clone / "build/bin"
        self.bin.mkdir(parents=True)
        (self.bin / "locksleyd").write_text(LOCKSLEYD)
        (self.bin / "locksleyd").chmod(0o755)
        (self.bin / "locksley").symlink_to(program("LOCKSLEY"))
        for name in ("core", "deploy"):
            (self.clone / name).symlink_to(ROOT / name)
        for name in ("README.md", "proto/PROTOCOL.md"):
            (self.clone / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.clone / name)
        self.ports = {}
        for port in ("7770", "9770"):
            self.ports[port] = str(hold_port(self))
        self.environment = os.environ | {
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.clone),
            "PORT": self.ports["7770"],
            "HTTP_PORT": self.ports["9770"],
            "LOCKSLEY_URL": f"redis://127.0.0.1:{self.ports['7770']}",
            "PATH": f"{self.bin}:{os.environ['PATH']}",
        }
        self.daemons = []
        self.addCleanup(self.stop)

    def stop(self):
        for daemon in self.daemons:
            daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(1)
            daemon.terminate()  # not to wait for what is queued; of two at once it would see one
            daemon.wait(DEADLINE_S)

    def carry_out(self, command):
        """What it prints; of one in the background nothing, once the daemon that it starts is ready."""
        self.carried_out.add(command)
        for port, mine in self.ports.items():
            command = re.sub(rf"\b{port}\b", mine, command)
        options = {"cwd": self.clone, "env": self.environment, "stdin": subprocess.DEVNULL, "preexec_fn": end_with_parent}
        if command.endswith(" &"):
            self.daemons.append(subprocess.Popen(["bash", "-c", f"exec {command[:-2]}"], **options))
            ready = self.clone / "ready"
            wait_for(f"{command} to serve", lambda: ready.exists() and ready.read_text().startswith("ready "))
            return ""
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, timeout=4 * DEADLINE_S, **options)
        self.assertEqual(done.returncode, 0, command)
        return done.stdout

    def carry_out_block(self, name):
        return [self.carry_out(command) for command in commands(name)]

    def test_by_hand(self):
        _, digests, big, batches, metrics = self.carry_out_block("sha256")
        files = [self.clone / "README.md", self.clone / "proto/PROTOCOL.md"]
        self.assertEqual(sorted(digests.split()), sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in files))
        self.assertRegex(batches, rf"{big.strip()} .*\bbig\b")
        self.assertIn("\nlocksley_jobs_total{", metrics)

    def test_thumbnails(self):
        (self.clone / "Pictures/summer").mkdir(parents=True)
        for name in ("a.png", "summer/b.png"):
            Image.new("RGB", (600, 400), (30, 180, 40)).save(self.clone / "Pictures" / name)
        self.carry_out_block("thumbnails")
        for name in ("a.png.jpg", "summer/b.png.jpg"):
            with Image.open(self.clone / "thumbnails" / name) as thumbnail:
                self.assertEqual(max(thumbnail.size), 256)

    def test_handlers_in_yaml_and_python(self):
        (self.clone / "mine.yaml").write_text(example("yaml", "shout"))
        (self.clone / "shout.py").write_text(example("python", "shout"))
        shutil.copy(ROOT / "deploy/examples/python/locksley_worker.py", self.clone)
        _, lines, shouted = self.carry_out_block("shout hello")
        self.assertEqual(lines.split()[0], str(TEXT.count("\n")))
        self.assertEqual(shouted, "HELLO\n")

    def test_programs_in_python_and_node(self):
        (self.clone / "tasks.yaml").write_text(example("yaml", "tasks:app"))
        (self.clone / "tasks.py").write_text(example("python", "thumbnail"))
        (self.clone / "client.mjs").write_text(example("js", "thumbnail"))
        (self.clone / "locksley").symlink_to(ROOT / "proto/clients/python/locksley")
        (self.bin / "python3").symlink_to(sys.executable)
        (self.clone / "node_modules").symlink_to(self.installed / "node_modules")
        for name in ("tasks.py", "client.mjs"):
            path = self.clone / name
            path.write_text(path.read_text().replace("7770", self.ports["7770"]))
        _, in_python = self.carry_out_block("python3 tasks.py")
        (in_node,) = self.carry_out_block("client.mjs")
        self.assertEqual(in_python, "0 a.jpg in 256 pixels\n1 b.jpg in 256 pixels\n")
        self.assertEqual(in_node, "0 c.jpg in 256 pixels\n1 d.jpg in 256 pixels\n")

    def test_a_plugin_in_cxx(self):
        (self.clone / "squares.yaml").write_text(example("yaml", "squares"))
        (self.clone / "squares.cc").write_text(example("cpp", "squares"))
        *_, sum_of_squares = self.carry_out_block("run squares")
        self.assertEqual(int(sum_of_squares), sum(i * i for i in range(1000)))


class Whole(unittest.TestCase):
    def test_the_two_commands(self):
        (block,) = [lines for _, lines in BLOCKS if lines[0].startswith("./deploy/")]
        self.assertEqual([line.split()[0] for line in block], ["./deploy/demo", "./deploy/test"])

    def test_no_command_was_left_out(self):
        """After the others, as the name of this class sorts behind theirs."""
        every = {line[2:].split("  #")[0].strip() for _, lines in BLOCKS for line in lines if line.startswith("$ ")}
        self.assertEqual(Readme.carried_out, every)

    def test_what_it_links_to_is_there(self):
        text = re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if not target.startswith("http"):
                self.assertTrue((ROOT / target).exists(), target)

    def test_each_test_that_is_named_is_there(self):
        """Here and in SECURITY.md, `file`, `name`, … says that the file has these tests; without a folder, a script is one of tests/integration/, and a
        unit test stands beside the one that is named before it."""
        for page in ("README.md", ".github/SECURITY.md"):
            text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
            files, path, tests, count = {}, ROOT, "", 0
            for code, link in re.findall(r"`([^`\n]+)`|\]\((tests/[^)]+)\)", text):
                word = code or link
                if re.fullmatch(r"[\w/]+_test\.cc|[\w/]+\.py", word) and word not in ("shout.py", "tasks.py"):  # its examples
                    beside = path.parent if word.endswith(".cc") else ROOT / "tests/integration"
                    path = files.get(word) or (ROOT / word if "/" in word else beside / word)
                    self.assertTrue(path.exists(), f"{page}: {word}")
                    files[path.name], tests = path, path.read_text()
                elif re.fullmatch(r"test_\w+|(?=.{14})([A-Z][a-z0-9]*){4,}|Crowds|Names|Processes", word):
                    definition = rf"(?m)^ +def {word}\(|^class {word}\(|^TEST(_[FP])?\(\w+, {word}\)|^ +\"{word}\",$"
                    self.assertTrue(re.search(definition, tests), f"{page}: {word} is not in the file that is named before it")
                    count += 1
            self.assertGreater(count, 4, page)


if __name__ == "__main__":
    unittest.main()
