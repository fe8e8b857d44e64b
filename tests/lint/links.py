#!/usr/bin/python3
"""Each link of a page leads somewhere: to a file or folder of the tree, and where it has an anchor, to a heading of that page. So does each path in
backticks that begins with `../`; `../name.*` stands for all files of that name. And each path of `.github/CONTRIBUTING.md` that looks like one is
there. Links to other sites are not followed."""

import posixpath
import re

import tree
from tree import Finding, Sample

LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(r"[a-z]+:")
PICTURES = (".webp", ".png", ".svg")
CONTRIBUTORS = ".github/CONTRIBUTING.md"
RELATIVE = re.compile(r"`((?:\.\./)+[\w./*-]*)`")
NAMED = re.compile(r"`((?:core|daemon|deploy|proto|tests)/[\w./-]+)`")


def without_code(text):
    """The text without code blocks, with as many lines."""
    return CODE.sub(lambda found: "\n" * found[0].count("\n"), text)


def anchors(text):
    """The anchors that GitHub makes of the headings."""
    found = {}
    for heading in re.findall(r"^#+ +(.+?) *$", without_code(text), re.MULTILINE):
        words = re.sub(r"\]\([^)]*\)", "", heading.replace("`", "")).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {f"{anchor}-{number}" if number else anchor for anchor, last in found.items() for number in range(last + 1)}


def folders(files):
    found = set()
    for path in files:
        while path:
            path = posixpath.dirname(path)
            found.add(path)
    return found


def names_any(page, path, there):
    """Whether a path that the page names exists in `there`."""
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    if not whole.endswith(".*"):
        return whole in there or whole == "."
    return any(known.startswith(whole[:-1]) and "/" not in known[len(whole) :] for known in there)


def check(files):
    return list(wrong_links(files))


def wrong_links(files):
    there = folders(files) | set(files) | {""}
    for page, text in sorted(files.items()):
        if not page.endswith(".md"):
            continue
        for number, line in enumerate(without_code(text).split("\n"), 1):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if ELSEWHERE.match(target):
                    continue
                path, _, anchor = target.partition("#")
                path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
                path = "" if path == "." else path
                # A picture is no text, so it is not among `files`.
                if path not in there and not (path.endswith(PICTURES) and (tree.ROOT / path).is_file()):
                    yield Finding(page, number, f"leads nowhere: {target}")
                elif anchor and path.endswith(".md") and anchor not in anchors(files[path]):
                    yield Finding(page, number, f"no such heading: {target}")
            for path in RELATIVE.findall(line):
                if not names_any(page, path, there):
                    yield Finding(page, number, f"is not there: {path}")
            for path in NAMED.findall(line) if page == CONTRIBUTORS else ():
                if path.rstrip("/") not in there:
                    yield Finding(page, number, f"is not there: {path}")


SAMPLES = [
    Sample("all there", {"README.md": "# A `b` [c](d/e.md)\nSee [d](d/), [e](d/e.md#two-words) and [x](https://x.org).\n", "d/e.md": "## Two words\n"}, None),
    Sample("in code", {"README.md": "```\n[x](y)\n```\n`[x](y)`\n"}, None),
    Sample("the second heading of a name", {"README.md": "# A\n# A\n[a](#a-1)\n"}, None),
    Sample("no file", {"README.md": "[x](y.md)\n"}, "leads nowhere"),
    Sample("no picture", {"README.md": "![x](y.webp)\n"}, "leads nowhere"),
    Sample("no heading", {"README.md": "# A\n[x](#b)\n"}, "no such heading"),
    Sample("relative paths", {"a/README.md": "`../b/`, `../b`, `../b/c.*`, `../b/c.h`, `../../x y` and `..`\n", "b/c.h": ""}, None),
    Sample("no relative file", {"a/README.md": "`../c.h`\n", "b/c.h": ""}, "is not there: ../c.h"),
    Sample("no relative folder", {"a/README.md": "`../c/`\n", "b/c.h": ""}, "is not there: ../c/"),
    Sample("no files of a relative name", {"a/README.md": "`../b.*`\n", "b/c.h": ""}, "is not there: ../b.*"),
    Sample("a path of the contributors' page", {CONTRIBUTORS: "`core/nothing.h`\n"}, "is not there"),
]

if __name__ == "__main__":
    tree.main(check, SAMPLES)
