"""All pages of the site: file name and text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsnobench.boards.board import BoardTrack
from gsnobench.boards.plots.standing import all_figures
from gsnobench.boards.site.elements import ADD_PATH, model_path, task_path
from gsnobench.boards.site.glossary import add_page
from gsnobench.boards.site.index_page import index_page
from gsnobench.boards.site.model_page import model_page
from gsnobench.boards.site.surroundings import Surroundings
from gsnobench.boards.site.task_page import task_page


def site_files(
    tracks: Sequence[BoardTrack], around: Surroundings | None = None
) -> Iterator[tuple[str, str]]:
    """Relative path and text of every page; the same evidence gives the same bytes."""
    around = around or Surroundings()
    yield "index.html", index_page(tracks, around)
    yield ADD_PATH, add_page(tracks, around)
    for track in tracks:
        for board in track.boards:
            figures = all_figures(board)
            yield task_path(board), task_page(track, board, figures, around=around, home="../")
    boards = [board for track in tracks for board in track.boards]
    # also rows of which there are variants alone: task pages link to them
    for name in sorted({row.entries[0].spec.row for board in boards for row in board.rows}):
        yield model_path(name), model_page(name, tracks, around)
