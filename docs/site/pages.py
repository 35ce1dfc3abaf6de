"""Which files of the repository are on the site: pages, what they link to, and whole folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "*.md",
    "docs/**/*.md",
    "leaderboards/*.md",
    "leaderboards/cards/*.md",
    "leaderboards/studies/*.md",
    "leaderboards/tuning/*.md",
)
FOLDERS = (  # whole folders, so that the boards can link to pictures, tables and evidence
    "leaderboards/pictures",
    "leaderboards/results",
    "leaderboards/site",
    "leaderboards/studies",
    "leaderboards/tables",
    "leaderboards/tuning",
)
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
INDEX = "README.md"


def pages() -> list[str]:
    """Paths of all pages below the root."""
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def assets() -> list[str]:
    """Paths of all files that are copied as they are: folders, and what pages link to or show."""
    found = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*")}
    for page in pages():
        found |= set(linked(ROOT / page))
    files = (path for path in found if path.is_file() and path.suffix != ".md")
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


def linked(page: Path) -> Iterator[Path]:
    """Files and folders of the repository that a page links to or shows."""
    text = page.read_text()
    targets = [match[2] for match in LINK.finditer(text)] + re.findall(r'src="([^"]+)"', text)
    for target in targets:
        path = (page.parent / target).resolve()
        if path.exists() and path.is_relative_to(ROOT):
            yield path


def folders() -> list[str]:
    """Folders that pages link to and that have no page of their own: each gets a list of files."""
    targets = {path for page in pages() for path in linked(ROOT / page) if path.is_dir()}
    listed = (folder for folder in targets if not (folder / INDEX).exists())
    return sorted(folder.relative_to(ROOT).as_posix() for folder in listed)


def listing(folder: str) -> str:
    """A page that lists what is in a folder, as a code host does."""
    files = sorted(path for path in (ROOT / folder).rglob("*") if path.is_file())
    names = [path.relative_to(ROOT / folder).as_posix() for path in files]
    lines = [f"- [{name}]({name})" for name in names]
    return f"# {folder}\n\n" + "\n".join(lines) + "\n"


def to_index(markdown: str, page: str) -> str:
    """A link to a folder becomes a link to the page of that folder."""

    def link(match: re.Match[str]) -> str:
        opening, target, anchor, closing = match.groups()
        folder = (ROOT / page).parent / target
        ending = f"/{INDEX}" if folder.is_dir() else ""
        return f"{opening}{target.rstrip('/') if ending else target}{ending}{anchor or ''}{closing}"

    return LINK.sub(link, markdown)


def expanded(nav: list[Any]) -> list[Any]:
    """The menu with every pattern (`docs/datasets/*.md`) replaced by the pages that it finds."""
    menu: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            (title, below), *_ = entry.items()
            menu.append({title: expanded(below) if isinstance(below, list) else below})
        elif "*" in entry:
            menu += [path for path in pages() if PurePath(path).match(entry)]
        else:
            menu.append(entry)
    return menu
