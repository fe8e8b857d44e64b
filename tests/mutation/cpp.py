"""Finds the places of a C++ text where one small change makes a program that may still compile, and writes the text with such changes.

It works on tokens, without a compiler, and relies on the format of the tree: clang-format puts spaces on both sides of a binary operator, and on
neither side of a template's angle brackets."""

import re
from typing import NamedTuple

_SKIPPED = re.compile(
    r"""//[^\n]* | /\*.*?\*/
      | R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'
      | (?m:^[ \t]*\#(?:\\\n|[^\n])*)
    """,
    re.VERBOSE | re.DOTALL,
)
_TOKEN = re.compile(
    r"""[A-Za-z_]\w* | \.?\d(?:'?[\w.])*
      | <=> | <<= | >>= | :: | -> | \+\+ | -- | && | \|\| | <= | >= | == | != | [-+*/%&|^]= | << | >> | \S
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"[A-Za-z_]\w*\Z")
_INTEGER = re.compile(r"(0|[1-9][0-9']*)([uUlL]*)\Z")

COMPARISONS = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)}
SIGNS = {"+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("/",)}
COMPOUND = {"+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "|=": ("&=",), "&=": ("|=",)}
STEPS = {"++": ("--",), "--": ("++",)}
LOGIC = {"&&": ("||",), "||": ("&&",)}
BOOLEANS = {"true": "false", "false": "true"}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}
_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = {")", "]", "}"}
_BEFORE_EXPRESSION = {"return", "co_return", "co_yield", "throw", "case", "else", "do"}
# A statement with one of these words is a declaration, or is evaluated while compiling.
_NOT_CODE = {"constexpr", "static_assert", "using", "typedef", "case", "asm", "__asm__", "alignas", "requires", "template", "enum", "default",
             "goto", "delete", "operator"}
# A call to one of these is an assertion: its condition and its message are left alone.
_ASSERTIONS = {"check", "assert", "unreachable"}
# What a statement that is no call begins with.
_NOT_CALLS = {"return", "co_return", "co_await", "throw", "break", "continue", "if", "for", "while", "switch", "do", "try", "catch", "delete", "new",
              "const", "auto", "static", "friend", "typename", "else"}


class Edit(NamedTuple):
    """Text [begin, end) is replaced by `text`."""

    begin: int
    end: int
    text: str


class Change(NamedTuple):
    """One possible change of a file. `edit` makes it. `switched` makes it depend on the expression ON at run time; None where that is impossible."""

    kind: str
    line: int  # of the change, from 1
    before: str  # that line
    after: str  # the same line, changed
    edit: Edit
    switched: Edit | None


def blank(text):
    """The text with comments, strings, character literals and directives as blanks; offsets and lines stay."""
    return _SKIPPED.sub(lambda found: "".join(c if c == "\n" else " " for c in found[0]), text)


def apply(text, edits):
    """The text with edits that do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.begin] + edit.text + text[edit.end :]
    return text


def uncommented(text):
    """The text with comments as blanks: what a comment to the end of a line would swallow may stand after it then."""
    return _SKIPPED.sub(lambda found: " " * len(found[0]) if found[0].startswith("//") else found[0], text)


