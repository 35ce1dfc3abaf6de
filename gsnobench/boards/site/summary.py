"""The first screen of the overview: who leads and how surely, and a gallery of the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsnobench.boards.board import Board, BoardTrack
from gsnobench.boards.reading import compared_boards, verdict
from gsnobench.boards.site.about import TaskAbout
from gsnobench.boards.site.elements import ADD_PATH, task_label, task_name, task_path
from gsnobench.boards.site.formula import formula, unit
from gsnobench.boards.site.html import Html, tag, text
from gsnobench.boards.site.surroundings import TABLES, Surroundings, inlined

EXTRA = "extra task"  # not among the tasks of the benchmark, so not counted

# ------------------------------------------------------------------------------------- summary card


def summary_card(track: BoardTrack, around: Surroundings, anchor: str, *, is_alone: bool) -> Html:
    """Who leads, how surely, against which floor; what was run, and within which budget."""
    sentences = summary(track)
    items = [tag("p", sentence) for sentence in sentences[1:]]
    buttons = [("See the table", f"#{anchor}-table"), ("How to read it", "#glossary")]
    if not is_alone:
        buttons.append(("Add your model", ADD_PATH))
    if not is_alone and around.out is not None:
        tables = {"CSV": "boards.csv", "JSON": "boards.json"}
        buttons += [(f"Download {name}", f"../{TABLES}/{file}") for name, file in tables.items()]
    links = [tag("a", text, href=address, class_="button") for text, address in buttons]
    lead = tag("p", sentences[0], class_="lead")
    return tag("section", lead, items, tag("p", links, class_="buttons"), class_="card")


def summary(track: BoardTrack) -> list[str]:
    """The summary in sentences; the first one says who leads."""
    who, *how = verdict(track) or ["No row leads yet."]
    sentences = [" ".join([who, *how[:1]]), *([" ".join(how[1:])] if how[1:] else [])]
    models = len([board for board in _board_tasks(track) if board.has_models])
    others = track.tasks - models
    coverage = f"Models have been run on {models} of {track.tasks} tasks"
    floors = f"; on the other {others} only floors, simple predictors that a model has to beat"
    sentences.append(f"{coverage}{floors if others else ''}.")
    budget = f"Track {track.name}, {track.help}" if track.help else ""
    return [*sentences, *([f"{budget}{_sizes(track)}."] if budget else [])]


def _board_tasks(track: BoardTrack) -> Sequence[Board]:
    """The compared boards, or all of them where none is compared."""
    return compared_boards(track) or track.boards


def _sizes(track: BoardTrack) -> str:
    sizes = {board.sizes.get("train", 0) for board in _board_tasks(track)} - {0}
    ends = sorted({min(sizes), max(sizes)}) if sizes else []
    return f"; {' to '.join(map(str, ends))} training samples" if ends else ""


# ------------------------------------------------------------------------------------------ gallery


def gallery(track: BoardTrack, around: Surroundings, *, is_alone: bool) -> Html:
    """One tile per task: picture, what it is in a line, how many models have been run."""
    if is_alone or not any(around.task(board) for board in track.boards):
        return Html("")
    tiles = _tiles(track.main, around, is_counted=True)
    if not track.extra:
        return tiles
    words = f"{len(track.extra)} more boards: other windows, other data, easier forms of a task"
    extra = _tiles(track.extra, around, is_counted=False)
    return text((tiles, tag("details", tag("summary", words), extra)))


def _tiles(boards: Sequence[Board], around: Surroundings, *, is_counted: bool) -> Html:
    items = [tag("li", _tile(board, around, is_counted=is_counted)) for board in boards]
    return tag("ul", items, class_="gallery")


def _tile(board: Board, around: Surroundings, *, is_counted: bool) -> Html:
    known, picture = around.task(board), around.address(around.tile(board))
    image: Iterator[Html] | Html = tag("span", class_="blank")
    if picture:
        image = tag("img", src=picture, alt="", loading="lazy", decoding="async")
    elif known:
        image = tag("span", map(formula, known.equations[:1]), class_="blank")
    models = len({row.model for row in board.compared if not row.is_floor})
    chip = f"{models} model{'s' if models != 1 else ''}" if models else "floors only"
    chips = [chip, *([] if is_counted else [EXTRA])]
    name = tag("strong", task_label(task_name(board)))
    words = [name, *(tag("span", chip, class_="badge") for chip in chips)]
    line = tag("span", task_line(board, known), class_="line") if known else ""
    return tag("a", image, tag("span", words, class_="name"), line, href=task_path(board))


def task_line(board: Board, known: TaskAbout) -> str:
    """A task in one line: title, frames, what is predicted."""
    given, _, asked = board.task.partition("@")[2].partition("-")
    frames = f" · {given} → {asked} frames" if asked else ""
    outputs = ", ".join(entry.name for entry in known.outputs)
    units = sorted({unit(entry.unit) for entry in known.outputs})
    shown = f" [{units[0]}]" if len(units) == 1 and units[0] != "no unit" else ""
    return f"{known.title}{frames} · {outputs}{shown}"


def task_picture(board: Board, around: Surroundings, home: str | None) -> Html:
    """The picture of a task on its own page; part of the page where it stands alone."""
    path = around.picture(board)
    if path is None:
        return Html("")
    source = inlined(path) if home is None else f"{home}{around.address(path)}"
    known = around.task(board)
    alt = f"A sample of the task {board.task}" + (f": {known.title}" if known else "")
    return tag("img", src=source, alt=alt, decoding="async")
