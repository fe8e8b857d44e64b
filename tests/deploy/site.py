#!/usr/bin/python3
"""The site that deploy/site/build makes: every page is there, every link leads somewhere, nothing is loaded from elsewhere, and its search finds."""

import functools
import html.parser
import http.server
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import threading
import unittest
import urllib.parse

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "support"), str(pathlib.Path(__file__).resolve().parents[2] / "deploy/site")]
import pages
from browser import Browser
from locksley_daemon import wait_for
from scratch import scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST_S = 300
MOST_PICTURE_BYTES = 1_500_000
# What makes a browser load it; a link of a person's choice does not.
LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}


class Document(html.parser.HTMLParser):
    """Of a page: what can be led to, what it leads to, what is loaded with it, its text."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.loads, self.text = set(), [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        # rel="canonical" and the like say something, and load nothing.
        if tag != "link" or attributes.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loads += [value for name, value in attributes.items() if (tag, name) in LOADED]

    def handle_data(self, data):
        self.text += data


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = scratch(cls, "locksley-site-") / "site"
        done = subprocess.run([ROOT / "deploy/site/build", cls.folder], capture_output=True, text=True, timeout=LONGEST_S)
        assert (done.returncode, done.stderr) == (0, ""), done
        assert done.stdout == f"{cls.folder}/index.html\n", done
        cls.pages = {path.relative_to(cls.folder).as_posix(): Document(path.read_text()) for path in cls.folder.rglob("*.html")}

    def place(self, path):
        """Of a page of the repository in the site."""
        path = path.replace(".github/", "project/")
        return {"README.md": "readme.html", "deploy/site/index.md": "index.html"}.get(path, re.sub(r"README\.md$", "index.html", path).replace(".md", ".html"))

    def test_every_page_of_the_repository_is_there(self):
        listed = [path for path in pages.tracked(ROOT) if re.search(r"\.md$|^deploy/man/.*\.\d$", path) and "TEMPLATE" not in path]
        wanted = {self.place(path) if path.endswith(".md") else f"{path}.html" for path in listed}
        self.assertGreater(len(wanted), 80)
        self.assertEqual(wanted - set(self.pages), set())

    def test_every_link_leads_to_a_page_and_to_its_heading(self):
        checked, wrong = 0, []
        for page, document in self.pages.items():
            if page == "404.html":
                continue  # its links are from the root of a server
            for link in document.links + document.loads:
                parts = urllib.parse.urlsplit(link)
                if parts.scheme or parts.netloc:
                    continue
                path = posixpath.normpath(posixpath.join(posixpath.dirname(page), urllib.parse.unquote(parts.path))) if parts.path else page
                anchor = urllib.parse.unquote(parts.fragment)
                checked += 1
                if not (self.folder / path).is_file():
                    wrong.append(f"{page}: leads nowhere: {link}")
                elif anchor and path in self.pages and anchor not in self.pages[path].names:
                    wrong.append(f"{page}: no such heading: {link}")
        self.assertGreater(checked, 5000)
        self.assertEqual(wrong, [])

    def test_no_page_loads_anything_from_elsewhere(self):
        for page, document in self.pages.items():
            self.assertGreater(len(document.loads), 1, page)
            self.assertEqual([link for link in document.loads if urllib.parse.urlsplit(link).netloc], [], page)
        for style in self.folder.rglob("*.css"):
            self.assertEqual(re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\s]*", style.read_text()), [], style.name)

    def test_no_mark_of_markdown_is_left_in_a_page(self):
        for page, document in self.pages.items():
            if page.endswith((".md.html", "404.html")) or ".py." in page or ".yaml." in page:
                continue
            # In code, stars and backticks are themselves.
            text = re.sub(r"<(pre|code)\b.*?</\1>", "", (self.folder / page).read_text(), flags=re.DOTALL)
            self.assertEqual(re.findall(r"(?m)^ *(?:- \*\*|\d+\. \*\*|```|\|.*\|$).*", text)[:3], [], page)
            self.assertNotIn("<!-- from", text, page)

    def test_the_manual_pages_are_no_code(self):
        for name in ("locksley.1", "locksleyd.8", "locksley.yaml.5"):
            page = f"deploy/man/{name}.html"
            self.assertNotRegex(self.pages[page].text, r"\*\*|\\\[|&[a-z]+;")
            code = " ".join(re.findall(r"<pre\b.*?</pre>", (self.folder / page).read_text(), re.DOTALL))
            self.assertLess(len(code), 1000, page)  # examples alone
        manual = self.pages["deploy/man/locksley.1.html"]
        self.assertLessEqual({"description", "submitting-batches", "item-submit", "item-max-fails"}, manual.names)
        self.assertLessEqual({"locksleyd.8.html", "#files-of-outputs"}, set(manual.links))
        self.assertIn("$ find . -name", manual.text)

    def test_the_first_page_has_what_it_is_to_show(self):
        first = self.pages["index.html"]
        for words in ("What it promises", "Beside others", "What it is not for", "gearmand", "beanstalkd", "on two virtual cores", "Nothing lost."):
            self.assertIn(words, first.text)
        self.assertLess(first.links.index("deploy/INSTALL.html"), first.links.index("readme.html"), "in the menu")
        self.assertIn("tests/integration/crash.py.html", first.links, "a promise leads to its test")
        self.assertIn("def ", self.pages["tests/integration/crash.py.html"].text, "whose text is a page")
        (picture,) = [link for link in first.loads if link.endswith(".webp")]
        picture = self.folder / picture
        self.assertLess(picture.stat().st_size, MOST_PICTURE_BYTES)
        data = picture.read_bytes()
        self.assertEqual((data[:4], data[8:12]), (b"RIFF", b"WEBP"))
        self.assertGreater(data.count(b"ANMF"), 10, "the picture moves")

    def test_the_search_finds_a_command_and_the_page_of_a_language(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=self.folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        browser = Browser()
        self.addCleanup(browser.close)
        page = browser.open(f"http://127.0.0.1:{server.server_port}/index.html", viewport={"width": 1280, "height": 900})
        found = "() => [...document.querySelectorAll('.md-search-result__link')].map((link) => new URL(link.href).pathname)"
        def finds(wanted, words):
            if wanted in page.run(found):
                return True
            page.at("input.md-search__input")("fill", "")
            page.at("input.md-search__input")("type", words)  # the search listens for keys, once its script is loaded
            return False

        for words, wanted in {"EXPLAIN": "/proto/PROTOCOL.html", "redigo": "/deploy/examples/go/index.html"}.items():
            wait_for(f"{wanted} among what is found for {words}", lambda: finds(wanted, words), every=1)
        seen = page.seen()
        self.assertEqual((seen["errors"], [address for address in seen["requests"] if "//127.0.0.1:" not in address]), ([], []))

    def test_a_link_that_leads_nowhere_fails_the_build(self):
        copy = scratch(self) / "copy"
        for path in pages.tracked(ROOT):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, copy / path)
        broken = copy / "deploy/coming-from/README.md"
        broken.write_text(broken.read_text().replace("(xargs.md)", "(nowhere.md)"))
        done = subprocess.run([copy / "deploy/site/build", copy / "site"], capture_output=True, text=True, timeout=LONGEST_S)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("deploy/coming-from/README.md: leads nowhere: nowhere.md", done.stderr)


if __name__ == "__main__":
    unittest.main()
