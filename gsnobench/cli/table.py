"""Tables for people: aligned text that fits the terminal and never cuts a number or a name.

A table that is too wide folds its headings, loses the columns its caller can spare, folds its
columns of words, or is printed in several blocks, in this order.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

GAP = 2  # spaces between columns
NARROWEST = 20  # letters of a folded column
NUMBER = re.compile(r"[-–]?(\d|$)")  # also what has none
UNLIMITED = 10_000  # of a file or a pipe


@dataclass(frozen=True)
class Column:
    """One column: its heading, its cells and its width in letters."""

    name: str
    cells: tuple[str, ...]
    width: int

    @property
    def is_number(self) -> bool:
        return all(NUMBER.match(cell) for cell in self.cells)

    @property
    def heading(self) -> str:
        """Its name; where it must be folded, a stroke stays with the word behind it."""
        return self.name if len(self.name) <= self.width else self.name.replace("/ ", "/\u00a0")

    @property
    def longest_word(self) -> int:
        """Letters of what must not be broken: a name, a number."""
        return max(len(word) for text in (self.name, *self.cells) for word in text.split() or [""])

    def lines(self, text: str) -> list[str]:
        """A cell as lines of the column's width."""
        parts = textwrap.wrap(text, self.width, break_on_hyphens=False) or [""]
        align = str.rjust if self.is_number else str.ljust
        return [align(part, self.width) for part in parts]


def print_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    mark: int | None = None,
    fixed: int = 1,
    spare: Sequence[str] = (),
    wide: bool = False,
) -> None:
    """Print a table; `mark` emphasises a row, `spare` names the columns to leave out first.

    The first `fixed` columns name the rows: they are never folded and begin every block. `wide`
    leaves no column out.
    """
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else UNLIMITED
    columns = with_folded_headings(make_columns(header, rows), width, fixed)
    columns, hidden = without_spare(columns, () if wide else spare, width)
    _print(title, "bold" if is_terminal else "")
    for block in blocks(columns, width, fixed):
        _print(_line(block, [column.heading for column in block]), "bold" if is_terminal else "")
        for number in range(len(rows)):
            cells = [column.cells[number] for column in block]
            _print(_line(block, cells), "bold green" if is_terminal and number == mark else "")
    if hidden:
        in_order = [name for name in header if name in hidden]
        print_text(f"hidden here, --wide shows all: {', '.join(in_order)}")


def print_text(paragraph: str) -> None:
    """Print a paragraph; a terminal breaks it between words, a file holds it in one line."""
    if not sys.stdout.isatty():
        print(paragraph)
        return
    width = shutil.get_terminal_size().columns
    print(textwrap.fill(paragraph, width, break_on_hyphens=False, break_long_words=False))


def is_in_one_block(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table fits the terminal as it is."""
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else UNLIMITED
    return total_width(make_columns(header, rows)) <= width


def make_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Column]:
    """The columns of a table, each as wide as its longest cell."""
    columns = []
    for position, name in enumerate(header):
        cells = tuple(" ".join(row[position].split()) for row in rows)
        columns.append(Column(name, cells, max(map(len, (name, *cells)))))
    return columns


def with_folded_headings(columns: list[Column], width: int, fixed: int) -> list[Column]:
    """The columns as they are if they fit; else those behind the fixed ones as wide as their cells.

    A heading is folded between its words.
    """
    if total_width(columns) <= width:
        return columns
    narrow = []
    for column in columns[fixed:]:
        words = replace(column, width=0).heading.split(" ")
        narrow.append(replace(column, width=max(map(len, (*words, *column.cells)))))
    return [*columns[:fixed], *narrow]


def total_width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def without_spare(
    columns: list[Column], spare: Sequence[str], width: int
) -> tuple[list[Column], list[str]]:
    """The columns without as many of the spare ones as it takes to fit, and the names of those."""
    hidden: list[str] = []
    for name in spare:
        if total_width(columns) <= width:
            break
        if any(column.name == name for column in columns):
            columns = [column for column in columns if column.name != name]
            hidden.append(name)
    return columns, hidden


def blocks(columns: Sequence[Column], width: int, fixed: int) -> list[list[Column]]:
    """The columns in one block if they fit or can be folded, else in several."""
    columns = folded(columns, width, fixed)
    names, parts = columns[:fixed], [columns[:fixed]]
    for column in columns[fixed:]:
        if len(parts[-1]) > fixed and total_width([*parts[-1], column]) > width:
            parts.append(names)
        parts[-1] = [*parts[-1], column]
    return parts


def folded(columns: Sequence[Column], width: int, fixed: int) -> list[Column]:
    """The columns, those of words at most so wide that all fit, but never too narrow to read."""
    narrow, most = list(columns), max(column.width for column in columns)
    while total_width(narrow) > width and most > NARROWEST:
        most -= 1
        narrow = [
            column
            if at < fixed or column.is_number
            else replace(column, width=min(column.width, max(most, column.longest_word)))
            for at, column in enumerate(columns)
        ]
    return narrow


def _line(columns: Sequence[Column], cells: Sequence[str]) -> str:
    """A row as text: as many lines as its longest cell needs."""
    folded = [column.lines(cell) for column, cell in zip(columns, cells, strict=True)]
    lines = []
    for number in range(max(map(len, folded))):
        texts = [
            parts[number] if number < len(parts) else " " * column.width
            for column, parts in zip(columns, folded, strict=True)
        ]
        lines.append((" " * GAP).join(texts).rstrip())
    return "\n".join(lines)


def _print(text: str, style: str) -> None:
    if not style:
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style=style), soft_wrap=True)
