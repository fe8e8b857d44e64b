"""What queries name, and whether a page of /metrics has it. Queries are taken apart by their words, not parsed: promtool and Prometheus
itself see to their grammar."""

import re
from typing import NamedTuple

# What Prometheus adds to each target, and its operator in Kubernetes; and its own series.
TARGET_LABELS = {"job", "instance", "namespace", "service"}
FOREIGN = {"up": TARGET_LABELS}
RESERVED = {"by", "on", "ignoring", "without", "group_left", "group_right", "and", "or", "unless", "bool", "offset", "inf", "nan"}
NAME = re.compile(r"(?<![\w:.$])[a-zA-Z_:][\w:]*")
MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*,?')
GROUPING = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)")


class Matcher(NamedTuple):
    label: str
    operator: str
    value: str


class Query(NamedTuple):
    metrics: dict  # name to the matchers of each place where it stands
    grouping: set  # labels of by, on, ...


def take_apart(text):
    text = re.sub(r"#[^\n]*", "", text)
    grouping = {label.strip() for labels in GROUPING.findall(text) for label in labels.split(",") if label.strip()}
    text = GROUPING.sub(" ", text)
    text = re.sub(r"\[[^\]]*\]", " ", text)
    metrics = {}

    def remember(match):
        matchers = [Matcher(*found) for found in MATCHER.findall(match[2] or "")]
        metrics.setdefault(match[1], []).append(matchers)
        return " "

    # Names with braces first: what is inside them is text.
    text = re.sub(r"(?<![\w:.$])([a-zA-Z_:][\w:]*)\s*\{((?:[^}\"]|\"(?:[^\"\\]|\\.)*\")*)\}", remember, text)
    for match in NAME.finditer(text):
        called = text[match.end() :].lstrip().startswith("(")
        if not called and match[0].lower() not in RESERVED:
            metrics.setdefault(match[0], []).append([])
    return Query(metrics, grouping)


class Page:
    """A page of /metrics: for each metric its series, each a dict of labels."""

    def __init__(self, keys):
        self.series = {}
        for key in keys:
            name, _, labels = key.partition("{")
            self.series.setdefault(name, []).append(dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)))

    def labels(self, name):
        return {label for series in self.series[name] for label in series} | TARGET_LABELS

    def has(self, name, matchers):
        """Whether a series fits those matchers that say what a label is, and not what it is not."""
        return any(all(fits(series, matcher) for matcher in matchers) for series in self.series[name])


def fits(series, matcher):
    label, operator, value = matcher
    if label in TARGET_LABELS or "$" in value:
        return True
    if operator == "=":
        return series.get(label) == value
    return operator != "=~" or re.fullmatch(value, series.get(label, "")) is not None


def complaints(query, page, recorded):
    """What `query` names that neither the page, nor the recorded series (name to labels), nor others have."""
    found = []
    known_labels = set()
    for name, places in query.metrics.items():
        if name in page.series:
            labels = page.labels(name)
            found += [f"no series of {name} fits {matchers}" for matchers in places if not page.has(name, matchers)]
        elif name in recorded or name in FOREIGN:
            labels = recorded.get(name, FOREIGN.get(name))
        else:
            found.append(f"there is no metric {name}")
            continue
        known_labels |= labels
        found += [f"{name} has no label {matcher.label}" for matchers in places for matcher in matchers if matcher.label not in labels]
    found += [f"nothing here has a label {label}" for label in query.grouping - known_labels]
    return found
