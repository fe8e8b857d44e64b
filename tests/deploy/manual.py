#!/usr/bin/python3
"""The manual pages: well-formed, and true of the programs and of the configuration."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, program

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAN = ROOT / "deploy" / "man"
PAGES = sorted(MAN.glob("*.[158]"))


def text_of(name):
    return (MAN / name).read_text()


def run(*arguments):
    # man complains of a locale that a machine does not have.
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=DEADLINE_S, stdin=subprocess.DEVNULL, env=environment)


def options_of_help(help_text):
    """The options' names, by the names that begin their lines; long and short."""
    return {name.lstrip("-") for line in help_text.splitlines() for name in re.findall(r"^ {2,4}(-[\w-]+(?:,-[\w-]+)*)", line) for name in name.split(",")}


def commands_of_help(help_text):
    return set(re.findall(r"^  (\w[\w-]*) {2,}", help_text.split("Subcommands:")[1], re.MULTILINE))


def options_of_page(text):
    """What .Fl says: its words up to the argument; a long option is written `.Fl -name`."""
    found = set()
    for line in text.splitlines():
        for names in re.findall(r"\bFl ((?:-?[\w-]+(?: [,|] )?)+)", line):
            found |= {name.lstrip("-") for name in re.split(r" [,|] ", names)}
    return found


def items(text, macro):
    """For each .Ss the names in `.It MACRO a , b` with the text below each."""
    section, current, found = None, [], {}
    for line in text.splitlines():
        if line.startswith((".Ss ", ".Sh ")):
            section, current = line[4:], []
            found.setdefault(section, {})
        elif line.startswith(f".It {macro} "):
            current = [name for name in line[4 + len(macro) :].replace(",", " ").split() if name != macro]
            for name in current:
                found[section][name] = ""
        else:
            for name in current:
                found[section][name] += line + "\n"
    return found


class Pages(unittest.TestCase):
    def test_mandoc_and_man_have_nothing_to_say(self):
        self.assertEqual(len(PAGES), 3)
        for page in PAGES:
            with self.subTest(page.name):
                lint = run("mandoc", "-T", "lint", "-W", "warning", page)
                self.assertEqual((lint.returncode, lint.stdout + lint.stderr), (0, ""))
                man = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)
                self.assertEqual((man.returncode, man.stderr), (0, ""))
                self.assertGreater(len(man.stdout), 1000)

    def test_options_in_brackets_and_examples_are_shown_as_they_are_written(self):
        """An .Op that begins another one's line goes on to its end, and mdoc takes a word of punctuation for that of a sentence."""
        for page in PAGES:
            with self.subTest(page.name):
                shown = run("mandoc", "-T", "ascii", "-O", "width=1000", page).stdout
                shown = re.sub(r".\x08", "", shown)  # letters that are struck twice, or underlined
                self.assertEqual(re.findall(r"\[-[^\[\]]*\[-.*", shown), [])
                examples = re.findall(r"^\.Dl (.*)", page.read_text(), re.MULTILINE)
                self.assertGreater(len(examples), 0)
                for example in examples:
                    self.assertIn(example.replace("\\&", ""), shown)

    def test_they_name_each_other_and_nothing_else_that_is_ours(self):
        names = {(page.stem, page.suffix[1:]) for page in PAGES}
        for page in PAGES:
            for name, section in re.findall(r"^\.Xr (\S+) (\d)", page.read_text(), re.MULTILINE):
                if name.startswith("locksley"):
                    self.assertIn((name, section), names, page.name)
            self.assertIn(f".Dt {page.stem.upper()} {page.suffix[1:]}\n", page.read_text())


