#!/usr/bin/python3
"""Every atomic operation that is weaker than sequentially consistent says why, just above its statement:

    // [ring-publish] release: the slot is filled; pairs with the acquire in steal()
    tail_.store(next, std::memory_order_release);

The label names a pair and stands at both of its ends: over the tree, each label has an end that releases and an end that
acquires (acq_rel and seq_cst are both). relaxed needs a reason only; a label is welcome. A statement with several orders
names each of them, in one comment (`[label] acq_rel/relaxed: …`) or in several. One comment serves the statements right
below it, up to the first blank line, comment, or statement without an order. "as above" ("as ...") will do where the same
label and order were explained further up in the file. A comment that mentions `[label]` without naming an order first, as over a
sequentially consistent operation, counts as whichever end is missing.

There are no standalone fences: ThreadSanitizer cannot see them. A fence that only the compiler obeys (atomic_signal_fence) is allowed with `// fence:
reason` just above, because the code beside it is not C++ at all."""

import re

import tree
from tree import Finding, Sample

ORDER = re.compile(r"memory_order(?:_|::)(relaxed|acquire|release|acq_rel|consume)\b")
COMPILER_FENCE = re.compile(r"\batomic_signal_fence\b")
FENCE = re.compile(r"\b(atomic_thread_fence|__sync_synchronize|__atomic_thread_fence|_mm_[mls]fence)\b")
WORD = r"(?:relaxed|acquire|release|acq_rel|seq_cst)"
NOTE = re.compile(rf"(?:\[(?P<label>[a-z0-9][a-z0-9-]*)\]\s*)?(?P<orders>{WORD}(?:\s*(?:/|,|and|\+)\s*{WORD})*)\s*:(?P<reason>.*)")
ACQUIRES = {"acquire", "acq_rel", "seq_cst"}
RELEASES = {"release", "acq_rel", "seq_cst"}
MENTION = re.compile(r"\[([a-z0-9][a-z0-9-]*)\]")
SHORTEST_REASON = 12  # characters; a guess: "as usual" is none, "only a hint" is shorter than any honest one


def comment_of(line):
    """The text of a line that is nothing but a comment, else None."""
    stripped = line.strip()
    return stripped[2:].strip() if stripped.startswith("//") else None


def notes_in(comment_lines):
    """(label or None, orders, reason) of each note in a block of comment lines; a reason may run over several lines."""
    notes = []
    for text in comment_lines:
        match = NOTE.match(text)
        if match:
            notes.append([match["label"], set(re.findall(WORD, match["orders"])), match["reason"].strip()])
        elif notes:
            notes[-1][2] += " " + text
    return notes


def statement_start(code, number):
    """Index of the first line of the statement that line `number` is in."""
    while number > 0:
        previous = code[number - 1].strip()
        if not previous or previous.endswith((";", "{", "}", ":")) or previous.startswith("#"):
            break
        number -= 1
    return number


def block_above(lines, code, start):
    """Comment lines that serve the statement starting at `start`."""
    number = start
    while True:
        comments = []
        above = number - 1
        while above >= 0 and (text := comment_of(lines[above])) is not None:
            comments.insert(0, text)
            above -= 1
        if comments or number == 0 or not code[number - 1].strip():
            return comments
        # The statement just above may share its comment with this one, if it has an order of its own.
        previous = statement_start(code, number - 1)
        if not ORDER.search("\n".join(code[previous:number])):
            return []
        number = previous


def check(files):
    findings = []
    ends = {}  # label -> [orders seen, first place]
    mentions = set()
    for path, text in files.items():
        if not tree.is_cpp(path):
            continue
        lines = text.split("\n")
        code = tree.code_only(text).split("\n")
        # A label counts wherever its comment stands, over a sequentially consistent operation too.
        explained = set()  # (label, order) with a reason of its own, so far
        for number, line in enumerate(lines):
            comment = comment_of(line) or ""
            match = NOTE.match(comment)
            if match and match["label"]:
                seen = ends.setdefault(match["label"], [set(), path, number + 1])
                seen[0].update(re.findall(WORD, match["orders"]))
                comment = comment[match.end("label"):]
            mentions.update(MENTION.findall(comment))
        for number, line in enumerate(code):
            if FENCE.search(line):
                findings.append(Finding(path, number + 1, "a standalone fence: order the accesses instead"))
            if COMPILER_FENCE.search(line):
                above = block_above(lines, code, statement_start(code, number))
                if not re.search(r"\bfence: .{%d}" % SHORTEST_REASON, " ".join(above)):
                    findings.append(Finding(path, number + 1, "a compiler's fence is not explained: put `// fence: reason` above"))
                continue
            for order in ORDER.findall(line):
                if order == "consume":
                    findings.append(Finding(path, number + 1, "memory_order_consume: no compiler implements it; say acquire"))
                    continue
                start = statement_start(code, number)
                comments = block_above(lines, code, start)
                # A comment may also stand inside the statement, above the line with the order.
                comments += [comment for inner in lines[start:number] if (comment := comment_of(inner)) is not None]
                notes = [note for note in notes_in(comments) if order in note[1]]
                if not notes:
                    findings.append(Finding(path, number + 1, f"{order} is not explained: put `// [label] {order}: reason` above"))
                    continue
                if any(len(reason) >= SHORTEST_REASON for _, _, reason in notes):
                    explained.update((label, order) for label, _, _ in notes)
                elif not any(reason.startswith("as ") and (label, order) in explained for label, _, reason in notes):
                    findings.append(Finding(path, number + 1, f"{order}: the reason is missing or too short"))
                    continue
                if order != "relaxed" and not any(label for label, _, _ in notes):
                    findings.append(Finding(path, number + 1, f"{order} needs a [label] that its other end shares"))
    for label, (orders, path, line) in sorted(ends.items()):
        strong = orders - {"relaxed"}
        if label in mentions:
            continue
        if strong and not strong & ACQUIRES:
            findings.append(Finding(path, line, f"[{label}] releases, and nothing with this label acquires"))
        elif strong and not strong & RELEASES:
            findings.append(Finding(path, line, f"[{label}] acquires, and nothing with this label releases"))
    return findings


