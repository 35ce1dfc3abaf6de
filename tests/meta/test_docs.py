"""Hand-written pages: the map is the tree; every link, path, command and name exists."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

import gsnobench
from gsnobench.cli.app import GROUPS, main
from gsnobench.plugins import load

ROOT = Path(__file__).resolve().parents[2]
CORE, PLUGINS, DOCS = ROOT / "gsnobench", ROOT / "plugins", ROOT / "docs"
MAP = DOCS / "architecture.md"
NEXT = "## What comes next"  # the section of the map that names what does not exist yet
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    ROOT / "leaderboards" / "README.md",
    *sorted((ROOT / "leaderboards" / "notes").glob("*.md")),
    *sorted((ROOT / "leaderboards" / "studies").glob("*/*/note.md")),
    ROOT / "tests" / "example_plugin" / "README.md",
]
SOURCES = ("gsnobench/", "plugins/", "tests/", "benchmarks/", "docs/", "leaderboards/")
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


# ---------------------------------------------------------------------------------------------- map


def named_in_the_map() -> set[str]:
    """Paths of the tree block: files, and folders with a slash at their end."""
    (block,) = re.findall(r"```text\n(gsnobench/\n.*?)```", MAP.read_text(), re.DOTALL)
    named: set[str] = set()
    folders: list[str] = []
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = leading_names(line)
        assert names, f"no file or folder in {line!r}"
        paths = ["".join([*folders[:depth], name]) for name in names]
        named.update(paths)
        if names[-1].endswith("/"):
            folders = [*folders[:depth], names[-1]]
    return named


def leading_names(line: str) -> list[str]:
    """File and folder names at the start of a line; what follows them is a description."""
    names = []
    for word in line.split():
        if not re.fullmatch(r"\w+(\.py|/)", word):
            break
        names.append(word)
    return names


def folders_below(root: Path) -> set[str]:
    return {
        f"{path.parent.relative_to(ROOT)}/"
        for path in root.rglob("*.py")
        if "__pycache__" not in path.parts
    }


def test_the_map_names_every_file_of_the_core_and_every_folder_of_plugins() -> None:
    files = {str(path.relative_to(ROOT)) for path in CORE.rglob("*.py") if path.parent != CORE}
    files = {path for path in files if not path.endswith("__init__.py")}  # its room is named
    files |= {str(path.relative_to(ROOT)) for path in CORE.glob("*.py")}
    expected = files | folders_below(CORE) | folders_below(PLUGINS)
    named = named_in_the_map()
    assert not expected - named, f"not in {MAP.name}: {sorted(expected - named)}"
    assert not named - expected, f"{MAP.name} names what is gone: {sorted(named - expected)}"


def test_the_picture_of_the_import_rule_is_the_rule() -> None:
    (line,) = re.findall(r"^the hall < .*$", MAP.read_text(), re.MULTILINE)
    groups = [tuple(group.split(", ")) for group in line.split(" < ")]
    tree = ast.parse((ROOT / "tests" / "meta" / "test_layers.py").read_text())
    (rooms,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS"
    ]
    assert groups == [("the hall",), *rooms]


def test_what_comes_next_is_not_there_yet() -> None:
    """What has been built moves from the list of plans to the tree."""
    plans = re.findall(r"`([\w./]+)`", MAP.read_text().partition(NEXT)[2])
    assert plans and not [path for path in plans if (ROOT / path).exists()]


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {target.resolve() for target, _ in links(index)}
    assert not set(DOCS.rglob("*.md")) - linked - {index}


# ---------------------------------------------------------------------------------- links and paths


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """File and anchor of every relative link of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    shown = re.findall(r'<img src="([^"]+)"', text)
    for target in [*re.findall(r"\]\(([^)\s]+)\)", text), *shown]:
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield (page.parent / path if path else page), anchor


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that a code host gives to headings."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.replace("\\", "").lower()) for heading in headings)
    return frozenset(heading.replace(" ", "-") for heading in kept)


@by_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{page.name}: no file {target}"
        assert not anchor or anchor in anchors(target), (
            f"{page.name}: no #{anchor} in {target.name}"
        )


@by_page
def test_a_path_in_the_text_exists(page: Path) -> None:
    text = page.read_text().partition(NEXT)[0] if page == MAP else page.read_text()
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for path in re.findall(r"`([\w./@+-]+)`", text):
        if path.startswith(SOURCES) and not path.endswith(("/results", ".nc")):
            assert (ROOT / path).exists(), f"{page.name}: no {path}"
        elif page == MAP and path.endswith((".py", "/")):
            assert (CORE / path).exists(), f"{page.name}: no {path} in gsnobench/"


