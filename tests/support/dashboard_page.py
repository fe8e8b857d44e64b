"""The dashboard in a browser, for tests: pages, what they show, and that nothing strange happened in them."""

import os
import pathlib
import re
import unittest

from browser import Browser
from locksley_daemon import DEADLINE_S, wait_for
from users import PASSWORD, UsersTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = pathlib.Path(os.environ.get("LOCKSLEY_BUILD", ROOT / "build")) / "artifacts" / "dashboard"
PHONE = {"viewport": {"width": 360, "height": 740}, "deviceScaleFactor": 2}

# A table by its caption: for each row, from the title of a column to [text, exact text].
TABLE = """(caption) => {
  const table = [...document.querySelectorAll('table')].find((one) => one.caption?.textContent.startsWith(caption));
  if (!table || !table.checkVisibility()) return [];
  return [...table.tBodies[0].rows].filter((row) => !row.matches('.why')).map((row) => Object.fromEntries([...row.cells].map((cell) => [
    cell.dataset.title, [cell.innerText.trim(), cell.title || cell.querySelector('[title]')?.title || cell.innerText.trim()]])));
}"""
TILES = """() => Object.fromEntries([...document.querySelectorAll('.tile')].filter((tile) => tile.checkVisibility()).map((tile) => {
  const value = tile.querySelector('.value');
  return [tile.querySelector('h2').textContent, value.title || value.textContent];
}))"""
FACTS = "(selector) => Object.fromEntries([...document.querySelectorAll(selector + ' > div')].map((one) => [one.firstChild.textContent, one.lastChild.title || one.lastChild.textContent]))"
HIDE = """(hidden) => {
  Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""
# Text that can be seen, and has less contrast than WCAG's AA asks for.
FAINT = """() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility() || element.closest('noscript, script, option, .unseen, :disabled')) continue;
    const style = getComputedStyle(element);
    let behind = element;
    while (behind && (channels(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
    const [a, b] = [light(element instanceof SVGElement ? style.fill : style.color), light(getComputedStyle(behind).backgroundColor)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${node.data.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""


def number(cell):
    """The exact number of a cell."""
    return int(re.match(r"[\d,]+", cell[1])[0].replace(",", ""))


class DashboardTest(UsersTest):
    """A test with pages of the dashboard. At its end each page is asked what happened in it."""

    browser = None  # one for all tests

    @classmethod
    def setUpClass(cls):
        PICTURES.mkdir(parents=True, exist_ok=True)
        if DashboardTest.browser is None:
            DashboardTest.browser = Browser()
            unittest.addModuleCleanup(DashboardTest.browser.close)

    def setUp(self):
        self.pages = []

    def open(self, daemon, place="", user=None, **options):
        page = self.browser.open(f"{daemon.http}/{place}", login=(user, PASSWORD.format(user)) if user else None, **options)
        self.pages.append((page, daemon))
        self.addCleanup(page.close)
        page.wait_for("the page to be filled", "h1")
        return page

    def tearDown(self):
        for page, daemon in self.pages:
            self.assert_calm(page, daemon)

    def assert_calm(self, page, daemon, console=()):
        """Asserts that the page had no error of scripts and no dialog, sent no request to another server, and wrote nothing to the console but what
        matches `console`."""
        seen = page.seen()
        self.assertEqual((seen["errors"], seen["dialogs"]), ([], []))
        self.assertEqual([text for text in seen["console"] if not any(re.search(pattern, text) for pattern in console)], [])
        self.assertEqual([address for address in seen["requests"] if not address.startswith(daemon.http + "/")], [])

    def picture(self, page, name):
        page("screenshot", {"path": str(PICTURES / f"{name}.png"), "fullPage": True, "animations": "disabled", "scale": "css"})

    def assert_fits(self, page):
        self.assertEqual(page.run("() => [document.documentElement.scrollWidth, innerWidth]"), [360, 360], "the page scrolls sideways")

    def assert_accessible(self, page):
        self.assertEqual(page.run(FAINT), [])
        self.assertEqual(page.axe(), [])

    def shows(self, what, look, expected):
        """Waits until `look()` equals `expected()`. Both are called again and again, because the page is up to a second old."""
        last = []

        def same():
            last[:] = [look(), expected()]
            return last[0] == last[1]

        try:
            wait_for(what, same, seconds=2 * DEADLINE_S, every=0.1)
        except AssertionError:
            self.assertEqual(*last, what)

    def table(self, page, caption):
        return page.run(TABLE, caption)
