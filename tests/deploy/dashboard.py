#!/usr/bin/python3
"""Grafana's dashboard: sane as JSON, every query in terms of what a daemon shows, and answered by a real Prometheus."""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from prometheus_server import PrometheusServer
from scratch import scratch
from promql import Page, complaints, take_apart

GRAFANA = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "grafana"
BOARD = json.loads((GRAFANA / "locksley.json").read_text())
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID_WIDTH = 24
# What Grafana puts in place of its variables.
VARIABLES = {"$instance": ".*", "$__rate_interval": "1m"}


def panels():
    return [panel for row in BOARD["panels"] for panel in (row, *row.get("panels", []))]


def queries():
    """Where, and what."""
    found = [(panel["title"], target["expr"]) for panel in panels() for target in panel.get("targets", [])]
    return found + [(note["name"], note["expr"]) for note in BOARD["annotations"]["list"]]


def filled_in(query):
    for variable, value in VARIABLES.items():
        query = query.replace(variable, value)
    return query


class File(unittest.TestCase):
    def test_ids_and_names_are_unique(self):
        for what, values in {
            "ids": [panel["id"] for panel in panels()],
            "titles in a row": [(panel["gridPos"]["y"], panel["title"]) for panel in panels()],
        }.items():
            self.assertEqual(len(set(values)), len(values), what)
        for panel in panels():
            letters = [target["refId"] for target in panel.get("targets", [])]
            self.assertEqual(len(set(letters)), len(letters), panel["title"])

    def test_nothing_overlaps_or_sticks_out(self):
        taken = {}
        for panel in panels():
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], GRID_WIDTH, panel["title"])
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    other = taken.setdefault((x, y), panel["title"])
                    self.assertEqual(other, panel["title"], f"both at {x},{y}")

    def test_it_belongs_to_no_server(self):
        """Each source of data is the variable; whoever imports it has other ids."""
        asking = [panel for panel in panels() if panel["type"] != "row"]
        asking += [target for panel in asking for target in panel["targets"]]
        asking += BOARD["annotations"]["list"]
        asking += [variable for variable in BOARD["templating"]["list"] if variable["type"] == "query"]
        self.assertGreater(len(asking), 50)
        for each in asking:
            self.assertEqual(each["datasource"], DATASOURCE, each.get("title"))
        kinds = {variable["name"]: variable["type"] for variable in BOARD["templating"]["list"]}
        self.assertEqual(kinds, {"datasource": "datasource", "instance": "query"})
        self.assertNotIn("id", BOARD, "an id of somebody's data base")

    def test_no_variable_is_unknown(self):
        for title, query in queries():
            self.assertNotIn("$", filled_in(query), title)

    def test_legends_name_labels_that_the_query_leaves(self):
        for panel in panels():
            for target in panel.get("targets", []):
                left = take_apart(target["expr"]).grouping
                aggregated = re.match(r"(sum|min|max|avg|count|histogram_quantile)\b", target["expr"])
                for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                    if aggregated:
                        self.assertIn(label, left, panel["title"])


class Queries(DaemonTest):
    """Of a daemon that has done a bit of everything."""

    def daemon(self):
        self.folder = scratch(self)
        remote = {"workers": {"port": 0}, "handlers": {"far": {"remote": True}}}
        daemon = self.start({"store": {"path": str(self.folder / "store"), "max_bytes": "1GiB"}, **remote})
        return daemon

    def test_each_names_what_a_daemon_shows(self):
        daemon = self.daemon()
        page = Page(daemon.metrics())
        self.assertGreater(len(queries()), 30)
        for title, query in queries():
            with self.subTest(title):
                self.assertEqual(complaints(take_apart(query), page, {}), [])

    def test_a_real_server_answers_each(self):
        daemon = self.daemon()
        series = PrometheusServer(self, self.folder, daemon).ask
        connection = self.connect(daemon)
        wait_for("a first scrape", lambda: series('locksley_build_info{job="locksley"}') or None)
        # Some panels show only what is not 0.
        for submission in (("echo", "RANGE", 0, 100), ("fail", "JOBS", ""), ("sleep", "JOBS", 10)):
            connection.wait(connection("SUBMIT", *submission))
        connection.ask("SUBMIT", "nobody", "JOBS", "x")
        connection("SUBMIT", "sleep", "SLOTS", 1, "RANGE", 0, 100, 3_600_000)
        notes = [note["expr"] for note in BOARD["annotations"]["list"]]
        for title, query in queries():
            with self.subTest(title):
                if query in notes:
                    series(filled_in(query))  # an event that need not have been
                else:
                    wait_for(f"series of {query}", lambda: series(filled_in(query)) or None)


if __name__ == "__main__":
    unittest.main()
