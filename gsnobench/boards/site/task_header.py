"""What a task asks: picture, equation, inputs and outputs with their units, sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board
from gsnobench.boards.site.about import FieldAbout, TaskAbout
from gsnobench.boards.site.formula import formula, unit
from gsnobench.boards.site.html import Html, coded, tag
from gsnobench.boards.site.summary import task_picture
from gsnobench.boards.site.surroundings import Surroundings

MACHINES = 3  # names of hardware that are listed


def task_header(board: Board, around: Surroundings, home: str | None) -> Iterator[Html]:
    """Picture and equation side by side, then the facts."""
    known, picture = around.task(board), task_picture(board, around, home)
    words = list(_words(board, known)) if known else []
    if picture or words:
        yield tag("section", picture, tag("div", words), class_="task")
    yield _facts(board)


def _words(board: Board, known: TaskAbout) -> Iterator[Html]:
    yield tag("p", tag("strong", known.title))
    yield tag("div", map(formula, known.equations), class_="equations")
    shown = {section: known.words.get(section, "") for section in ("Domain", "Varies")}
    if known.differs:
        shown[f"Differs from {known.dataset}"] = "; ".join(known.differs)
    shown["Given"] = _given(board, known)
    shown["Asked"] = _fields(known.outputs) + _asked(board, known)
    shown["Scored"] = _scored(known.outputs)
    pairs = [
        tag("div", tag("dt", name), tag("dd", coded(text))) for name, text in shown.items() if text
    ]
    yield tag("dl", pairs, class_="terms")
    if details := known.words.get("Equation", ""):
        words = [tag("p", coded(f"{details} {known.words.get('Source', '')}"))]
        yield tag("details", tag("summary", "Boundary and initial conditions, solver"), words)


def _window(board: Board) -> tuple[str, str]:
    given, _, asked = board.task.partition("@")[2].partition("-")
    return given, asked


def _given(board: Board, known: TaskAbout) -> str:
    """Frames and inputs that a model sees."""
    given, asked = _window(board)
    frames = [f"{given} frame{'s' if given != '1' else ''}"] if asked else []
    inputs = [_fields(known.inputs)] if known.inputs else []
    meshes = "one mesh for all samples" if known.fixed_mesh else "a mesh of its own per sample"
    where = f"with the coordinates of its nodes in {unit(known.length_unit)}"
    where = where.replace(" in no unit", "")
    return "; ".join([*frames, *inputs, f"{meshes}, {where}"])


def _asked(board: Board, known: TaskAbout) -> str:
    _, asked = _window(board)
    if not asked:
        return ""
    end = f"{wording.number(known.last_time)} {unit(known.time_unit)}".replace(" no unit", "")
    frames = f"{asked} frame{'s' if asked != '1' else ''}"
    return f"; the next {frames}, of {known.frames} up to time {end}"


def _fields(fields: Sequence[FieldAbout]) -> str:
    return ", ".join(f"{entry.name} [{unit(entry.unit)}]" for entry in fields)


def _scored(fields: Sequence[FieldAbout]) -> str:
    moved = [f"{entry.name} − {entry.reference:g}" for entry in fields if entry.reference]
    scored = f"; scored as {', '.join(moved)}" if moved else ""
    return f"relative L2 error per sample, mean over test samples and fields{scored}"


def _facts(board: Board) -> Html:
    entries = [entry for row in board.rows for entry in row.done]
    machines = sorted({str(entry.environment.get("hardware", "")) for entry in entries} - {""})
    more = f" and {len(machines) - MACHINES} more" if len(machines) > MACHINES else ""
    outdated = f"; {board.outdated} more of older revisions are left out" if board.outdated else ""
    hashes = ", ".join(data_hash[:12] for data_hash in board.data if data_hash)
    facts = {
        "task": f"{board.task}, version {board.version}",
        "nodes": f"{board.resolution:,}",
        "samples": ", ".join(f"{count} {split}" for split, count in board.sizes.items()),
        "data": f"{board.origin or 'unknown'}, seed {board.data_seed}",
        "data hash": hashes or wording.NOTHING,
        "results": f"{len(entries)} finished{outdated}",
        "costs measured on": ", ".join(machines[:MACHINES]) + more or wording.NOTHING,
    }
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items()]
    return tag("dl", pairs, class_="facts")