PAIR = """
  // [slot] release: the slot is filled before the index says so
  tail_.store(next, std::memory_order_release);

  // [slot] acquire: pairs with the release in push()
  auto tail = tail_.load(std::memory_order_acquire);
"""
SAMPLES = [
    Sample("explained pair", {"core/a.h": PAIR}, None),
    Sample("default order", {"core/a.h": "tail_.store(next);\n"}, None),
    Sample("word in a comment", {"core/a.h": "// memory_order_release would do\nint x;\n"}, None),
    Sample("statement over lines", {"core/a.h": PAIR + """
  // [slot] acq_rel/relaxed: publishes and takes; a failure is only tried again
  return head_.compare_exchange_strong(expected, next,
                                       std::memory_order_acq_rel,
                                       std::memory_order_relaxed);
"""}, None),
    Sample("one comment for neighbours", {"core/a.h": """
  // relaxed: counters; a snapshot may be a little old
  a = a_.load(std::memory_order_relaxed);
  b = b_.load(std::memory_order_relaxed);
"""}, None),
    Sample("default argument", {"core/a.h": """
  // relaxed: the caller orders it by the lock that it holds
  int get(std::memory_order order = std::memory_order::relaxed) const;
"""}, None),
    Sample("no comment", {"core/a.h": "\n  tail_.store(next, std::memory_order_release);\n"}, "release is not explained"),
    Sample("other spelling", {"core/a.h": "\n  x.load(std::memory_order::relaxed);\n"}, "relaxed is not explained"),
    Sample("blank line between", {"core/a.h": "// relaxed: a counter, nothing hangs on it\n\n  x.load(std::memory_order_relaxed);\n"},
           "relaxed is not explained"),
    Sample("a plain statement between", {"core/a.h": """
  // relaxed: a counter, nothing hangs on it
  x.load(std::memory_order_relaxed);
  y = 1;
  z.load(std::memory_order_relaxed);
"""}, "core/a.h:5: relaxed is not explained"),
    Sample("wrong order named", {"core/a.h": "// [slot] acquire: pairs with push()\nx.store(1, std::memory_order_release);\n"},
           "release is not explained"),
    Sample("failure order not named", {"core/a.h": PAIR + """
  // [slot] acq_rel: publishes and takes in one step
  x.compare_exchange_weak(a, b, std::memory_order_acq_rel, std::memory_order_relaxed);
"""}, "relaxed is not explained"),
    Sample("no label", {"core/a.h": "// release: the slot is filled before\nx.store(1, std::memory_order_release);\n"}, "needs a [label]"),
    Sample("no reason", {"core/a.h": "// [slot] relaxed: ok\nx.load(std::memory_order_relaxed);\n"}, "too short"),
    Sample("lonely release", {"core/a.h": "// [slot] release: the slot is filled before\nx.store(1, std::memory_order_release);\n"},
           "nothing with this label acquires"),
    Sample("lonely acquire", {"core/a.h": "// [slot] acquire: the slot is filled before\nx.load(std::memory_order_acquire);\n"},
           "nothing with this label releases"),
    Sample("other end is the default", {
        "core/a.h": "// [slot] acquire: the slot is filled before\nx.load(std::memory_order_acquire);\n",
        "core/b.h": "// [slot] seq_cst: publishes the slot, and orders against sleepers\nx.store(1);\n"}, None),
    Sample("other end is mentioned", {
        "core/a.h": "// [slot] acquire: the slot is filled before\nx.load(std::memory_order_acquire);\n"
                    "// Sequentially consistent; [slot] pairs with the load.\nx.store(1);\n"}, None),
    Sample("as above", {"core/a.h": """
  // [sum] relaxed: a counter, nothing hangs on it
  a.load(std::memory_order_relaxed);
  b = 1;
  // [sum] relaxed: as above.
  c.load(std::memory_order_relaxed);
"""}, None),
    Sample("as above, and nothing is", {"core/a.h": "// [sum] relaxed: as above.\nx.load(std::memory_order_relaxed);\n"}, "too short"),
    Sample("fence", {"core/a.h": "std::atomic_thread_fence(std::memory_order_seq_cst);\n"}, "standalone fence"),
    Sample("compiler's fence", {"core/a.h": "std::atomic_signal_fence(std::memory_order_seq_cst);\n"}, "not explained"),
    Sample("compiler's fence, explained", {"core/a.h":
           "// fence: the kernel's barrier on the other side does the rest\nstd::atomic_signal_fence(std::memory_order_acq_rel);\n"}, None),
]

if __name__ == "__main__":
    tree.main(check, SAMPLES, keep=tree.is_cpp)
