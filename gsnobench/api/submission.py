"""`gsnobench submit`: results of runs, checked and put where a pull request needs them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gsnobench.errors import DataError, RunError
from gsnobench.files import atomic
from gsnobench.home import Home
from gsnobench.records import RunResult, RunSpec, evidence_path
from gsnobench.runs.verify_file import check_itself, opened_subject, result_of

CHECKOUT = Path("leaderboards") / "results"  # of a clone of the benchmark
ACCEPTED = ("done", "diverged", "declined")
SEEDS = 3  # fewer are marked on the boards


@dataclass(frozen=True, eq=False)
class Piece:
    """One result with its picture, and the file that it becomes."""

    result: RunResult
    path: Path
    picture: Path | None

    def write(self) -> None:
        self.result.save(self.path)
        if self.picture is not None:
            with atomic(self.path.with_suffix(".png")) as part:
                part.write_bytes(self.picture.read_bytes())

    @property
    def files(self) -> list[Path]:
        return [self.path] if self.picture is None else [self.path, self.path.with_suffix(".png")]


@dataclass(frozen=True)
class Submission:
    """What was put in place, what a reviewer will notice, and the commands that send it."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]
    commands: tuple[str, ...]


def default_folder() -> Path:
    """The folder of results of the clone that this is called in."""
    if not CHECKOUT.is_dir():
        raise RunError(
            f"submit: no {CHECKOUT} here; call it in a clone of the benchmark, or name a folder "
            "with --to"
        )
    return CHECKOUT


def submit(runs: Sequence[str], folder: Path, home: Home) -> Submission:
    """Check the results of runs and put them in place; nothing is written if one is refused."""
    pieces = [_piece(run, folder, home) for run in runs]
    for piece in pieces:
        piece.write()
    files = tuple(file for piece in pieces for file in piece.files)
    specs = [piece.result.spec for piece in pieces]
    return Submission(files, tuple(_notes(pieces)), tuple(_commands(specs, files, folder)))


def _piece(run: str, folder: Path, home: Home) -> Piece:
    """A result that passes tier 0 of `verify`."""
    with opened_subject(run, home) as subject:
        failed = [check.what for check in check_itself(subject) if check.state == "FAIL"]
        result = result_of(subject)
        picture = None if subject.folder is None else subject.folder.picture
    if failed or result is None:
        raise DataError(
            f"{run}: fails {', '.join(failed) or 'its own checks'}; `gsnobench verify {run}` has "
            "the details"
        )
    spec = result.spec
    if result.status not in ACCEPTED:
        raise RunError(
            f"{run}: ended {result.status} ({result.reason}); boards take runs that are "
            f"{', '.join(ACCEPTED)}"
        )
    path = evidence_path(folder, spec)
    if path.exists() and RunResult.load(path).to_json() != result.to_json():
        raise DataError(f"{path}: holds another result of the same run; remove one of the two")
    return Piece(result, path, picture if picture is not None and picture.exists() else None)


def _notes(pieces: Sequence[Piece]) -> list[str]:
    """What the boards will say about these results."""
    notes = []
    for piece in pieces:
        result, name = piece.result, f"{piece.result.spec.row} on {piece.result.spec.task}"
        if result.changed:
            settings = ", ".join(f"{key}={value}" for key, value in result.changed.items())
            notes.append(f"{name}: a variant, shown and not ranked ({settings})")
        if result.steps_from == "home":
            notes.append(
                f"{name}: its steps were counted on this machine and are marked so; a plugin "
                "may ship its counts (`gb.Model(steps=...)`)"
            )
        if result.spec.source:
            notes.append(f"{name}: made on a file of yours; it gets a board of its own")
        seeds = len(list(piece.path.parent.glob("*.json")))
        if any(result.spec.steps.values()) and seeds < SEEDS:
            notes.append(f"{name}: {seeds} of {SEEDS} seeds; rows with fewer are marked")
    return list(dict.fromkeys(notes))


def _commands(specs: Sequence[RunSpec], files: Sequence[Path], folder: Path) -> list[str]:
    """The lines that turn the files into a pull request."""
    rows = ", ".join(dict.fromkeys(spec.row for spec in specs))
    tasks = ", ".join(dict.fromkeys(spec.task for spec in specs))
    branch = f"results-{specs[0].model}-{specs[0].task.partition('@')[0]}"
    added = shlex.join(str(file) for file in files)
    rendered = ["make boards", "git add leaderboards README.md"] if folder == CHECKOUT else []
    return [
        f"git switch -c {shlex.quote(branch)}",
        f"git add {added}",
        *rendered,
        f"git commit -m {shlex.quote(f'Results of {rows} on {tasks}')}",
        "git push -u origin HEAD",
    ]
