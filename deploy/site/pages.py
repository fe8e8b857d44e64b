#!/usr/bin/python3
"""pages.py ROOT FOLDER: copies the repository's pages to FOLDER in the form that MkDocs wants.

GitHub and MkDocs differ, and the pages are written for GitHub. These are the changes on the way:

- Links to folders lead to their README.md. Files that are no pages and to which a page links become pages with their text, `x.py` as `x.py.md`.
- README.md of the root becomes readme.md, because deploy/site/index.md is the site's first page; .github/ becomes project/, because MkDocs
  leaves out names with a dot.
- MkDocs' Markdown wants an empty line before a list, four spaces for what belongs to an item of a list, and no backslash before | in code.
- `<!-- from PAGE: NAME -->` stands for the part of that page from `<!-- site: NAME -->` to `<!-- site: end -->`.
- The manual pages become HTML by mandoc, and their headings those of MkDocs: in mandoc's Markdown, lists within lists would be code."""

import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

FIRST = "deploy/site/index.md"
LEFT_OUT = (".github/ISSUE_TEMPLATE/", ".github/PULL_REQUEST_TEMPLATE.md")
PICTURES = (".webp", ".png", ".gif", ".svg")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".h": "cpp", ".cc": "cpp", ".cmake": "cmake", ".js": "js", ".mjs": "js", ".go": "go", ".rb": "ruby", ".php": "php"}
FENCE = re.compile(r" *(```+|~~~+)")
LINK = re.compile(r"(!?\[[^\]]*\]\(<?)([^)\s>]+)(>?\))")
CODE = re.compile(r"(`+[^`]+`+)")
PART = re.compile(r"^<!-- from (\S+): (\S+) -->$", re.MULTILINE)
MANUAL_HEADING = re.compile(r'<h([12]) class="S[hs]" id="[^"]*"><a class="permalink" href="[^"]*">(.*?)</a></h[12]>', re.DOTALL)
ITEM = re.compile(r"( *)(?:[-*+]|\d+\.) +")


class Broken(Exception):
    """A link or a part that is not there; says where."""


