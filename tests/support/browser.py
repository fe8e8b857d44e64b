"""A headless Chromium, driven by Playwright in a process of Node.js (tests/integration/node/browser.js)."""

import json
import os
import pathlib
import selectors
import shutil
import subprocess

from locksley_daemon import DEADLINE_S, end_with_parent, wait_for

LONGEST_S = 150  # for an answer; Playwright itself gives up sooner (LONGEST_MS in browser.js)
# On a new machine, Chromium's first start never opened a page, twice; the next start did at once.
START_S, TRIES = 25, 4
DRIVER = pathlib.Path(__file__).resolve().parents[1] / "integration" / "node" / "browser.js"


class BrowserError(Exception):
    """The error that Playwright reports."""


class Browser:
    """Owns its process. One test at a time; its pages are closed with it."""

    def __init__(self):
        for attempt in range(1, TRIES + 1):
            self.start()
            try:
                Page(self, self.ask(START_S, do="open", options={})).close()
                return
            except AssertionError:
                if attempt == TRIES:
                    raise

    def start(self):
        node = shutil.which("node") or shutil.which("nodejs")
        self.process = subprocess.Popen([node, DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ, preexec_fn=end_with_parent)

    def ask(self, seconds=LONGEST_S, **what):
        self.process.stdin.write(json.dumps(what).encode() + b"\n")
        self.process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                self.process.kill()  # or its answer would be taken for that of the next question
                raise AssertionError(f"waited {seconds} s for the browser to answer {what}")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the browser's process ended with {self.process.wait()}")
        reply = json.loads(line)
        if "error" in reply:
            raise BrowserError(f"{what}: {reply['error']}")
        return reply["result"]

    def open(self, address, login=None, **options):
        """A page at `address` in a context of its own. `login`: (user, password). `options`: as Playwright's newContext() has them."""
        if login:
            options["httpCredentials"] = {"username": login[0], "password": login[1]}
        page = Page(self, self.ask(do="open", options=options))
        page("goto", address)
        return page

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(LONGEST_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


class Page:
    """Calling it calls a method of Playwright's page: page("reload")."""

    def __init__(self, browser, number):
        self.browser, self.number = browser, number

    def __call__(self, method, *args):
        return self.browser.ask(do="call", page=self.number, method=method, args=args)

    def at(self, selector):
        """A function that calls methods of the locator: page.at("h1")("innerText")."""
        return lambda method, *args: self.browser.ask(do="call", page=self.number, selector=selector, method=method, args=args)

    def click(self, selector):
        self.at(selector)("click")

    def text(self, selector):
        return self.at(selector)("innerText")

    def run(self, script, argument=None):
        """The value of a JavaScript function, as text, called in the page."""
        return self("evaluate", f"({script})({json.dumps(argument)})")

    def axe(self):
        """What axe-core finds in the page as it is now."""
        return self.browser.ask(do="axe", page=self.number)

    def wait_for(self, what, selector):
        """Waits until there is such an element, and it can be seen."""
        try:
            self.at(selector)("waitFor")
        except BrowserError as error:
            raise AssertionError(f"waited for {what}: {error}; the page says: {self.text('body')}") from None

    def wait_for_text(self, selector, text):
        wait_for(f"{text!r} in {selector}", lambda: text in self.text(selector) or None, seconds=2 * DEADLINE_S, every=0.1)

    def seen(self):
        """What happened in the page since the last call: console (errors and warnings), errors (of scripts), dialogs, requests (their addresses)."""
        return self.browser.ask(do="seen", page=self.number)

    def close(self):
        self.browser.ask(do="close", page=self.number)
