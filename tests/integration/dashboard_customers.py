#!/usr/bin/python3
"""The page of customers in a real browser: what it shows is what CUSTOMER LIST says; and long names on all pages. Screenshots are left in
build/artifacts/dashboard/."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from dashboard_page import PHONE, DashboardTest, number
from resp import pairs
from users import ALL, BUILTIN

HOUR_MS = 3_600_000
HOSTILE = "<img+src=x+onerror=alert(1)>"
USER, HANDLER, LANE, CUSTOMER = (letter * 64 for letter in "uhlc")
# What is wider than its place.
TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll('header, footer, main, .view, .card, .tile, td:not(.pick)')]
  .filter((one) => one.scrollWidth > one.clientWidth && one.checkVisibility())
  .map((one) => `${one.tagName}.${one.className} ${one.scrollWidth} > ${one.clientWidth}: ${one.textContent.slice(0, 40)}`)"""


class Customers(DashboardTest):
    def setUp(self):
        super().setUp()
        self.daemon = self.start_with({"http": {"login": "users"}}, shop=BUILTIN, mill={}, root={"commands": ALL})
        self.shop, self.mill, self.root = (self.log_in(self.daemon, name) for name in ("shop", "mill", "root"))
        self.shop("CUSTOMER", "SET", "acme", "WEIGHT", 3, "SLOTS", 8, "RATE", "300/m", "MAXJOBS", 1000)
        self.shop("CUSTOMER", "SET", HOSTILE, "WEIGHT", 2)
        for customer in ("acme", "eu/1"):
            self.shop("SUBMIT", "echo", "ID", f"for-{customer}", "FOR", customer, "DELAY", HOUR_MS, "JOBS", "x")
        self.mill("CUSTOMER", "SET", "x", "WEIGHT", 4)

    def said(self, connection):
        keys = ("weight", "running", "batches")
        return {row["customer"]: {key: row[key] for key in keys} for row in map(pairs, connection("CUSTOMER", "LIST")[1])}

    def rows(self, page):
        return {row["Customer"][0]: {key: number(row[key.title()]) for key in ("weight", "running", "batches")} for row in self.table(page, "Customers")}

    def test_customers_are_those_of_the_user(self):
        # Something runs, so that there are shares to see.
        running = [self.shop("SUBMIT", "sleep", "FOR", customer, "JOBS", *[HOUR_MS] * 3) for customer in ("acme", "eu/1")]
        page = self.open(self.daemon, "#/customers", "shop")
        self.shows("the customers", lambda: self.rows(page), lambda: self.said(self.shop))
        due = lambda: {row["Customer"][0]: row["Share: due, received"][0].split("\n")[0] for row in self.table(page, "Customers")}
        self.shows("the shares that are due", due, lambda: {"acme": "due 75%", "eu/1": "due 25%", HOSTILE: "due 0%"})
        self.assertEqual(page.run("() => document.querySelectorAll('main img').length"), 0)
        acme = next(row for row in self.table(page, "Customers") if row["Customer"][0] == "acme")
        self.assertEqual((acme["Slots"][0], acme["Rate"][0], acme["Jobs"][0]), ("8", "300/m", "4 of 1,000"))
        self.assertFalse(page.at("#filter-tenant")("isVisible"))
        self.assert_accessible(page)
        self.picture(page, "customers-light")
        page("emulateMedia", {"colorScheme": "dark"})
        self.assert_accessible(page)
        self.picture(page, "customers-dark")
        page("setViewportSize", PHONE["viewport"])
        self.assert_fits(page)
        self.assert_accessible(page)
        self.picture(page, "customers-phone")
        page.at("#filter-match")("fill", "eu")
        self.shows("those that match", lambda: list(self.rows(page)), lambda: ["eu/1"])
        self.assertIn("match=eu", page.run("() => location.hash"))
        page.click("td.name a >> text=eu/1")
        batches = lambda: sorted((row["Batch"][0], row["Customer"][0]) for row in self.table(page, "Batches"))
        self.shows("its batches", batches, lambda: sorted([("for-eu/1", "eu/1"), (running[1], "eu/1")]))
        self.assertTrue(page.at("td.customer >> nth=0")("isVisible"))
        self.assert_fits(page)
        self.assert_accessible(page)
        page.click("text=for-eu/1")
        page.wait_for_text("main", "handler echo · for eu/1")
        page("goBack")
        page.wait_for_text("h1", "Batches")
        self.assertEqual(page.at("#filter-customer")("inputValue"), "eu/1")
        for batch in running:
            self.shop("CANCEL", batch)

    def test_an_admin_sees_those_of_all(self):
        page = self.open(self.daemon, "#/customers", "root")
        names = lambda: sorted((row["Tenant"][0], row["Customer"][0]) for row in self.table(page, "Customers"))
        self.shows("all of them", names, lambda: sorted((row["tenant"], row["customer"]) for row in map(pairs, self.root("CUSTOMER", "LIST")[1])))
        page.at("#filter-tenant")("fill", "mill")
        self.shows("those of one user", names, lambda: [("mill", "x")])
        page = self.open(self.daemon, "#/customers", "mill")
        self.shows("those of the mill", lambda: list(self.rows(page)), lambda: ["x"])
        self.assertNotIn("acme", page.text("body"))


class LongNames(DashboardTest):
    def test_they_fit_a_phone_and_a_screen(self):
        nap = {"command": ["sleep", "3600"], "concurrency": 2, "lane": LANE}
        settings = {"http": {"login": "users"}, "handlers": {HANDLER: nap}, "lanes": {LANE: {"slots": 1}}}
        daemon = self.start_with(settings, **{USER: {"commands": ["submit", "read", "control"], "handlers": [HANDLER, "fail"]}}, root={"commands": ALL})
        user = self.log_in(daemon, USER)
        user("SUBMIT", HANDLER, "ID", "i" * 128, "NAME", "n" * 128, "FOR", CUSTOMER, "RANGE", 0, 1_000_000)
        user("SUBMIT", HANDLER, "ID", "next", "JOBS", 1)
        user("SUBMIT", "fail", "ID", "broken", "RETRIES", 0, "JOBS", "e" * 200)
        user.wait("broken")
        places = {"": "Handlers", "#/batches": "next", f"#/batches/{'i' * 128}?tenant={USER}": "Running", f"#/batches/broken?tenant={USER}": "eee",
                  f"#/batches/{'i' * 128}/jobs/0?tenant={USER}": "Attempt", "#/customers": "ccc"}
        for name in (USER, "root"):
            page = self.open(daemon, user=name)
            for place, text in places.items():
                page.run("(place) => { location.hash = place; }", place or "#/")
                page.wait_for_text("main", text)
                page.wait_for_text("footer", name)
                for width in (390, 1440):
                    page("setViewportSize", {"width": width, "height": 900})
                    self.picture(page, f"long-names-{name[:4]}-{'-'.join(place.split('?')[0].split('/')[1:])[:12]}-{width}")
                    self.assertEqual(page.run(TOO_WIDE), [], (name[:4], place, width))


if __name__ == "__main__":
    unittest.main()