class Source:
    """A file as tokens, with the brackets that belong together and the kind of scope of each token."""

    def __init__(self, text):
        self.text = text
        code = blank(text)
        found = list(_TOKEN.finditer(code))
        self.tokens = [one[0] for one in found]
        self.begins = [one.start() for one in found]
        self.ends = [one.end() for one in found]
        self.partner = {}
        self.in_function = []  # for each token: its innermost class, namespace or function is a function
        self.asserted = []  # it is an argument of an assertion
        self._match(code)

    def _match(self, code):
        stack = []  # (index of the opening token, kind)
        since = 0  # the first token of the statement
        for i, token in enumerate(self.tokens):
            self.in_function.append(self._scope(stack) == "function")
            self.asserted.append(any(kind == "assertion" for _, kind in stack))
            if token in _OPEN:
                if token == "{":
                    kind = self._brace_kind(since, i, self._scope(stack))
                elif i and self.tokens[i - 1] in _ASSERTIONS:
                    kind = "assertion"
                else:
                    kind = "bracket"
                stack.append((i, kind))
            elif token in _CLOSE and stack:
                opened, _ = stack.pop()
                self.partner[opened] = i
                self.partner[i] = opened
            if token in (";", "{", "}") and not any(self.tokens[at] == "(" for at, _ in stack[-1:]):
                since = i + 1

    @staticmethod
    def _scope(stack):
        for _, kind in reversed(stack):
            if kind in ("class", "function"):
                return kind
        return "class"

    def _brace_kind(self, since, at, scope):
        if scope == "function":
            return "function"
        words = []
        depth = 0
        for token in self.tokens[since:at]:
            if token == "<":
                depth += 1
            elif token in (">", ">>"):
                depth -= len(token)
            elif depth <= 0:
                words.append(token)
        heads = [word for word in words if word not in ("template", "typedef", "inline", "static")]
        if heads[:1] and heads[0] in ("class", "struct", "union", "namespace", "enum", "extern"):
            return "class"
        # A member's initialiser: what is before it is a name, and no end of a function's head.
        if words and _WORD.match(words[-1]) and words[-1] not in ("const", "noexcept", "override", "final", "try") and "->" not in words:
            return "class"
        return "function"

    def spaced(self, i):
        """Whether blanks stand on both sides of the token: it is a binary operator."""
        before, after = self.begins[i] - 1, self.ends[i]
        return before >= 0 and self.text[before].isspace() and after < len(self.text) and self.text[after].isspace()

    def _starts_operand(self, i):
        token = self.tokens[i]
        if _WORD.match(token) or token[0].isdigit() or token in ("(", "{", "++", "--", "!", "~", "::"):
            return True
        return token in ("*", "-", "&", "+") and not self.spaced(i)

    def statement(self, i):
        """The index of the first token of the statement that holds token i."""
        while i > 0:
            token = self.tokens[i - 1]
            if token in _CLOSE and i - 1 in self.partner and token != "}":
                i = self.partner[i - 1]
                continue
            if token in (";", "{", "}"):
                break
            i -= 1
        return i

    def expression(self, i):
        """The first and the last token of the largest expression around token i that holds no assignment but at i; None if there is none."""
        first = i
        while first > 0:
            token = self.tokens[first - 1]
            if token in ("(", "[", "{", ";", ",", "?", ":") or token in _BEFORE_EXPRESSION or token in _ASSIGNMENTS:
                break
            if token in _CLOSE:
                if first < i and self._starts_operand(first) or first == i and self._starts_operand(i):
                    break
                if first - 1 not in self.partner:
                    return None
                first = self.partner[first - 1]
                continue
            first -= 1
        last = i
        while last + 1 < len(self.tokens):
            token = self.tokens[last + 1]
            # What is assigned goes on behind a `?`.
            if token in (")", "]", "}", ";", ",") or token in ("?", ":") and self.tokens[i] not in _ASSIGNMENTS:
                break
            if token in _ASSIGNMENTS:
                return None
            if token in _OPEN:
                if last + 1 not in self.partner:
                    return None
                last = self.partner[last + 1]
                continue
            last += 1
        return first, last


def _line_of(text, at):
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text.count("\n", 0, at) + 1, begin, len(text) if end < 0 else end


