"""The static site: complete, well-formed, deterministic, readable by all, deaf to any name."""

from __future__ import annotations

import base64
import gzip
import hashlib
import posixpath
import re
from base64 import b64decode
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_results import made_result, save
from toy_boards import FLOOR, HOSTILE, toy_tracks, tracks_of

from gsnobench.boards.evidence import PNG
from gsnobench.boards.markdown import board_section
from gsnobench.boards.plots.task import board_figures
from gsnobench.boards.site.about import make_about
from gsnobench.boards.site.html import SCRIPTS, STYLES, VOID, asset, script, tag, text
from gsnobench.boards.site.index_page import index_page
from gsnobench.boards.site.model_page import model_page
from gsnobench.boards.site.pages import site_files
from gsnobench.boards.site.surroundings import Surroundings
from gsnobench.boards.site.task_page import task_page

BOARDS = Path(__file__).resolve().parents[2] / "leaderboards"
MODELS = ("gsno", "deeponet", FLOOR, "thin", "last")
TASKS = ("swe@5-46", "darcy", "pipe", "car")
HOSTILE_MODELS = (*HOSTILE, FLOOR, "thin", "last<hostile>")
SVG_TAGS = {"svg", "g", "path", "text", "use", "defs", "clippath", "rect", "tspan"}
HTML_TAGS = {"html", "head", "meta", "link", "title", "style", "script", "body", "header", "nav"}
HTML_TAGS |= {"main", "h1", "h2", "h3", "p", "a", "span", "sup", "wbr", "ul", "ol", "li", "dl"}
HTML_TAGS |= {"dt", "dd", "div", "code", "details", "summary", "button", "label", "input", "output"}
HTML_TAGS |= {"table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"}
HTML_TAGS |= {"section", "footer", "select"}


@cache
def benign() -> dict[str, str]:
    return dict(site_files(toy_tracks(MODELS, TASKS)))


@cache
def hostile() -> dict[str, str]:
    texts = {"reason": "".join(HOSTILE), "track": HOSTILE[2]}
    return dict(site_files(toy_tracks(HOSTILE_MODELS, HOSTILE[::2], **texts)))


