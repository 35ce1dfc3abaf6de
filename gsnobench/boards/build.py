"""`leaderboard build`: all rendered files from the evidence; the same bytes every time, and no work
when nothing is new.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsnobench.boards.evidence import fingerprint, read_evidence
from gsnobench.files import atomic, digest, write_text
from gsnobench.registry import read_registry

# statistics and pictures take seconds to import: not needed to see that nothing is new
if TYPE_CHECKING:
    from gsnobench.boards.board import Track

STAMP = ".build.json"  # what the last build read and wrote; a cache, not evidence
# notes/<track>.md: a reading of the numbers by a person, shown on the rendered page
NOTES = "notes"
SITE = "site"


@dataclass(frozen=True)
class Built:
    """What a build did: files by their names below the folder."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # evidence that was skipped
    was_fresh: bool = False


def read_tracks(roots: Sequence[Path]) -> tuple[list[Track], tuple[str, ...]]:
    """The boards of some folders of evidence, and what had to be skipped."""
    from gsnobench.boards.assemble import make_tracks
    from gsnobench.boards.paper import read_published

    evidence = read_evidence(roots)
    return make_tracks(evidence, read_registry().floors, read_published()), evidence.problems


@dataclass(frozen=True)
class Target:
    """Where a build writes: a folder of its own, and places in the documents of others."""

    out: Path
    ledger: Path | None = None  # a whole file
    readme: Path | None = None  # between the marks of an overview


def build(roots: Sequence[Path], target: Target) -> Built:
    """Bring a folder up to date: only files that changed are written, rendered ones that are no
    longer made are removed.
    """
    # looked at before it is read: a late file is not missed
    out, last, seen = target.out, _last(target.out), fingerprint(roots)
    if last.get("stamp") == _stamp(seen, roots, target):
        return Built(problems=tuple(last["problems"]), was_fresh=True)
    tracks, problems = read_tracks(roots)
    files = dict(rendered(tracks, target))
    written = [str(path) for path, text in files.items() if _write(path, text)]
    removed = [path for path in _made_before(out) if path not in files]
    for path in removed:
        path.unlink()
    body = {"stamp": _stamp(seen, roots, target), "problems": problems}
    write_text(out / STAMP, json.dumps(body) + "\n")
    return Built(tuple(written), tuple(str(path) for path in removed), problems)


def stale(roots: Sequence[Path], target: Target) -> list[Path]:
    """Rendered files that differ from what the evidence says now; writes nothing."""
    tracks, _ = read_tracks(roots)
    files = dict(rendered(tracks, target))
    differing = [path for path, text in files.items() if _content(path) != text]
    return [*differing, *(path for path in _made_before(target.out) if path not in files)]


def rendered(tracks: Sequence[Track], target: Target) -> Iterator[tuple[Path, bytes]]:
    """Path -> content of every rendered file, all a function of the evidence (and of the notes
    beside it).
    """
    from gsnobench.boards.board import safe_name
    from gsnobench.boards.plots.track import overview_png

    for track in tracks:
        yield target.out / f"{safe_name(track.name)}.png", overview_png(track)
    yield from ((target.out / name, text.encode()) for name, text in _own_files(tracks, target.out))
    if target.ledger is not None:
        yield target.ledger, _ledger_page(tracks).encode()
    if target.readme is not None:
        there = os.path.relpath(target.out, target.readme.parent)
        yield (
            target.readme,
            embedded(_content(target.readme).decode(), tracks, Path(there).as_posix()).encode(),
        )


def _own_files(tracks: Sequence[Track], out: Path) -> Iterator[tuple[str, str]]:
    from gsnobench.boards.board import safe_name
    from gsnobench.boards.markdown import track_page
    from gsnobench.boards.site.pages import site_files
    from gsnobench.boards.tables import latex, to_csv, to_json

    for track in tracks:
        name = safe_name(track.name)
        yield f"{name}.md", track_page(track, _content(out / NOTES / f"{name}.md").decode().strip())
        yield f"tables/{name}.tex", latex(track)
    yield "tables/boards.csv", to_csv(tracks)
    yield "tables/boards.json", to_json(tracks)
    for name, text in site_files(tracks):
        yield f"{SITE}/{name}", text


def embedded(text: str, tracks: Sequence[Track], folder: str) -> str:
    """A document with the overview of a track between `<!-- overview of TRACK -->` and `<!-- end of
    overview -->`.

    Its links lead to the pages in `folder`, as seen from the document.
    """
    from gsnobench.boards.board import safe_name
    from gsnobench.boards.markdown import overview

    for track in tracks:
        begin, end = f"<!-- overview of {track.name} -->", "<!-- end of overview -->"
        before, found, rest = text.partition(begin)
        if found and end in rest:
            page = f"{folder}/{safe_name(track.name)}.md"
            text = f"{before}{begin}\n\n{overview(track, page)}\n\n{end}{rest.partition(end)[2]}"
    return text


def _ledger_page(tracks: Sequence[Track]) -> str:
    from gsnobench.boards.ledger import ledger
    from gsnobench.boards.paper import read_published

    return ledger(tracks, read_published())


def _made_before(out: Path) -> list[Path]:
    """Files of an earlier build: all that lies in the folders that only a build writes to."""
    from gsnobench.boards.markdown import GENERATED

    found = [
        path for folder in (SITE, "tables") for path in (out / folder).rglob("*") if path.is_file()
    ]
    pages = [path for path in out.glob("*.md") if _content(path).startswith(GENERATED.encode())]
    found += [
        *pages,
        *(path.with_suffix(".png") for path in pages if path.with_suffix(".png").exists()),
    ]
    return sorted(found)


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _write(path: Path, content: bytes) -> bool:
    """Write unless the file says so already, so that an unchanged board keeps its time of change."""
    if path.exists() and _content(path) == content:
        return False
    with atomic(path) as part:
        part.write_bytes(content)
    return True


# -------------------------------------------------------------------------------------------- stamp


def _stamp(evidence: str, roots: Sequence[Path], target: Target) -> str:
    """Of the evidence, of the code that renders it, and of what was rendered."""
    code = sorted(
        path
        for path in Path(__file__).parent.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    there = (path for path in target.out.rglob("*") if path.is_file() and path.name != STAMP)
    made = sorted(path for path in there if not _is_below(path, roots))
    files = [
        *code,
        *made,
        *(path for path in (target.ledger, target.readme) if path is not None and path.exists()),
    ]
    stats = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    return digest([evidence, list(read_registry().floors), stats])


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    return any(root in path.parents for root in roots)


def _last(out: Path) -> Mapping[str, Any]:
    try:
        body = json.loads(_content(out / STAMP) or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