def changes(text):
    """All changes of a text that this file knows how to make, by their place."""
    source = Source(text)
    tokens = source.tokens
    result = []

    def add(kind, at, edit, switched):
        number, begin, end = _line_of(text, at)
        inside = Edit(max(edit.begin, begin), min(edit.end, end), edit.text)
        after = apply(text[begin:end], [Edit(inside.begin - begin, inside.end - begin, inside.text)]).strip()
        result.append(Change(kind, number, text[begin:end].strip(), after or "(nothing)", edit, switched))

    def operator(kind, i, new):
        begin, end = source.begins[i], source.ends[i]
        edit = Edit(begin, end, new)
        around = source.expression(i)
        switched = None
        if around is not None:
            low, high = source.begins[around[0]], source.ends[around[1]]
            whole = uncommented(text[low:high])
            other = uncommented(text[low:begin] + new + text[end:high])
            switched = Edit(low, high, f"(ON ? ({other}) : ({whole}))")
        add(kind, begin, edit, switched)

    for i, token in enumerate(tokens):
        if not source.in_function[i] or source.asserted[i]:
            continue
        first = source.statement(i)
        if any(word in _NOT_CODE for word in tokens[first : i + 1]):
            continue
        begin, end = source.begins[i], source.ends[i]
        for kind, table, spaced in (("comparison", COMPARISONS, True), ("sign", SIGNS, True), ("compound", COMPOUND, True), ("logic", LOGIC, True),
                                    ("step", STEPS, False)):
            if token in table and (not spaced or source.spaced(i)):
                for new in table[token]:
                    operator(kind, i, new)
        if token in BOOLEANS and i > 0 and tokens[i - 1] == "return":
            add("return", begin, Edit(begin, end, BOOLEANS[token]), Edit(begin, end, f"(ON ? {BOOLEANS[token]} : {token})"))
        number = _INTEGER.match(token)
        if number and tokens[i - 1] != "]" and not (tokens[i - 1] == "=" and tokens[first] == "virtual"):
            value = int(number[1].replace("'", ""))
            for new in (value + 1, value - 1) if value else (1,):
                changed = f"{new}{number[2]}"
                add("constant", begin, Edit(begin, end, changed), Edit(begin, end, f"(ON ? {changed} : {token})"))
        if token in ("if", "while") and i + 1 < len(tokens) and tokens[i + 1] == "(" and i + 1 in source.partner:
            _condition(source, text, i + 1, add)
        if i == first and _is_call(source, i):
            last = i
            while tokens[last] != ";":
                last = source.partner[last] + 1 if last in source.partner and tokens[last] in _OPEN else last + 1
            stop = source.ends[last]
            add("call", begin, Edit(begin, stop, "{}"), Edit(begin, stop, "{ if (!ON) { " + uncommented(text[begin:stop]) + " } }"))
    return result


def _condition(source, text, opened, add):
    """`if (x)` becomes `if (!(x))`; of a condition with an initialiser, the part after it. One that declares a name is left alone."""
    closed = source.partner[opened]
    first = opened + 1
    i = first
    while i < closed:
        token = source.tokens[i]
        if token in _OPEN:
            i = source.partner[i]
        elif token == ";":
            first = i + 1
        i += 1
    i = first
    while i < closed:
        token = source.tokens[i]
        if token in _OPEN:
            i = source.partner[i]
        elif token == "=":
            return
        i += 1
    if first == closed:
        return
    begin, end = source.begins[first], source.ends[closed - 1]
    whole = uncommented(text[begin:end])
    add("negation", begin, Edit(begin, end, f"!({whole})"), Edit(begin, end, f"ON != static_cast<bool>({whole})"))


def _is_call(source, i):
    """Whether the statement that begins at token i is a call and nothing else."""
    tokens = source.tokens
    if not (_WORD.match(tokens[i]) or tokens[i] == "::") or tokens[i] in _NOT_CALLS or tokens[i] in _ASSERTIONS:
        return False
    previous = ""
    at = i
    while at < len(tokens):
        token = tokens[at]
        if token == ";":
            return previous == ")"
        if token in _ASSIGNMENTS or token in ("{", "}", "++", "--", "?", ":", ",") or token in _NOT_CODE:
            return False
        # Two words side by side, or a word after a template's arguments: a declaration.
        if _WORD.match(token) and previous and (_WORD.match(previous) or previous in (">", "&", "*", "&&", ">>", ")", "]")):
            return False
        if token in _OPEN:
            if at not in source.partner:
                return False
            at = source.partner[at]
            token = tokens[at]
        previous = token
        at += 1
    return False
