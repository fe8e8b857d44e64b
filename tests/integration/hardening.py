#!/usr/bin/python3
"""What deploy/harden.cmake asks of compiler and linker is in what they built: the two programs, and a plugin.

usage: hardening.py LOCKSLEYD PROGRAM... [--plugins PLUGIN...]"""

import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = """
#include <cstdio>
#include <cstring>
int main(int count, char** words) {
  char text[8];
  char large[100000];
  std::strcpy(text, words[0]);
  std::memset(large, count, sizeof large);
  std::fwrite(large, 1, static_cast<std::size_t>(text[0]), stdout);
}
"""
HARD = ["-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-fstack-clash-protection", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-Wl,-z,relro",
        "-Wl,-z,now", "-Wl,-z,noexecstack"]
SOFT = ["-O2", "-fno-pie", "-no-pie", "-fno-stack-protector", "-fno-stack-clash-protection", "-U_FORTIFY_SOURCE", "-Wl,-z,norelro", "-Wl,-z,lazy",
        "-Wl,-z,execstack", "-Wl,-rpath,/tmp"]
IS_X86 = platform.machine() == "x86_64"
if IS_X86:
    HARD.append("-fcf-protection=full")
    SOFT.append("-fcf-protection=none")
PROGRAMS, PLUGINS = [], []


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def missing(path, is_program=True):
    """What of it the file does not have."""
    dynamic, segments = said("readelf", "-dW", path), said("readelf", "-lW", path)
    found = set()

    def need(name, is_there):
        if not is_there:
            found.add(name)

    flags = [line for line in dynamic.splitlines() if "(FLAGS" in line]
    need("bind now", any(" NOW" in line or "BIND_NOW" in line for line in flags))
    need("relro", "GNU_RELRO" in segments)
    need("no stack that can be run", any(line.split()[-2] == "RW" for line in segments.splitlines() if "GNU_STACK" in line))
    need("no segment to write and to run", not any(" RWE " in line for line in segments.splitlines() if "LOAD" in line))
    need("no text to be relocated", "TEXTREL" not in dynamic)
    need("no folders to search for libraries", "(RPATH)" not in dynamic and "(RUNPATH)" not in dynamic)
    code = said("objdump", "-d", "--no-show-raw-insn", path) if is_program or IS_X86 else ""
    if IS_X86:
        # A start of its own in every function that is called by its address. (Debian's start files have no mark of it, so programs have none.)
        need("branch targets", code.count("endbr64") > 2)
    if is_program:
        symbols = said("readelf", "--dyn-syms", "-W", path)
        need("position-independent", any(" PIE" in line for line in flags))
        need("stack protector", "__stack_chk_fail" in symbols)
        need("checked libc", re.search(r" __(?!stack)\w+_chk\b", symbols))
        if IS_X86:
            # A frame of a page and more is touched page by page.
            need("stack clash protection", "orq    $0x0,(%rsp)" in code)
    return found


class Hardening(unittest.TestCase):
    def test_all_of_it_is_in_the_programs(self):
        self.assertEqual(missing(PROGRAMS[0]), set(), PROGRAMS[0])
        # The client has no such frame.
        for program in PROGRAMS[1:]:
            self.assertEqual(missing(program) - {"stack clash protection"}, set(), program)

    def test_what_plugins_can_have_is_in_the_plugins(self):
        for plugin in PLUGINS:
            self.assertEqual(missing(plugin, is_program=False), set(), plugin)

    def test_what_is_missing_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "sample.cc")
            source.write_text(SOURCE)
            for flags in (HARD, SOFT):
                subprocess.run(["c++", "-w", *flags, str(source), "-o", f"{folder}/sample"], check=True)
                found = missing(f"{folder}/sample")
                if flags == HARD:
                    self.assertEqual(found, set())
            # Linkers differ in what they do with a stack that can be run; no relocation of the text can be asked for.
            expected = {"bind now", "relro", "no stack that can be run", "position-independent", "stack protector", "checked libc",
                        "no folders to search for libraries"}
            if IS_X86:
                expected |= {"branch targets", "stack clash protection"}
            self.assertEqual(found, expected)


if __name__ == "__main__":
    words = sys.argv[1:]
    at = words.index("--plugins") if "--plugins" in words else len(words)
    PROGRAMS, PLUGINS = words[:at], words[at + 1:]
    if not PROGRAMS:
        sys.exit(__doc__)
    unittest.main(argv=sys.argv[:1], verbosity=2)
