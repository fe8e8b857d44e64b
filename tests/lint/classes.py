#!/usr/bin/python3
"""No class does everything: a class that declares more than MANY functions, public and private ones together, says why, and no class declares more
than TOO_MANY. A limit on the lines of files is no limit on classes, since a class may be divided into any number of files."""

import re

import tree
from tree import Finding, Sample

MANY, TOO_MANY = 50, 65
REASON = re.compile(r"// Members: \S.{10,}")

CLASS = re.compile(r"\b(?:class|struct) (?:LOCKSLEY_\w+(?:\([^()]*\))? |\[\[\w+\]\] |alignas\([^()]*\) )*(\w+)(?: final)?(?: : [^;{}()]*)?\s*\{")
ANNOTATION = re.compile(r"\bLOCKSLEY_[A-Z_]+(?:\([^()]*\))?|\balignas\([^()]*\)|\[\[[^\]]*\]\]")
ACCESS = re.compile(r"^\s*(?:(?:public|protected|private)\s*:\s*)+")
NO_FUNCTION = re.compile(r"(?:using|friend|static_assert|enum|class|struct|union|typedef)\b(?!.*\boperator\b)")


def members(code, begin):
    """The statements of the class whose body begins at `begin`: declarations, and the heads of functions and of classes."""
    depth, statement = 1, ""
    for at in range(begin, len(code)):
        letter = code[at]
        if letter in "{}":
            depth += 1 if letter == "{" else -1
        if depth == 0:
            return
        if (letter == ";" and depth == 1) or (letter == "{" and depth == 2):
            yield statement
            statement = ""
        elif depth == 1 and letter != "}":
            statement += letter


def is_function(statement):
    statement = ACCESS.sub("", ANNOTATION.sub("", statement)).strip()
    if not statement or NO_FUNCTION.match(re.sub(r"^template <[^;]*?> ", "", statement)):
        return False
    # The text before the first parenthesis outside a type's arguments ends in a name, and gives no value yet: `int f(` and not `int x = g(`.
    if "operator" not in statement:
        while statement != (plain := re.sub(r"<[^<>]*>", "", statement)):
            statement = plain
    before, parenthesis, _ = statement.partition("(")
    return bool(parenthesis) and (re.search(r"\boperator\b", before) is not None or ("=" not in before and re.search(r"[\w~]\s*$", before) is not None))


def classes(text):
    """Each class of a header: its name, its line, and how many functions it declares."""
    code = tree.code_only(text)
    code = "\n".join("" if line.startswith("#") else line for line in code.split("\n"))
    for found in CLASS.finditer(code):
        yield found[1], code.count("\n", 0, found.start()) + 1, sum(map(is_function, members(code, found.end())))


def check(files):
    findings = []
    for path, text in files.items():
        if not path.endswith(".h") or path.startswith("tests/"):
            continue
        for name, line, count in classes(text):
            if count > TOO_MANY:
                findings.append(Finding(path, line, f"{name} declares {count} functions: take it apart"))
            elif count > MANY and not REASON.search(text):
                findings.append(Finding(path, line, f"{name} declares {count} functions, and no line `Members: reason` says why it is one class"))
    return findings


def sample(count, head=""):
    functions = "".join(f"  // What it does.\n  std::vector<int> f{n}(int x = g()) const LOCKSLEY_REQUIRES(mutex_) {{\n    if (x) h();\n    return {{}};\n  }}\n" for n in range(count))
    return {"core/a.h": f"{head}class LOCKSLEY_CAPABILITY(\"x\") A final : public B {{\n public:\n{functions} private:\n  int x_ = f();\n}};\n"}


SAMPLES = [
    Sample("as many as may be", sample(MANY), None),
    Sample("one more", sample(MANY + 1), f"core/a.h:1: A declares {MANY + 1} functions, and no line"),
    Sample("one more, with a reason", sample(MANY + 1, "// Members: each is a line, and hands on to a part\n"), None),
    Sample("far too many", sample(TOO_MANY + 1, "// Members: each is a line, and hands on to a part\n"), "take it apart"),
    Sample("members are no functions", {"core/a.h": "struct A {\n" + "  int x = f(1);\n  std::function<void(int)> y{};\n  using Z = void (*)(int);\n" * 60 + "};\n"}, None),
    Sample("functions of a class inside", {"core/a.h": "class A {\n  struct B {\n" + "    void f();\n" * 40 + "  };\n" + "  void g();\n" * 40 + "};\n"}, None),
    Sample("constructors and operators", {"core/a.h": "class A {\n" + "  A(int);\n  ~A();\n  bool operator==(A) const = default;\n" * 17 + "};\n"}, "A declares 51"),
    Sample("in tests", {"tests/a.h": sample(TOO_MANY + 1)["core/a.h"]}, None),
]

if __name__ == "__main__":
    tree.main(check, SAMPLES, keep=lambda path: path.endswith(".h"))