class Programs(unittest.TestCase):
    def test_each_option_of_the_daemon(self):
        shown = run(program("LOCKSLEYD"), "--help").stdout
        self.assertEqual(options_of_page(text_of("locksleyd.8")), options_of_help(shown))

    def test_each_command_and_option_of_the_client(self):
        page = text_of("locksley.1")
        shown = run(program("LOCKSLEY"), "--help").stdout
        commands = commands_of_help(shown)
        self.assertGreater(len(commands), 15)
        written = set()
        for section in items(page, "Cm").values():
            written |= set(section)
        # The line of a command goes on with its arguments.
        written = {name for name in written if re.search(rf"^\.It Cm (.* , Cm )?{name}\b", page, re.MULTILINE)} | set(re.findall(r", Cm (\w+)", page))
        self.assertEqual(commands - written, set(), "commands that the page does not have")
        options = options_of_help(shown)
        for command in commands:
            shown = run(program("LOCKSLEY"), command, "--help").stdout
            options |= options_of_help(shown)
            for inner in commands_of_help(shown) if "Subcommands:" in shown else ():
                options |= options_of_help(run(program("LOCKSLEY"), command, inner, "--help").stdout)
        self.assertGreater(len(options), 30)
        self.assertEqual(options_of_page(page), options)

    def test_each_exit_code(self):
        codes = {int(code) for code in re.findall(r"kExit\w+ = (\d+)", (ROOT / "daemon" / "base" / "exit_codes.h").read_text())}
        pages = [set(map(int, re.findall(r"\d+", " ".join(re.findall(r"^\.It ([\d ,]+)$", text_of(name), re.MULTILINE))))) for name in ("locksley.1", "locksleyd.8")]
        self.assertEqual(pages[0] | pages[1], codes)


class Configuration(unittest.TestCase):
    def known(self):
        """Every key of deploy/locksley.yaml, its samples included, as section and name; a test of the daemon sees that none is missing there."""
        text, sample = [], False
        for line in (ROOT / "deploy" / "locksley.yaml").read_text().splitlines():
            sample = bool(re.match(r"#\S", line)) or (sample and line.startswith("#"))
            if re.match(r"(lanes|handlers|users): \{\}", line):
                continue
            text.append(line[1:] if sample else line)
        keys = set()
        for section, values in yaml.safe_load("\n".join(text)).items():
            if not isinstance(values, dict):
                keys.add((section, section))
                continue
            for entry in values.values() if section in ("lanes", "handlers", "users") else [values]:
                for key, value in entry.items():
                    keys.add((section, key))
                    if isinstance(value, dict):
                        keys |= {("tls", inner) if key == "tls" else (section, f"{key}.{inner}") for inner in value}
        return keys - {("handlers", "limits"), ("handlers", "confine"), ("users", "customers")}

    def written(self):
        sections = items(text_of("locksley.yaml.5"), "Cm")
        return {(section, name): text for section, names in sections.items() for name, text in names.items()}

    def test_each_key(self):
        self.assertGreater(len(self.known()), 60)
        self.assertEqual(set(self.written()), self.known())

    def test_each_key_that_needs_a_restart(self):
        written = {key for key, text in self.written().items() if "[restart]" in text}
        shipped, section = set(), ""
        for line in (ROOT / "deploy" / "locksley.yaml").read_text().splitlines():
            if found := re.match(r"(\w+):", line):
                section = found[1]
            elif found := re.match(r"  (\w+):.*# \[restart\]", line):
                shipped.add((section, found[1]))
        self.assertGreater(len(shipped), 8)
        self.assertEqual(written, shipped)
        self.assertEqual(text_of("locksley.yaml.5").count("\n[restart]"), len(written), "a section needs one, or is said to")

    def test_each_default(self):
        dumped = yaml.safe_load(run(program("LOCKSLEYD"), "--check-config").stdout)
        dumped["tls"] = dumped["listen"]["tls"]
        checked = 0
        for (section, name), text in self.written().items():
            values = dumped.get(section, {})
            value = values.get(name) if isinstance(values, dict) else values
            said = re.search(r"Default: (?:\.Cm )?(\S+?)[.,]?(?:\s|$)", text)
            if isinstance(value, dict) or value in (None, "") or not said:
                continue
            with self.subTest(f"{section}.{name}"):
                self.assertEqual(said[1], str(value).lower() if isinstance(value, bool) else str(value))
                checked += 1
        self.assertGreater(checked, 20)


if __name__ == "__main__":
    unittest.main()
