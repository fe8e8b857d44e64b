#!/usr/bin/python3
"""Every shell script parses and passes shellcheck, and is executable unless it is only sourced (*.sh, *.bash)."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tree

# SC2317, "unreachable": does not see that a function's name is handed to stage(), which calls it.
EXCLUDED = "SC2317"
SHEBANG = re.compile(r"#! ?/(?:usr/)?bin/(?:env )?(?:ba|da)?sh\b")


def is_shell(text):
    return bool(SHEBANG.match(text)) or text.startswith("# shellcheck shell=")


def check(root, path):
    """What is wrong with the script, as text; empty if nothing."""
    full = root / path
    said = subprocess.run(["bash", "-n", str(full)], capture_output=True, text=True).stderr
    if not said:
        done = subprocess.run(["shellcheck", "--format=gcc", f"--exclude={EXCLUDED}", "--external-sources", "--source-path=SCRIPTDIR", path],
                              cwd=root, capture_output=True, text=True)
        said = done.stdout + done.stderr if done.returncode else ""
    if not path.endswith((".sh", ".bash")) and not os.access(full, os.X_OK):
        said += f"{path}: has #! but is not executable\n"
    return said


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)

        def said(text, mode=0o755):
            (root / "sample").write_text(text)
            (root / "sample").chmod(mode)
            return check(root, "sample")

        assert is_shell("#!/bin/sh\n") and is_shell("#!/usr/bin/env bash\n") and not is_shell("#!/usr/bin/python3\n")
        assert said('#!/bin/bash\necho "$1"\n') == "", "a good script was refused"
        assert said("#!/bin/bash\nif true; then\n"), "an unfinished if was not found"
        assert "SC2086" in said("#!/bin/bash\nrm $1\n"), "an unquoted variable was not found"
        assert "not executable" in said('#!/bin/bash\necho "$1"\n', 0o644)


if __name__ == "__main__":
    if "--self-test" in sys.argv[1:]:
        self_test()
        sys.exit(0)
    scripts = [path for path, text in tree.load().items() if is_shell(text)]
    said = "".join(check(tree.ROOT, path) for path in scripts)
    print(said or f"{len(scripts)} scripts, nothing found")
    sys.exit(1 if said or not scripts else 0)
