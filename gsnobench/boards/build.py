"""`leaderboard build`: all rendered files from the evidence, the same bytes every time.

A stamp of what was read and written lets a build end at once when nothing is new.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from gsnobench.boards.evidence import NOWHERE, Installation, evidence_stamp, read_evidence
from gsnobench.errors import DataError
from gsnobench.files import atomic, digest, write_text
from gsnobench.reading import parse_json
from gsnobench.registry import read_registry, registry_path

# statistics and pictures take seconds to import: not needed to see that nothing is new
if TYPE_CHECKING:
    from gsnobench.boards.board import BoardTrack
    from gsnobench.boards.studies import StudyResult

STAMP = ".build.json"  # what the last build read and wrote; a cache, not evidence
SITE = "site"
TABLES = "tables"
WIDTH = 100  # of the lines of a document


@dataclass(frozen=True)
class Target:
    """What a build writes: a folder of its own, and parts of other documents."""

    out: Path
    ledger: Path | None = None  # a whole file
    readme: Path | None = None  # between the marks of an overview


@dataclass(frozen=True)
class Built:
    """What a build did: files by their names below the folder."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # evidence that was skipped
    was_fresh: bool = False


def read_tracks(
    roots: Sequence[Path], here: Installation = NOWHERE
) -> tuple[list[BoardTrack], tuple[str, ...]]:
    """The boards of some folders of evidence, and one line per file that was skipped."""
    from gsnobench.boards.assembly.tracks import make_tracks
    from gsnobench.boards.reproduction.paper import read_paper

    evidence, registry = read_evidence(roots, here.results), read_registry()
    return make_tracks(evidence, registry, read_paper(), here), evidence.problems


def build(roots: Sequence[Path], target: Target, here: Installation = NOWHERE) -> Built:
    """Bring a folder up to date: write files that changed, remove those no longer made."""
    # looked at before it is read: a late file is not missed
    out, last = target.out, _last_build(target.out)
    sources = [evidence_stamp(roots), str(here.results), sorted(here.code.items())]
    sources.append(str(sorted(here.revisions.items())))
    if last.get("stamp") == _stamp(sources, roots, target):
        return Built(problems=tuple(last["problems"]), was_fresh=True)
    files, problems = _rendered_files(roots, target, here)
    written = [str(path) for path, content in files.items() if _write(path, content)]
    removed = [path for path in _made_before(out) if path not in files]
    for path in removed:
        path.unlink()
    body = {"stamp": _stamp(sources, roots, target), "problems": problems}
    write_text(out / STAMP, json.dumps(body) + "\n")
    return Built(tuple(written), tuple(str(path) for path in removed), problems)


def stale(roots: Sequence[Path], target: Target, here: Installation = NOWHERE) -> list[Path]:
    """Rendered files that differ from what the evidence says now; writes nothing."""
    files, _ = _rendered_files(roots, target, here)
    differing = [path for path, content in files.items() if _content(path) != content]
    return [*differing, *(path for path in _made_before(target.out) if path not in files)]


def _rendered_files(
    roots: Sequence[Path], target: Target, here: Installation
) -> tuple[dict[Path, bytes], tuple[str, ...]]:
    """Every rendered file, and one line per file of evidence that was skipped."""
    from gsnobench.boards.studies import FOLDER, read_studies

    tracks, problems = read_tracks(roots, here)
    studies, more = read_studies(target.out / FOLDER)
    return dict(rendered(tracks, studies, target)), (*problems, *more)


def rendered(
    tracks: Sequence[BoardTrack], studies: Sequence[StudyResult], target: Target
) -> Iterator[tuple[Path, bytes]]:
    """Path and content of every rendered file, functions of the evidence and of the notes."""
    from gsnobench.boards.board import safe_name
    from gsnobench.boards.plots.track import overview_png
    from gsnobench.boards.reproduction.ledger import compare_all, counts, ledger
    from gsnobench.boards.reproduction.paper import read_paper
    from gsnobench.boards.studies import FOLDER, study_pages

    for track in tracks:
        if _has_picture(track):
            yield target.out / f"{safe_name(track.name)}.png", overview_png(track)
    for name, text in _own_files(tracks, target.out):
        yield target.out / name, text.encode()
    for name, text in study_pages(studies):
        yield target.out / FOLDER / name, text.encode()
    if target.ledger is None and target.readme is None:
        return
    paper = read_paper()
    lines = compare_all(paper, tracks, studies)
    if target.ledger is not None:
        yield target.ledger, ledger(lines, paper).encode()
    if target.readme is not None:
        folder = Path(os.path.relpath(target.out, target.readme.parent)).as_posix()
        text = embedded(_content(target.readme).decode(), tracks, folder)
        yield target.readme, with_counts(text, counts(lines)).encode()