class Reader(HTMLParser):
    """Every element with its attributes, and whether all of them were closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: Counter[str] = Counter()
        self.feed(page)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        assert len(names) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts[data.strip()] += 1

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


# -------------------------------------------------------------------------------------------- whole


def test_there_is_an_overview_one_page_per_task_and_one_per_row() -> None:
    assert set(benign()) == {
        "index.html",
        "models/add.html",
        *(f"tasks/laptop--{task}.html" for task in TASKS),
        *(f"models/{model}@compact.html" for model in MODELS),
    }


def test_building_twice_gives_the_same_bytes() -> None:
    assert dict(site_files(toy_tracks(MODELS, TASKS))) == benign()


def test_no_evidence_is_a_page_that_says_so() -> None:
    pages = dict(site_files([]))
    assert list(pages) == ["index.html", "models/add.html"]
    assert "No result yet" in pages["index.html"]


@pytest.mark.parametrize("site", [benign, hostile])
def test_every_page_is_well_formed_and_says_what_it_is(site) -> None:  # type: ignore[no-untyped-def]
    for path, page in site().items():
        read = Reader(page)
        assert page.startswith("<!doctype html>"), path
        assert read.all("html")[0]["lang"] == "en"
        assert len(read.all("h1")) == 1 and len(read.all("main")) == 1
        assert len(read.all("caption")) == len(read.all("table"))
        assert all(attributes.get("scope") in ("row", "col") for attributes in read.all("th"))
        assert any(attributes.get("href") == "#main" for attributes in read.all("a"))
        names = Counter(attributes["id"] for _, attributes in read.elements if attributes.get("id"))
        assert max(names.values()) == 1, f"{path}: {names.most_common(1)} is no unique id"


@pytest.mark.parametrize("site", [benign, hostile])
def test_all_links_stay_inside_and_lead_somewhere(site) -> None:  # type: ignore[no-untyped-def]
    pages = site()
    ids = {
        path: {attributes.get("id") for _, attributes in Reader(page).elements}
        for path, page in pages.items()
    }
    for path, page in pages.items():
        for element, attributes in Reader(page).elements:
            address = attributes.get("href") or attributes.get("xlink:href") or ""
            if not address or (element, address) == ("link", "data:,"):
                continue
            file, _, anchor = address.partition("#")
            folder = posixpath.dirname(path)
            aimed = posixpath.normpath(posixpath.join(folder, file)) if file else path
            assert aimed in pages, f"{path}: {address} leads nowhere"
            assert not anchor or anchor in ids[aimed], f"{path}: {address} has no such anchor"


def test_hostile_names_make_no_element_no_attribute_and_no_path() -> None:
    elements = [element for page in benign().values() for element in Reader(page).elements]
    known = {name for _, attributes in elements for name in attributes}
    for path, page in hostile().items():
        assert re.fullmatch(r"(index|(tasks|models)/[A-Za-z0-9@._+-]+)\.html", path)
        read = Reader(page)
        assert {element for element, _ in read.elements} <= HTML_TAGS | SVG_TAGS
        assert {name for _, attributes in read.elements for name in attributes} <= known
        assert len(read.all("script")) == 1
        assert not re.search(r"[\x00\u202e]", page), "control characters rearrange a page"


def test_hostile_names_are_shown_as_they_are() -> None:
    read = Reader(hostile()["index.html"])
    assert any("<hostile a=1>" in shown for shown in read.texts)
    assert any("</script><script>hostile()</script>" in shown for shown in read.texts)


def test_a_page_runs_our_script_only_and_requests_nothing() -> None:
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    for page in [*benign().values(), *hostile().values()]:
        policy = Reader(page).all("meta")[1]["content"] or ""
        assert policy.startswith("default-src 'none'") and f"script-src 'sha256-{digest}'" in policy
        assert f"<script>{script()}</script>" in page
        addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
        assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert all(len(asset(name).splitlines()) < 150 for name in (*SCRIPTS, *STYLES))


# ------------------------------------------------------------------------------------------ content


def test_the_overview_marks_the_lowest_floors_and_thin_rows_and_gives_reasons() -> None:
    page = benign()["index.html"]
    read = Reader(page)
    assert len(re.findall(r'class="(?:best )?lowest"', page)) == len(TASKS)
    assert any(attributes.get("class") == "floor" for attributes in read.all("tr"))
    assert read.texts["°"] == len(TASKS)
    declined = [attributes for attributes in read.all("td") if attributes.get("title") == "no mesh"]
    assert len(declined) == 2, "the reason as a tooltip"
    assert read.texts["declined: no mesh"] == 1, "the reason as a visible note"


def test_bold_means_the_same_on_the_site_as_in_markdown(tmp_path: Path) -> None:
    for seed, (first, second) in enumerate([(0.010, 0.011), (0.013, 0.012), (0.011, 0.0115)]):
        save(tmp_path, made_result("gnot", errors=first, seed=seed))
        save(tmp_path, made_result("amg", errors=second, seed=seed))
        save(tmp_path, made_result("coral", errors=0.5, seed=seed))
    (track,) = tracks_of(tmp_path)
    line = r'<tr[^>]*data-name="([^"]*)"[^>]*>(?:(?!</tr>).)*class="best[ "]'
    in_markdown = set(re.findall(r"\| \*\*(\S+@\S+)\*\* \|", board_section(track.boards[0])))
    assert in_markdown == {"gnot@compact", "amg@compact"}, "the two that are not separated"
    pages = dict(site_files([track]))
    for page in ("index.html", "tasks/laptop--darcy.html"):
        assert set(re.findall(line, pages[page])) == in_markdown, page


def test_every_column_can_be_sorted_by_a_button() -> None:
    for path, page in benign().items():
        if path == "models/add.html":
            continue  # it has no table
        sortable = re.findall(r"<th[^>]*aria-sort=\"none\"[^>]*>.*?</th>", page)
        assert sortable and all('<button type="button">' in heading for heading in sortable)


def test_headings_and_names_break_between_words_only() -> None:
    (track,) = toy_tracks(("gsno", "deeponet", "amg"), ("darcy",))
    page = dict(site_files([track]))["tasks/laptop--darcy.html"]
    assert "train CPU&#8209;s</button>" in page and "prepare&nbsp;s</button>" in page
    assert "�" not in page
    # a narrow screen breaks the matrix after the model
    assert '<th scope="row">1 gsno@<wbr>compact</th>' in page


def test_a_task_page_tells_what_was_asked_and_who_is_ahead() -> None:
    page = benign()["tasks/laptop--swe@5-46.html"]
    facts = ("128 train, 32 valid, 64 test", "0123456789ab", "generated, seed 0", "version 1")
    for words in (*facts, "% less error than deeponet@compact, the next best model"):
        assert words in page
    for words in ("declined: no mesh", "Rows with one seed are not ranked", "▲"):
        assert words in page


def test_a_task_page_says_how_to_add_a_model_where_there_are_not_two() -> None:
    (track,) = toy_tracks(("thin", FLOOR), ("car", "../car"))
    leads = [task_page(track, board, ()).partition("</h1>")[2][:270] for board in track.boards]
    command = "<code>gsnobench run --model NAME --dataset car --track laptop</code>"
    assert sum(command in lead for lead in leads) == 1, "a hostile name is no part of a command"
    assert all(
        "Only thin has results on this task so far, apart from variants." in lead for lead in leads
    )
    (track,) = toy_tracks((FLOOR,), ("car", "pipe"))
    assert "Only floors have results on this task" in task_page(track, track.boards[1], ())


def test_variants_are_folded_below_the_ranking_and_drawn_nowhere() -> None:
    page = benign()["tasks/laptop--darcy.html"]
    read = Reader(page)
    variants = [row for row in read.all("tr") if row.get("data-kind") == "variant"]
    assert [row["data-name"] for row in variants] == ["gsno@compact [k_s=16]"]
    ranking, _, rest = page.partition("<details>")
    assert "k_s=16" not in ranking and rest.startswith(
        "<summary>Variants (1), not ranked</summary>"
    )
    figures = page.partition("<h2>Plots</h2>")[2].partition("<h2>Evidence</h2>")[0]
    assert "gsno@compact" in figures and "k_s=16" not in figures
    assert "k_s=16" in benign()["models/gsno@compact.html"]
    assert "k_s=16" not in benign()["index.html"]


def test_a_model_page_has_all_tasks_with_the_reasons() -> None:
    read = Reader(benign()["models/last@compact.html"])
    rows = [head for head in read.all("th") if head.get("scope") == "row"]
    assert {head["data-value"] for head in rows} == set(TASKS)
    assert read.texts["declined: no mesh"] == 2


def test_a_page_that_stands_alone_links_to_no_other() -> None:
    (track,) = toy_tracks(MODELS, TASKS)
    read = Reader(task_page(track, track.boards[0], board_figures(track.boards[0])))
    assert {attributes["href"] for attributes in read.all("a")} == {"#main"}


def test_the_pictures_of_the_best_models_are_part_of_the_page(evidence: Path) -> None:
    for path in evidence.rglob("*.json"):
        path.with_suffix(".png").write_bytes(PNG + path.parent.name.encode())
    (track,) = tracks_of(evidence)
    page = task_page(track, track.boards[0], [])
    shown = [b64decode(code) for code in re.findall(r"data:image/png;base64,([^\"]+)", page)]
    assert shown == [PNG + b"gsno@compact", PNG + b"amg@compact"]


# ------------------------------------------------------------------------------------- the real one


@pytest.fixture(scope="module")
def committed() -> dict[str, str]:
    """The committed pages, which another test compares with their evidence."""
    root = BOARDS / "site"
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.html")}


def test_links_to_files_beside_the_site_lead_to_files(committed: dict[str, str]) -> None:
    """Pictures, cards, tables and the result file of every seed; notes lead to documents too."""
    found: Counter[tuple[str, ...]] = Counter()
    for path, page in committed.items():
        folder = (BOARDS / "site" / path).parent
        for element, attributes in Reader(page).elements:
            address = attributes.get("href" if element == "a" else "src") or ""
            if not address or address.startswith(("#", "data:", "https://")):
                continue
            aimed = (folder / address.partition("#")[0]).resolve()
            assert aimed.is_file(), f"{path}: {address}"
            found[aimed.relative_to(BOARDS.parent).parts[:2]] += 1
    assert min(found[BOARDS.name, folder] for folder in ("results", "tables", "site")) > 10
    trained = [path for path in committed if "@" in path and path.startswith("models/")]
    trained = [path for path in trained if "@default" not in path]  # floors have no card
    assert found[BOARDS.name, "cards"] >= len(trained) > 0


def test_the_overview_is_small_and_begins_with_the_answer(committed: dict[str, str]) -> None:
    page = committed["index.html"]
    assert len(gzip.compress(page.encode())) <= 150_000
    card = page.partition('<section class="card">')[2].partition("</section>")[0]
    for words in ("leads", "best floor", "Models have been run on", "CPU-seconds", "Download CSV"):
        assert words in card
    assert '<img src="../pictures/' in page and "edition" in page.partition("<footer>")[2]


def test_the_overview_has_a_matrix_of_what_models_compute_with() -> None:
    known = make_about("gsnobench")
    page = index_page([], Surroundings(known))
    section = page.partition('id="means"')[2].partition("</table>")[0]
    trained = [own for own in known.models.values() if not own.is_floor]
    assert section.count("<tr>") == 1 + len(trained)
    line = section.partition(f">{known.models['gsno'].title}<")[2].partition("</tr>")[0]
    assert line.count("<td>yes</td>") == len(known.models["gsno"].means)
    assert line.count("<td>") == 7 and 'id="means"' not in index_page([])


def test_every_heading_has_a_definition(committed: dict[str, str]) -> None:
    for path, page in committed.items():
        heads = [head for head in Reader(page).all("th") if "aria-sort" in head]
        assert all(head.get("title") for head in heads), path


def test_a_task_page_begins_with_equation_units_and_sizes(committed: dict[str, str]) -> None:
    page = committed["tasks/laptop--darcy_threshold.html"]
    order = ["<math", "head [m]", "128 train", ">Ranking<", ">Single samples<"]
    order += [">Reproduce a row<", ">Plots<", ">Who is ahead of whom<"]
    places = [page.index(words) for words in order]
    assert places == sorted(places)


def test_every_row_has_commands_that_repeat_it(committed: dict[str, str]) -> None:
    page = committed["models/gsno@plus.html"]
    settings = "--preset plus --dataset darcy_threshold --track laptop --seed 0"
    command = f"gsnobench run --model gsno {settings}"
    assert f">{command}</code>" in page
    files = re.findall(r">gsnobench verify (\S+) --tier 3</code>", page)
    assert files and all((BOARDS.parent / name).is_file() for name in files)


def test_a_row_of_variants_alone_has_a_page(tmp_path: Path) -> None:
    save(tmp_path, made_result("amg", changed={"model.width": 64}), made_result("gnot"))
    pages = dict(site_files(tracks_of(tmp_path)))
    assert 'href="../models/amg@compact.html"' in pages["tasks/laptop--darcy.html"]
    assert "Variants (1), not ranked" in pages["models/amg@compact.html"]


def test_a_model_page_names_its_sources() -> None:
    around = Surroundings.of([BOARDS / "results"])
    page = model_page("transolver@compact", [], around)
    for words in ("attention", "2024", "https://arxiv.org/abs/", "https://github.com/", "cards/"):
        assert words in page


# -------------------------------------------------------------------------------------------- style


def _palettes() -> list[dict[str, str]]:
    blocks = re.findall(r"\{([^{}]*--page:[^{}]*)\}", asset("style.css"))
    return [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def _luminance(colour: str) -> float:
    parts = [int(colour[first : first + 2], 16) / 255 for first in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(ink: str, paper: str) -> float:
    bright, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_all_text_has_a_contrast_of_at_least_four_and_a_half() -> None:
    light, dark, chosen = _palettes()
    assert dark == chosen, "the dark page is the same by preference and by button"
    pairs = [(ink, paper) for ink in ("text", "muted", "accent") for paper in ("page", "raised")]
    pairs += [("good", "good-page"), ("bad", "bad-page"), ("good", "raised"), ("bad", "raised")]
    for palette in (light, dark):
        for ink, paper in pairs:
            assert _contrast(palette[ink], palette[paper]) >= 4.5, (ink, paper)


def test_text_is_escaped_once_and_markup_not_at_all() -> None:
    assert text("a<b") == "a&lt;b" and text(tag("p", "a<b")) == "<p>a&lt;b</p>"
    link = tag("a", "x", href='"><b>', hidden=False, title=None)
    assert link == '<a href="&quot;&gt;&lt;b&gt;">x</a>'
    assert tag("input", checked=True, data_kind="floor") == '<input checked data-kind="floor">'
