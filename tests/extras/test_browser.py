"""Leaderboards in a real Chromium: the static site from disk, and MLflow's own pages.

Needs the package `playwright`, which `make test-extras` installs, and a Chromium on the path or in
GSNOBENCH_CHROMIUM.
"""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fake_results import made_result, save, spread
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from gsnobench.boards.build import read_tracks
from gsnobench.boards.site.pages import site_files
from gsnobench.tracking.address import URI_VARIABLES

BOARD = "gsnobench/laptop/darcy_threshold"  # whose rows the browser looks at
CHROMIUM = os.environ.get("GSNOBENCH_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# what a test browser does not need
QUIET = ("gpu", "quic", "background-networking", "component-update", "sync")
HOSTILE = "<script>alert(1)</script>\"'/..\\"
TASKS = [f"task{number:02d}" for number in range(12)]
FLOORS = ["mean", "ridge"]
MODELS = ["gsno", "amg", "coral", "mgkn", "gnot", "geofno", "deeponet", "sp2gno", "transolver"]
MODELS += [HOSTILE, *FLOORS]
PATIENCE = 240  # seconds without a further line of `ui` on a loaded machine

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: install it or set GSNOBENCH_CHROMIUM"
)


@dataclass
class Watch:
    """What a page did that it must not do."""

    allowed: tuple[str, ...]  # beginnings of addresses
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location.get('url', '')}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(self.allowed):
            self.foreign.append(request.url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    options = ["--no-sandbox", "--no-first-run", *(f"--disable-{feature}" for feature in QUIET)]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


def names(table: Locator) -> list[str]:
    """The rows that can be seen, from top to bottom."""
    rows = table.locator("tbody tr:visible")
    return list(rows.evaluate_all("rows => rows.map(row => row.dataset.name)"))


# -------------------------------------------------------------------------------------- static site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve rows by twelve tasks, one of the models with a name that tries to be a script."""
    root = tmp_path_factory.mktemp("evidence")
    for index, model in enumerate(MODELS):
        closed_form = {"preset": "default", "steps": {"fit": 0}} if model in FLOORS else {}
        errors = spread(0.01 * (index + 1), index)
        for task in TASKS:
            result = made_result(model, errors=errors, task=task, **closed_form)
            result.save(root / task / f"{index}.json")
    folder = tmp_path_factory.mktemp("site")
    for name, text in site_files(read_tracks([root])[0]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of the site, which must log no error and load nothing but files."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    watch = Watch(("file:", "data:"))
    watch.follow(opened)
    yield opened
    context.close()
    assert (watch.errors, watch.dialogs, watch.foreign) == ([], [], [])


def test_the_overview_of_twelve_rows_and_tasks_takes_less_than_a_second_of_its_processor(
    site: Path, page: Page, tmp_path: Path
) -> None:
    """What a page costs its thread: its loading takes as long where nobody else computes."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto((site / "index.html").as_uri())
    page.wait_for_load_state("load")
    metrics = session.send("Performance.getMetrics")["metrics"]
    (spent,) = [entry["value"] for entry in metrics if entry["name"] == "TaskDuration"]
    loaded = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    size = len(gzip.compress((site / "index.html").read_bytes(), mtime=0))
    print(f"overview: {spent:.2f} s of its thread, {loaded:.0f} ms, {size} bytes gzipped")
    assert 0 < spent < 1 and size <= 150_000
    table = page.locator("table.sortable").first
    assert len(names(table)) == 12 and table.locator("thead th").count() >= 13
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.screenshot(path=tmp_path / f"overview-{scheme}.png")


def test_a_board_is_sorted_by_click_and_by_keyboard(site: Path, page: Page) -> None:
    page.goto((site / "tasks" / "laptop--task03.html").as_uri())
    table = page.locator("#ranking")
    before = names(table)
    header = table.locator("thead th").filter(has_text="row").first
    header.locator("button").click()
    assert names(table) == sorted(before, key=str.lower) != before
    assert header.get_attribute("aria-sort") == "ascending"
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert names(table) == sorted(before, key=str.lower, reverse=True)
    assert header.get_attribute("aria-sort") == "descending"
    table.locator("thead th").filter(has_text="error").locator("button").click()
    assert names(table) == before, "best first again"


def test_rows_are_filtered_by_text_and_by_kind(site: Path, page: Page) -> None:
    page.goto((site / "tasks" / "laptop--task03.html").as_uri())
    table, search = page.locator("#ranking"), page.get_by_role("searchbox")
    search.fill("GNOT")
    assert names(table) == ["gnot@compact"]
    search.fill("")
    assert len(names(table)) == 12
    page.get_by_role("checkbox", name="floors").uncheck()
    assert len(names(table)) == 10 and not {"mean@default", "ridge@default"} & set(names(table))
    page.get_by_role("checkbox", name="floors").check()
    assert len(names(table)) == 12


def test_what_a_reader_chose_is_in_the_address_and_survives_a_reload(
    site: Path, page: Page
) -> None:
    page.goto((site / "index.html").as_uri())
    table = page.locator("table.sortable").first
    page.get_by_role("searchbox").fill("g")
    page.get_by_role("checkbox", name="floors").uncheck()
    header = table.locator("thead th").filter(has_text="row").first
    header.locator("button").click()
    header.locator("button").click()
    chosen = names(table)
    assert chosen == sorted(chosen, key=str.lower, reverse=True) and "ridge@default" not in chosen
    assert all(part in page.url for part in ("q=g", "hide=floor", "sort=track-1-table.0.down"))
    page.reload()
    assert names(table) == chosen and header.get_attribute("aria-sort") == "descending"
    page.get_by_role("searchbox").fill("nobody is called so")
    expect(page.locator(".tools output")).to_contain_text("No row matches")


def test_the_keyboard_reaches_links_filters_and_sorting(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.outerHTML.slice(0, 40)"))
    text = " ".join(reached)
    for part in (
        "Skip",
        'class="theme"',
        'type="search"',
        'type="checkbox"',
        'class="scroll table"',
    ):
        assert part in text or part == "Skip" and 'class="skip"' in text, part


def test_a_phone_shows_rows_as_cards_within_its_width(
    site: Path, browser: Browser, tmp_path: Path
) -> None:
    phone = browser.new_page(viewport={"width": 390, "height": 800})
    for path in ("index.html", "tasks/laptop--task03.html", "models/gsno@compact.html"):
        phone.goto((site / path).as_uri())
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390, path
        row = phone.locator("table.sortable tbody tr:visible").first
        assert row.evaluate("row => getComputedStyle(row).display") == "grid"
        phone.screenshot(path=tmp_path / f"{Path(path).stem}-phone.png")
    phone.close()


def test_a_phone_sorts_by_a_list_and_goes_back_to_the_order_of_the_page(
    site: Path, browser: Browser
) -> None:
    phone = browser.new_page(viewport={"width": 390, "height": 800})
    phone.goto((site / "index.html").as_uri())
    table, choice = phone.locator("table.sortable").first, phone.get_by_label("Sort by")
    before = names(table)
    choice.select_option("row")
    assert names(table) == sorted(before, key=str.lower) != before
    phone.reload()
    assert names(table) != before
    assert choice.evaluate("list => list.selectedOptions[0].text") == "row"
    choice.select_option("order of the page")
    assert names(table) == before and "sort" not in phone.url
    phone.close()


def test_links_lead_from_the_overview_to_a_board_to_a_model_and_back(
    site: Path, page: Page
) -> None:
    page.goto((site / "index.html").as_uri())
    page.get_by_role("link", name="task05").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("task05")
    page.locator("a[href$='models/gsno@compact.html']").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("gsno@compact")
    page.get_by_role("link", name="All boards").click()
    assert page.url.endswith("index.html")


def test_a_name_that_is_a_script_is_text_on_every_page(site: Path, page: Page) -> None:
    hostile = next(path for path in sorted((site / "models").iterdir()) if "script" in path.name)
    for path in (site / "index.html", site / "tasks" / "laptop--task00.html", hostile):
        page.goto(path.as_uri())
        assert page.get_by_text(HOSTILE).first.is_visible()
        assert page.locator("script").count() == 1, "our own"
        assert page.locator("[onerror], [onclick], [onload]").count() == 0


# ------------------------------------------------------------------------------------------- MLflow


@dataclass
class Served:
    """`gsnobench ui` in a process of its own, with what it has printed so far."""

    process: subprocess.Popen[str]
    url: str
    began: float
    heard: float  # when it printed last
    opened: Path  # the addresses that it gave the browser to open
    lines: list[str] = field(default_factory=list)

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            self.heard = time.monotonic()

    def page(self, kind: str, experiment: str) -> str:
        """The address printed for a page, as soon as it is there."""
        while True:
            for line in list(self.lines):
                printed, name, address = (*line.split(), "", "")[:3]
                if printed == kind and name.startswith(experiment):
                    return address
            assert self.process.poll() is None, self.lines
            is_late = time.monotonic() > self.heard + PATIENCE
            assert not is_late, f"no {kind} of {experiment} among {self.lines}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """On a fresh home that holds one result of a hostile plugin, beside the committed evidence."""
    home = tmp_path_factory.mktemp("home")
    hostile = made_result(HOSTILE, errors=spread(0.1, 1), task=f"aa{HOSTILE}")
    hostile.save(home / "results" / "hostile.json")
    save(home / "results", made_result("gsno", errors=0.2, task="aaa"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    opened, browser = home / "opened", home / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in URI_VARIABLES}
    environment |= {"OMP_NUM_THREADS": "1", "BROWSER": str(browser)}
    options = ["--open", "--links", "--port", str(port), "--home", str(home)]
    command = [sys.executable, "-m", "gsnobench", "ui", *options]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    started = Served(process, f"http://127.0.0.1:{port}", began, began, opened)
    threading.Thread(target=started.listen, daemon=True).start()
    yield started
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0


@pytest.fixture
def tab(browser: Browser, served: Served) -> Iterator[Page]:
    """A page of MLflow; no request leaves the machine, and no dialog opens."""
    context = browser.new_context(viewport={"width": 1500, "height": 950})
    context.set_default_timeout(60_000)
    opened = context.new_page()
    watch = Watch((served.url, "data:", "blob:"))
    watch.follow(opened)
    yield opened
    context.close()
    assert (watch.dialogs, watch.foreign) == ([], [])
    # MLflow requests a user that it does not have
    assert [error for error in watch.errors if "users/current" not in error] == []


def test_a_fresh_clone_shows_a_leaderboard_that_sorts(
    served: Served, tab: Page, tmp_path: Path
) -> None:
    tab.goto(served.page("leaderboard", "gsnobench/laptop/aaa"))
    frame = tab.frame_locator("iframe")
    expect(frame.locator("#ranking tbody tr").first).to_be_visible(timeout=60_000)
    print(f"visible {time.monotonic() - served.began:.1f} s after the command")
    tab.goto(served.page("leaderboard", BOARD))
    heading = frame.get_by_role("heading", level=1)
    expect(heading).to_contain_text("darcy_threshold", timeout=60_000)
    table = frame.locator("#ranking")
    before = names(table)
    assert before[0] == "gsno@plus" and {"ridge@default", "transolver@compact"} <= set(before)
    header = table.locator("thead th").filter(has_text="row").first
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending" and names(table) != before
    frame.get_by_role("searchbox").fill("gsno")
    left = names(table)
    assert {"gsno@compact", "gsno@plus"} <= set(left) and all("gsno" in name for name in left)
    tab.screenshot(path=tmp_path / "leaderboard.png")
    tab.emulate_media(color_scheme="dark")
    tab.screenshot(path=tmp_path / "leaderboard-dark.png")


def test_one_click_leads_to_an_overview_with_errors(
    served: Served, tab: Page, tmp_path: Path
) -> None:
    """The first printed address, in the pane that MLflow gives an artefact."""
    tab.goto(served.page("overview", "gsnobench/overview"))
    frame = tab.frame_locator("iframe")
    expect(frame.get_by_role("heading", level=1)).to_be_visible(timeout=60_000)
    expect(frame.locator(".card").first).to_contain_text("leads")
    best = frame.locator("tr[data-name='gsno@plus'] td .lowest").first
    best.scroll_into_view_if_needed()
    expect(best).to_be_visible()
    tab.screenshot(path=tmp_path / "overview.png")


def test_the_browser_is_given_the_overview_and_nothing_else(served: Served) -> None:
    served.page("charts", BOARD)  # printed last
    assert served.lines[1].startswith("overview"), "first after the address of the server"
    assert served.opened.read_text().split() == [served.lines[1].split()[-1]]


def test_the_charts_compare_the_rows_best_first(served: Served, tab: Page, tmp_path: Path) -> None:
    tab.goto(served.page("charts", BOARD))
    for name in ("gsno@plus", "ridge@default", "sp2gno@compact"):
        expect(tab.get_by_role("link", name=name).first).to_be_visible(timeout=60_000)
    best = tab.get_by_role("link", name="gsno@plus").first.bounding_box()
    floor = tab.get_by_role("link", name="ridge@default").first.bounding_box()
    assert best is not None and floor is not None and best["y"] < floor["y"]
    expect(tab.get_by_text("board/error").first).to_be_visible(timeout=60_000)
    expect(tab.get_by_role("link", name="★ LEADERBOARD")).to_have_count(0)
    tab.screenshot(path=tmp_path / "charts.png")


def test_the_shared_view_shows_the_rows_best_first_with_their_errors(
    served: Served, tab: Page
) -> None:
    tab.goto(served.page("leaderboard", BOARD).partition("/runs/")[0] + "/runs")
    # MLflow opens links of a description in a tab of their own
    with tab.context.expect_page() as opened:
        tab.get_by_role("link", name="rows", exact=True).first.click()
    rows = opened.value
    best, floor = (rows.get_by_role("link", name=name) for name in ("gsno@plus", "ridge@default"))
    expect(best.first).to_be_visible(timeout=60_000)
    heading = rows.get_by_role("columnheader", name="board/error")
    expect(heading.first).to_be_visible(timeout=60_000)
    above, below = best.first.bounding_box(), floor.first.bounding_box()
    assert above is not None and below is not None and above["y"] < below["y"]


def test_the_description_of_the_leaderboard_leads_to_the_rows(
    served: Served, tab: Page, tmp_path: Path
) -> None:
    tab.goto(served.page("leaderboard", BOARD).partition("/artifacts")[0])
    tab.get_by_text("Show more", exact=True).first.click()
    tab.screenshot(path=tmp_path / "description.png")
    # MLflow opens links of a description in a tab of their own
    with tab.context.expect_page() as opened:
        tab.get_by_role("link", name="gsno@plus").first.click()
    expect(opened.value.get_by_role("heading", name="gsno@plus")).to_be_visible(timeout=60_000)


def test_a_name_that_is_a_script_is_text_in_mlflow(
    served: Served, tab: Page, tmp_path: Path
) -> None:
    address = served.page("leaderboard", "gsnobench/laptop/aa-script")
    tab.goto(address)
    frame = tab.frame_locator("iframe")
    expect(frame.get_by_text(HOSTILE).first).to_be_visible(timeout=60_000)
    assert frame.locator("script").count() == 1, "our own"
    tab.goto(address.partition("/artifacts")[0])
    expect(tab.get_by_role("heading", name="LEADERBOARD")).to_be_visible(timeout=60_000)
    expect(tab.get_by_text("alert(1)").first).to_be_visible(timeout=60_000)
    tab.goto(served.page("charts", "gsnobench/laptop/aa-script"))
    expect(tab.get_by_role("link", name=f"{HOSTILE}@compact")).to_be_visible(timeout=60_000)
    tab.screenshot(path=tmp_path / "hostile.png")