def _own_files(tracks: Sequence[BoardTrack], out: Path) -> Iterator[tuple[str, str]]:
    """Name and text of the files in the folder of a build."""
    from gsnobench.boards.board import safe_name
    from gsnobench.boards.markdown import track_page
    from gsnobench.boards.site.about import read_about
    from gsnobench.boards.site.pages import site_files
    from gsnobench.boards.site.surroundings import Surroundings
    from gsnobench.boards.tables import latex, to_csv, to_json

    around = Surroundings(read_about(out), out)
    for track in tracks:
        name = safe_name(track.name)
        notes = {slug: around.notes(track.name, slug) for slug in _subjects(track)}
        yield f"{name}.md", track_page(track, notes, f"{name}.png" if _has_picture(track) else "")
        yield f"{TABLES}/{name}.tex", latex(track)
    yield f"{TABLES}/boards.csv", to_csv(tracks)
    yield f"{TABLES}/boards.json", to_json(tracks)
    for name, text in site_files(tracks, around):
        yield f"{SITE}/{name}", text


def _subjects(track: BoardTrack) -> list[str]:
    """What a person may remark on: the track itself, and each of its boards."""
    return ["", *(board.slug for board in track.boards)]


def _has_picture(track: BoardTrack) -> bool:
    return any(board.has_models for board in track.main)


def embedded(text: str, tracks: Sequence[BoardTrack], folder: str) -> str:
    """A document with the overview of a track between its marks; links lead to pages in `folder`.

    The marks are `<!-- overview of TRACK -->` and `<!-- end of overview -->`.
    """
    from gsnobench.boards.board import safe_name
    from gsnobench.boards.markdown import readme_part

    for track in tracks:
        begin, end = f"<!-- overview of {track.name} -->", "<!-- end of overview -->"
        before, mark, rest = text.partition(begin)
        if mark and end in rest:
            page = f"{folder}/{safe_name(track.name)}.md"
            text = f"{before}{begin}\n\n{readme_part(track, page)}\n\n{end}{rest.partition(end)[2]}"
    return text


def with_counts(text: str, counts: str) -> str:
    """A document with what the ledger counts between its marks.

    They are `<!-- counts of the ledger -->` and `<!-- end of counts -->`.
    """
    begin, end = "<!-- counts of the ledger -->", "<!-- end of counts -->"
    before, mark, rest = text.partition(begin)
    if not mark or end not in rest:
        return text
    lines = "\n".join(wrap(counts, WIDTH))
    return f"{before}{begin}\n{lines}\n{end}{rest.partition(end)[2]}"


# -------------------------------------------------------------------------------------------- files


def _made_before(out: Path) -> list[Path]:
    """Files of an earlier build: generated pages, and all in the folders of builds."""
    from gsnobench.boards.markdown import GENERATED
    from gsnobench.boards.studies import FOLDER

    paths = [path for folder in (SITE, TABLES) for path in (out / folder).rglob("*")]
    mark = GENERATED.encode()
    pages = [path for path in out.glob("*.md") if _content(path).startswith(mark)]
    studies = [path for path in out.glob(f"{FOLDER}/*.md") if _content(path).startswith(mark)]
    pictures = [path.with_suffix(".png") for path in pages]
    return sorted(path for path in (*paths, *pages, *pictures, *studies) if path.is_file())


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _write(path: Path, content: bytes) -> bool:
    """Write unless the file holds that already, so that its time of change stays."""
    if path.exists() and _content(path) == content:
        return False
    with atomic(path) as part:
        part.write_bytes(content)
    return True


# -------------------------------------------------------------------------------------------- stamp


def _stamp(sources: Sequence[object], roots: Sequence[Path], target: Target) -> str:
    """Of the evidence, the registry, the code of this room, and of what was rendered."""
    room = Path(__file__).parent
    code = [path for path in room.rglob("*") if "__pycache__" not in path.parts]
    made = [path for path in target.out.rglob("*") if path.name != STAMP]
    made = [path for path in made if not any(root in path.parents for root in roots)]
    others = [path for path in (target.ledger, target.readme) if path is not None]
    files = [path for path in (*sorted(code), *sorted(made), *others) if path.is_file()]
    stats = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    return digest([*sources, registry_path().read_text(encoding="utf-8"), stats])


def _last_build(out: Path) -> Mapping[str, Any]:
    try:
        content = _content(out / STAMP) or b"{}"
        body = parse_json(content, label=STAMP, expected="a stamp")
    except DataError:
        return {}
    return body if isinstance(body, dict) else {}
