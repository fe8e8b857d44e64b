#!/usr/bin/python3
"""Prose that a tired reader understands at the first reading, as far as a script can tell: no line of Markdown over 160 columns (tables, code
and links apart), and none of the words below in what is shipped: pages, sources, scripts, configurations. Each word has a better one beside it. Tests may use them."""

import re

import tree
from tree import Finding, Sample

WIDTH = 160
LINK = re.compile(r"\]\([^)]*\)|<https?:[^>]*>")
# A pattern, and what to write instead.
WORDS = (
    (r"somebody|someone|nobody|no one|whoever|whomever", "name the thread, the component, the client or the user"),
    (r"manieth", "'attempt number'"),
    (r"(?:can|could|to|may|must)(?:not)? be had", "'cannot be read', 'could not start'"),
    (r"comes? to pass|came to pass", "'happens'"),
    (r"hears? of|heard of", "'is notified of', 'knows'"),
    (r"in vain", "say what failed"),
)
# A user of the operating system has that name.
USER = re.compile(r"batch:nobody|(?:STATUS|SUBMIT) nobody|[\"'`(]nobody[\"'`):]|\buser:? nobody\b")
BAD = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in WORDS]
READ = (".md", ".h", ".cc", ".py", ".js", ".html", ".yaml", ".yml", ".txt", ".cmake", ".sh")
# Texts that are not ours, and this file.
LEFT_OUT = ("tests/", "LICENSE")


def is_read(path):
    return path.endswith(".md") or ((path.endswith(READ) or "." not in path.rsplit("/", 1)[-1]) and not path.startswith(LEFT_OUT))


def wide_lines(text):
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        if not in_code and not line.lstrip().startswith("|") and not line.startswith("    ") and len(LINK.sub("", line)) > WIDTH:
            yield number, len(line)


def check(files):
    findings = []
    for path, text in sorted(files.items()):
        if not is_read(path):
            continue
        if path.endswith(".md"):
            findings += [Finding(path, number, f"{columns} columns: one sentence a line, at most {WIDTH}") for number, columns in wide_lines(text)]
        for number, line in enumerate(text.split("\n"), 1):
            for pattern, instead in BAD:
                found = pattern.search(USER.sub("", line))
                if found:
                    findings.append(Finding(path, number, f"'{found[0]}': {instead}"))
    return findings


SAMPLES = [
    Sample("plain", {"README.md": "The writer wakes the thread that waits.\n", "a.cc": "// The reader owns it.\n"}, None),
    Sample("a table may be wide", {"README.md": "| " + "x" * 200 + " |\n"}, None),
    Sample("code may be wide", {"README.md": "```\n" + "x" * 200 + "\n```\n"}, None),
    Sample("a link does not count", {"README.md": f"See [it]({'x' * 200}).\n"}, None),
    Sample("the user of that name", {"a.cc": 'use("nobody");\n', "a.yaml": "user: nobody\n"}, None),
    Sample("a wide line", {"README.md": "word " * 40 + "\n"}, "at most 160"),
    Sample("a riddle", {"a.h": "// Whoever waits hears of it.\n"}, "a.h:1"),
    Sample("a message", {"a.cc": 'fail("cannot be had");\n'}, "could not start"),
]

if __name__ == "__main__":
    tree.main(check, SAMPLES, is_read)
