"""How to repeat a row: commands to copy, the files behind it, the machines that it ran on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, Row, safe_name
from gsnobench.boards.evidence import Entry
from gsnobench.boards.site.html import Html, tag
from gsnobench.boards.site.surroundings import Surroundings

KNOBS = ("model.", "train.")  # settings that are options of `run`
TIER = 3  # of `verify`: trains again


def run_command(board: Board, entry: Entry) -> str | None:
    """The command of a run; None where options cannot say it, or where a name is not plain.

    A stranger's text is no part of a command to copy.
    """
    spec = entry.spec
    words = [spec.model, spec.preset, spec.task, spec.track]
    settings = [(name, str(value)) for name, value in entry.changed.items()]
    words += [word for pair in settings for word in pair]
    is_plain = all(safe_name(word) == word for word in words)
    is_usual = board.slug == safe_name(board.task) and not spec.source
    if not (is_plain and is_usual and all(name.startswith(KNOBS) for name, _ in settings)):
        return None
    command = f"gsnobench run --model {spec.model} --preset {spec.preset} --dataset {spec.task}"
    knobs = "".join(f" --{name} {value}" for name, value in settings)
    return f"{command} --track {spec.track} --seed {spec.seed}{knobs}"


def reproduce_box(
    board: Board, row: Row, around: Surroundings, home: str | None, title: str
) -> Html:
    """One row, folded: its notes, commands, files and machines."""
    parts = [*_notes(row), *_commands(board, row, around), _files(row, around, home)]
    parts.append(tag("p", _machines(row.entries), class_="notes"))
    return tag("details", tag("summary", title), parts, class_="reproduce", data_name=row.name)


def _notes(row: Row) -> Iterator[Html]:
    if words := wording.settings_and_notes(row):
        yield tag("p", "; ".join(words))


def _commands(board: Board, row: Row, around: Surroundings) -> Iterator[Html]:
    first = (row.done or list(row.entries))[0]
    command, path = run_command(board, first), around.spelled(first.path)
    if command:
        yield copyable(command)
    if path and row.done and safe_name(path.replace("/", "-")) == path.replace("/", "-"):
        yield copyable(f"gsnobench verify {path} --tier {TIER}")


def copyable(command: str) -> Html:
    """A command with a button that copies it; the script shows the button."""
    button = tag("button", "Copy", type="button", class_="copy", hidden=True)
    return tag("div", tag("code", command, tabindex="0"), button, class_="command")


def _files(row: Row, around: Surroundings, home: str | None) -> Html:
    files = []
    for entry in row.entries:
        shown = f"seed {entry.spec.seed}: {entry.spec.short} ({entry.status})"
        address = around.address(entry.path) if home is not None else None
        files.append(tag("li", tag("a", shown, href=f"{home}{address}") if address else shown))
    return tag("ul", files, class_="notes")


def _machines(entries: Sequence[Entry]) -> str:
    """Where it ran and with which code, each once."""
    facts = {
        "Machine:": [str(entry.environment.get("hardware", "")) for entry in entries],
        "gsnobench": [str(entry.environment.get("gsnobench", "")) for entry in entries],
        "code of the model": [entry.code.get("model", "") for entry in entries],
    }
    known = {name: sorted({*values} - {""}) for name, values in facts.items()}
    return "; ".join(f"{name} {', '.join(values)}" for name, values in known.items() if values)