def tracked(root):
    """The files of the repository, also outside of git (an unpacked archive)."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode == 0:
        return sorted(name for name in set(listed.stdout.split("\0")) if name and (root / name).is_file())
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] != "build")


def place(path):
    """The place of a file in the site."""
    if path == FIRST:
        return "index.md"
    if path == "README.md":
        return "readme.md"
    if path.startswith(".github/"):
        return "project/" + path.removeprefix(".github/")
    return path


class Site:
    def __init__(self, root, into):
        self.root, self.into = root, into
        self.files = set(tracked(root))
        self.folders = {folder for path in self.files for folder in map(str, pathlib.PurePosixPath(path).parents)}
        self.linked = set()  # files that are no pages

    def write(self, path, text):
        target = self.into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def make(self):
        for path in sorted(self.files):
            if path.endswith(".md") and not path.startswith(LEFT_OUT):
                self.write(place(path), self.page(path))
        self.linked.add("deploy/locksley.yaml")
        for path in sorted(self.linked):
            self.copy(path)
        for path in sorted(self.files):
            if re.fullmatch(r"deploy/man/.*\.\d", path):
                self.write(path + ".md", self.manual(path))

    def page(self, path):
        text = PART.sub(lambda found: self.part(path, found[1], found[2]), (self.root / path).read_text())
        return in_form_of_mkdocs(self.with_links(path, text))

    def part(self, path, page, name):
        """The part of `page`, with its links relative to `path`."""
        found = re.search(rf"^<!-- site: {name} -->\n(.*?)^<!-- site: end -->$", (self.root / page).read_text(), re.MULTILINE | re.DOTALL)
        if not found:
            raise Broken(f"{path}: {page} has no part {name}")

        def moved(link):
            if is_elsewhere(link[2]):
                return link[0]
            target, mark, anchor = link[2].partition("#")
            whole = posixpath.join(posixpath.dirname(page), target) if target else page
            return link[1] + posixpath.relpath(whole, posixpath.dirname(path)) + mark + anchor + link[3]

        return outside_of_code(found[1], lambda text: LINK.sub(moved, text))

    def with_links(self, path, text):
        here = posixpath.dirname(place(path))

        def leading(link):
            if is_elsewhere(link[2]) or link[2].startswith("#"):
                return link[0]
            target, mark, anchor = link[2].partition("#")
            return link[1] + posixpath.relpath(self.target(path, target), here or ".") + mark + anchor + link[3]

        return outside_of_code(text, lambda part: LINK.sub(leading, part))

    def target(self, path, link):
        """The page of the site to which a link of `path` leads."""
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
        if whole in self.folders:
            whole = posixpath.normpath(posixpath.join(whole, "README.md"))
        if whole not in self.files:
            raise Broken(f"{path}: leads nowhere: {link}")
        if whole.endswith(".md"):
            return place(whole)
        self.linked.add(whole)
        return place(whole) if whole.endswith(PICTURES) else place(whole) + ".md"

    def copy(self, path):
        """The file itself, and a page that shows it."""
        into = self.into / place(path)
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.root / path, into)
        if path.endswith(PICTURES):
            return
        text = (self.root / path).read_text()
        name = posixpath.basename(path)
        self.write(place(path) + ".md", f"# {path}\n\n[The file itself]({name})\n\n````{LANGUAGES.get(posixpath.splitext(path)[1], 'text')}\n{text.rstrip()}\n````\n")

    def manual(self, path):
        done = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", self.root / path], capture_output=True, text=True, check=True)
        name, section = posixpath.basename(path).rsplit(".", 1)
        body = re.search(r'<div class="manual-text">\n(.*)</div>\n<table class="foot">', done.stdout, re.DOTALL)[1]
        body = re.sub(r"</?section\b[^>]*>\n", "", body)
        body = re.sub(r"\n +\|(?= |$)", " |", body, flags=re.MULTILINE)  # else it looks like a row of a Markdown table
        body = re.sub(r'<a class="Xr">([^<(]+)\((\d)\)</a>', lambda found: self.to_manual(path, found[1], found[2]), body)
        body = body.replace('<td><code class="Nm">', '<td style="white-space: nowrap"><code class="Nm">')
        written, *parts = MANUAL_HEADING.split(body)  # for each heading its level, its text, and the text below it
        assert not written.strip(), written
        text = f"# {name}({section})\n"
        for level, title, below in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
            # The ids of mandoc may be those that MkDocs gives to headings.
            below = re.sub(r'(<a class="permalink" href="#|\bid=")', r"\1item-", below)
            below = re.sub(r'<a class="Sx" href="#([^"]*)"', lambda link: f'<a class="Sx" href="#{link[1].lower().replace("_", "-")}"', below)
            text += f"\n{'#' * (int(level) + 1)} {' '.join(title.split())}\n\n" + (f"<div>\n{below}</div>\n" if below.strip() else "")
        return text

    def to_manual(self, path, name, section):
        """The mark of a manual page: a link if it is one of ours."""
        known = f"{posixpath.dirname(path)}/{name}.{section}" in self.files
        return f'<a href="{name}.{section}.html">{name}({section})</a>' if known else f"{name}({section})"


def is_elsewhere(link):
    return re.match(r"[a-z]+:", link)


def parts_by_fence(text):
    """Pairs of whether it is code between fences, and lines."""
    fence, lines = None, []
    for line in text.split("\n"):
        found = FENCE.match(line)
        if fence is None and found:
            yield False, lines
            fence, lines = found[1], [line]
        elif fence is not None and line.strip() == fence:
            yield True, [*lines, line]
            fence, lines = None, []
        else:
            lines.append(line)
    yield fence is not None, lines


def outside_of_code(text, change):
    """`change` applied to what is neither between fences nor between backticks. A link's own text may have backticks."""
    done = []
    for is_code, lines in parts_by_fence(text):
        if is_code:
            done += lines
            continue
        held = []

        def hold(found):
            held.append(found[0])
            return f"\0{len(held) - 1}\0"

        changed = change(CODE.sub(hold, "\n".join(lines)))
        if lines:
            done += re.sub(r"\0(\d+)\0", lambda found: held[int(found[1])], changed).split("\n")
    return "\n".join(done)


def in_form_of_mkdocs(text):
    done, in_list = [], False
    for is_code, lines in parts_by_fence(text):
        if is_code:
            # Within an item the block is indented as the item's other lines.
            indent = len(lines[0]) - len(lines[0].lstrip())
            done += [" " * (4 * levels(indent)) + line[indent:] if line.strip() else line for line in lines]
            continue
        for line in lines:
            item = ITEM.match(line)
            before = done[-1] if done else ""
            if item:
                if before.strip() and not in_list:
                    done.append("")
                in_list = True
                done.append(" " * (4 * levels(len(item[1]))) + line.lstrip())
            elif not line.strip():
                done.append(line)
            elif in_list and line.startswith("  "):
                done.append(" " * (4 * levels(len(line) - len(line.lstrip()))) + line.lstrip())
            else:
                if in_list and before.strip() and not line.startswith((" ", "|")):
                    done.append("")  # GitHub would go on with the item; no page means that
                in_list = False
                done.append(CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.startswith("|") else line)
    return "\n".join(done)


def levels(indent):
    """How deep in lists: items are indented by two, or after numbers by three."""
    return (indent + 1) // 2 if indent < 4 else 2


def main(root, into):
    root, into = pathlib.Path(root).resolve(), pathlib.Path(into)
    shutil.rmtree(into, ignore_errors=True)
    try:
        Site(root, into).make()
    except Broken as broken:
        sys.exit(str(broken))


if __name__ == "__main__":
    main(*sys.argv[1:])
