"""The documentation site: strict, the same words as on a code host, and no request to others.

Needs what `make test-extras` installs, and for the last part a Chromium.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import Page, Request, Response, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))
from pages import pages as pages_of_the_site  # noqa: E402

PAGES = pages_of_the_site()
CHROMIUM = os.environ.get("GSNOBENCH_CHROMIUM") or shutil.which("chromium")
CODE_HOST = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SHOWN = ("index.html", "docs/models/gsno.html", "leaderboards/laptop.html")
SHOWN += ("docs/reference/python.html", "docs/reference/command-line.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a broken link, a page outside of the menu or a lost anchor fails here."""
    folder = tmp_path_factory.mktemp("public")
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


# -------------------------------------------------------------------------------------------- words


class Words(HTMLParser):
    """The words of a part of a page in their order, without formulas and marks of headings."""

    VOID = ("img", "br", "hr", "input", "link", "meta")

    def __init__(self, begin: str) -> None:
        super().__init__()
        self.begin, self.depth, self.hidden, self.words = begin, 0, 0, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.VOID:
            return
        is_mark = tag == "math" or ("class", "headerlink") in attrs
        self.hidden += bool(self.hidden or is_mark)
        self.depth += bool(self.depth or tag == self.begin)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            self.hidden -= bool(self.hidden)
            self.depth -= bool(self.depth)

    def handle_data(self, data: str) -> None:
        if self.depth and not self.hidden:
            self.words += data.split()


def words(html: str, begin: str) -> str:
    parser = Words(begin)
    parser.feed(html)
    return "".join(parser.words)  # spaces may differ between tags


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_it_says_on_a_code_host(page: str, site: Path) -> None:
    """Two readers of Markdown, the site's and a CommonMark one, find the same words."""
    text = re.sub(r"\$\$.*?\$\$|\$`.*?`\$", "", (ROOT / page).read_text(), flags=re.DOTALL)
    html = re.sub(r"README\.md$", "index.html", page).replace(".md", ".html")
    built = words((site / html).read_text(), "article")
    assert built == words(f"<article>{CODE_HOST.render(text)}</article>", "article")


def test_the_reference_has_every_command_and_every_public_name(site: Path) -> None:
    import gsnobench
    from gsnobench.cli.app import GROUPS

    commands = (site / "docs/reference/command-line.html").read_text()
    for name in (name for names in GROUPS.values() for name in names):
        assert f'id="gsnobench-{name}"' in commands, name
    python = (site / "docs/reference/python.html").read_text()
    for name in set(dir(gsnobench)) - {"__version__"}:
        assert f'id="gb{name.lower()}' in python, name


def test_every_page_names_the_commit_that_it_was_published_from(site: Path) -> None:
    command = ["git", "log", "-1", "--format=Published from commit %h of %cs."]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if asked.returncode:
        pytest.skip("no history beside these files")
    for page in ("index.html", "docs/models/gsno.html", "leaderboards/site/index.html"):
        assert asked.stdout.strip() in (site / page).read_text(), page


def test_a_formula_is_mathml(site: Path) -> None:
    """Without a script; the source of no page is left in dollars."""
    assert "<math" in (site / "docs/models/gsno.html").read_text()
    for page in (site / "docs").rglob("*.html"):
        assert "$$" not in words(page.read_text(), "article"), page


# ------------------------------------------------------------------------------------------ browser


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Requests are watched in the browser."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """A static host on this machine."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    """A page of a browser that fails at the first request to others or for what is not there."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it or set GSNOBENCH_CHROMIUM")
    faults: list[str] = []

    def on_request(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            faults.append(f"asks for {request.url}")

    def on_response(response: Response) -> None:
        if response.status >= 400:
            faults.append(f"{response.status} for {response.url}")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.on("request", on_request)
        opened.on("response", on_response)
        opened.on("pageerror", lambda error: faults.append(str(error)))
        yield opened
        browser.close()
    assert not faults


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_fits_its_window(name: str, width: int, page: Page, address: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address + name)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_search_finds_a_page_without_a_server(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(address + "index.html")
    page.get_by_role("textbox", name="Search").fill("Rusanov")
    found = page.locator(".md-search-result__link").first
    expect(found).to_have_attribute("href", re.compile(r"docs/datasets/swe\.html"))
    found.click()
    expect(page).to_have_url(re.compile(r"/docs/datasets/swe\.html"))


def test_the_menu_leads_to_the_boards(page: Page, address: str) -> None:
    page.goto(address + "index.html")
    page.get_by_role("link", name="The boards, to sort and filter").first.click()
    expect(page).to_have_url(re.compile(r"/leaderboards/site/index\.html"))
