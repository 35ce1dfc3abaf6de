"""Legacy VTK files, ASCII, unstructured grids: points, cells and point data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import gsnobench as gb

WIDTHS = {b"SCALARS": 1, b"VECTORS": 3}


@dataclass(frozen=True, eq=False)
class Grid:
    """What a file holds."""

    points: gb.Array  # (N, 3) float32
    cells: gb.Array  # (M, k) int64, all of one kind
    data: dict[str, gb.Array] = field(default_factory=dict)  # name -> (N,) or (N, 3)


class _Words:
    """The words of a file from the first keyword on."""

    def __init__(self, path: Path) -> None:
        try:
            lines = path.read_bytes().split(b"\n", 3)
        except OSError as error:
            raise gb.DataError(f"{path}: cannot be read ({error.strerror})") from error
        is_known = len(lines) == 4 and lines[0].startswith(b"# vtk DataFile")
        if not is_known or lines[2].strip().upper() != b"ASCII":
            raise gb.DataError(f"{path}: not a legacy VTK file in ASCII; download it again")
        self.path = path
        self.words = lines[3].split()
        self.position = 0

    def next(self) -> bytes:
        """One word; the end of the file is an error."""
        return self.take(1)[0]

    def take(self, count: int) -> list[bytes]:
        words = self.words[self.position : self.position + count]
        if len(words) < count:
            raise self.failure("ends too early; it is truncated; download it again")
        self.position += count
        return words

    def numbers(self, count: int, kind: str) -> gb.Array:
        """The next numbers as float32 or int64."""
        try:
            return np.array(self.take(count), dtype="S").astype(kind)
        except ValueError as error:
            raise self.failure(f"holds a word instead of a number ({error})") from error

    def count(self) -> int:
        """A number of things."""
        word = self.next()
        if not word.isdigit():
            raise self.failure(f"has {word.decode(errors='replace')!r} instead of a count")
        return int(word)

    def failure(self, text: str) -> gb.DataError:
        return gb.DataError(f"{self.path}: {text}")


def read_grid(path: Path) -> Grid:
    """The grid of a file; a damaged one is one line."""
    with gb.guarded(path, expected="a legacy VTK file in ASCII; download it again"):
        return _grid(_Words(path))


def _grid(words: _Words) -> Grid:
    points = np.zeros((0, 3), dtype=np.float32)
    cells = np.zeros((0, 0), dtype=np.int64)
    data: dict[str, gb.Array] = {}
    while words.position < len(words.words):
        keyword = words.next().upper()
        if keyword == b"POINTS":
            count, _ = words.count(), words.next()
            points = words.numbers(3 * count, "f4").reshape(count, 3)
        elif keyword == b"CELLS":
            cells = _cells(words)
        elif keyword == b"CELL_TYPES":
            words.take(words.count())
        elif keyword == b"CELL_DATA":
            break
        elif keyword in WIDTHS:
            name, _ = words.next().decode(), words.next()
            data[name] = _values(words, len(points), WIDTHS[keyword])
        elif keyword in (b"DATASET", b"POINT_DATA"):
            words.next()
        else:
            shown = keyword.decode(errors="replace")
            raise words.failure(
                f"has {shown!r} where a keyword such as POINTS was expected; it is truncated or of "
                "another format"
            )
    if not len(points) or not data:
        raise words.failure("holds no points or no point data; it is truncated; download it again")
    return Grid(points, cells, data)


def _cells(words: _Words) -> gb.Array:
    count, size = words.count(), words.count()
    table = words.numbers(size, "i8")
    if not count or size % count or (table.reshape(count, -1)[:, 0] != size // count - 1).any():
        raise words.failure("has cells of several kinds; expected one kind")
    return table.reshape(count, -1)[:, 1:]


def _values(words: _Words, nodes: int, width: int) -> gb.Array:
    if width == 1 and words.next() != b"LOOKUP_TABLE":
        words.next()  # behind the number of components, which may be missing
    if width == 1:
        words.next()  # the name of the table
    values = words.numbers(nodes * width, "f4")
    return values if width == 1 else values.reshape(nodes, width)