@by_page
def test_a_committed_file_in_a_command_exists(page: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    for path in re.findall(r"leaderboards/[\w./@+-]+\.\w+", "\n".join(blocks)):
        assert (ROOT / path).exists(), f"{page.name}: no {path}"


# ------------------------------------------------------------------------------- commands and names


def commands(page: Path) -> list[list[str]]:
    """Words after `gsnobench` of every command that a page shows, in blocks and in sentences."""
    text = page.read_text().replace("\\\n", " ")
    blocks = re.findall(r"```(?:sh|text|bash)?\n(.*?)```", text, re.DOTALL)
    indented = re.findall(r"^    (.*)$", text, re.MULTILINE)
    lines = [line for block in [*blocks, *indented] for line in block.splitlines()]
    inline = re.findall(r"`(gsnobench [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    found = re.findall(r"(?:^|&& |make run.*: )(gsnobench .*?)(?= && |$)", "\n".join(lines), re.M)
    return [shlex.split(line, comments=True)[1:] for line in [*found, *inline]]


@cache
def help_of(*words: str) -> str:
    """What `gsnobench WORDS --help` prints, in this process."""
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setenv("COLUMNS", "200")
        patch.setattr(sys, "argv", ["gsnobench", *words, "--help"])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return printed.getvalue()


def commands_of(text: str) -> list[str]:
    """The commands that a help lists, under one heading or several; none if it lists none."""
    headings = "|".join(["Commands", *GROUPS])
    lists = re.findall(rf"^(?:{headings}):\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return [name for lines in lists for name in re.findall(r"^  (\w+) ", lines, re.MULTILINE)]


def check_command(words: list[str]) -> None:
    """The command exists and has every option; an option with a dot is a knob."""
    shown = f"`gsnobench {' '.join(words)}`"
    path: list[str] = []
    while (known := commands_of(help_of(*path))) and words[len(path) :]:
        name = words[len(path)]
        if not path and name.startswith("--"):  # of the whole program: --version
            break
        assert name in known, f"no command {name!r} in {shown}"
        path.append(name)
    lines = re.findall(r"^  (--.*?)(?:  |$)", help_of(*path), re.MULTILINE)
    options = {option for line in lines for option in re.findall(r"--[\w-]+", line)}
    for word in words[len(path) :]:
        name = word.partition("=")[0]
        if name.startswith("--") and not re.match(r"--(model|train|data)\.\w", name):
            assert name in options, f"no option {name} in {shown}"


@by_page
def test_every_command_exists(page: Path) -> None:
    for words in commands(page):
        for alternative in spelt_out(words):
            check_command(alternative)


def spelt_out(words: list[str]) -> list[list[str]]:
    """`leaderboard build|show` -> both; a word in capitals or dots stands for a value."""
    first = next((word for word in words if re.fullmatch(r"[a-z]+(\|[a-z]+)+", word)), None)
    if first is None:
        return [words]
    return [[part if word == first else word for word in words] for part in first.split("|")]


def test_commands_are_seen() -> None:
    seen = [" ".join(words) for words in commands(ROOT / "README.md")]
    assert any(words.startswith("run --model gsno --dataset swe") for words in seen)
    assert any(words.startswith("leaderboard show") for words in seen)
    with pytest.raises(AssertionError, match="no option --trails"):
        check_command(["sweep", "--trails", "3"])


@by_page
def test_public_names_exist(page: Path) -> None:
    text = page.read_text()
    for name in set(re.findall(r"\bgb\.(\w+)", text)):
        assert hasattr(gsnobench, name), f"{page.name}: gsnobench has no {name!r}"
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        ast.parse(block)


@pytest.mark.parametrize(
    "page", sorted((DOCS / "datasets").glob("*.md")), ids=lambda page: page.stem
)
def test_the_page_of_a_dataset_lists_its_knobs(page: Path) -> None:
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `--data.")]
    listed = {name for row in rows for name in re.findall(r"`--data\.(\w+)`", row.split("|")[1])}
    assert listed == {knob.name for knob in load("dataset", page.stem).params.knobs()}


def test_every_dataset_has_a_page() -> None:
    pages = {page.stem for page in (DOCS / "datasets").glob("*.md")}
    assert pages == {path.stem for path in (PLUGINS / "datasets").glob("*.py")} - {"__init__"}
