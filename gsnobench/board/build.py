"""`leaderboard build`: all rendered files from the evidence; the same bytes every time, and no work when nothing is new."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gsnobench.board.evidence import fingerprint, read_evidence
from gsnobench.cache import digest, write_text
from gsnobench.registry import read_registry

if TYPE_CHECKING:  # statistics and pictures take seconds to import: not needed to see that nothing is new
    from gsnobench.board.boards import Track

STAMP = ".build.json"  # what the last build read and wrote; a cache, not evidence
NOTES = "notes"  # notes/<track>.md: a reading of the numbers by a person, shown on the rendered page
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
    from gsnobench.board.boards import make_tracks
    from gsnobench.board.published import read_published

    evidence = read_evidence(roots)
    return make_tracks(evidence, read_registry().floors, read_published()), evidence.problems


def build(roots: Sequence[Path], out: Path, ledger: Path | None = None) -> Built:
    """Bring a folder up to date: only files that changed are written, rendered ones that are no longer made are removed."""
    stamp = _stamp(roots, out, ledger)
    if _last(out).get("stamp") == stamp:
        return Built(problems=tuple(_last(out)["problems"]), was_fresh=True)
    tracks, problems = read_tracks(roots)
    files = dict(rendered(tracks, out))
    written = [name for name, text in files.items() if _write(out / name, text)]
    if ledger is not None and _write(ledger, ledger_page(tracks)):
        written.append(str(ledger))
    removed = [name for name in _made_before(out) if name not in files]
    for name in removed:
        (out / name).unlink()
    body = {"stamp": _stamp(roots, out, ledger), "problems": problems}
    write_text(out / STAMP, json.dumps(body) + "\n")
    return Built(tuple(written), tuple(removed), problems)


def stale(roots: Sequence[Path], out: Path, ledger: Path | None = None) -> list[str]:
    """Rendered files that differ from what the evidence says now; writes nothing."""
    tracks, _ = read_tracks(roots)
    files = dict(rendered(tracks, out))
    differing = [name for name, text in files.items() if _content(out / name) != text]
    if ledger is not None and _content(ledger) != ledger_page(tracks):
        differing.append(str(ledger))
    return [*differing, *(name for name in _made_before(out) if name not in files)]


def rendered(tracks: Sequence[Track], out: Path) -> Iterator[tuple[str, str]]:
    """Name -> text of every rendered file, all a function of the evidence (and of the notes beside it)."""
    from gsnobench.board.boards import safe_name
    from gsnobench.board.markdown import track_page
    from gsnobench.board.site import site_files
    from gsnobench.board.tables import latex, to_csv, to_json

    for track in tracks:
        name = safe_name(track.name)
        yield f"{name}.md", track_page(track, _content(out / NOTES / f"{name}.md").strip())
        yield f"tables/{name}.tex", latex(track)
    yield "tables/boards.csv", to_csv(tracks)
    yield "tables/boards.json", to_json(tracks)
    for name, text in site_files(tracks):
        yield f"{SITE}/{name}", text


def ledger_page(tracks: Sequence[Track]) -> str:
    from gsnobench.board.published import read_published
    from gsnobench.board.reproduction import ledger

    return ledger(tracks, read_published())


def _made_before(out: Path) -> list[str]:
    """Files of an earlier build: all that lies in the folders that only a build writes to."""
    from gsnobench.board.markdown import GENERATED

    found = [path for folder in (SITE, "tables") for path in (out / folder).rglob("*") if path.is_file()]
    found += [path for path in out.glob("*.md") if path.read_text(encoding="utf-8").startswith(GENERATED)]
    return sorted(path.relative_to(out).as_posix() for path in found)


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _write(path: Path, text: str) -> bool:
    """Write unless the file says so already, so that an unchanged board keeps its time of change."""
    if path.exists() and _content(path) == text:
        return False
    write_text(path, text)
    return True


# ---------------------------------------------------------------------------------------------------------------- stamp


def _stamp(roots: Sequence[Path], out: Path, ledger: Path | None) -> str:
    """Of the evidence, of the code that renders it, and of what was rendered."""
    code = sorted(path for path in Path(__file__).parent.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    made = sorted(path for path in out.rglob("*") if path.is_file() and path.name != STAMP and not _is_below(path, roots))
    seen = [*code, *made, *([ledger] if ledger is not None and ledger.exists() else [])]
    stats = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in seen]
    return digest([fingerprint(roots), list(read_registry().floors), stats])


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    return any(root in path.parents for root in roots)


def _last(out: Path) -> Mapping[str, str | list[str]]:
    try:
        body = json.loads(_content(out / STAMP) or "{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
