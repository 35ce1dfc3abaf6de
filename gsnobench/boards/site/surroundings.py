"""What pages know beside the boards: facts of tasks and models, and the files around the site."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gsnobench.boards.board import Board, safe_name
from gsnobench.boards.site.about import ABOUT, About, ModelAbout, TaskAbout, read_about
from gsnobench.boards.standings import dataset_of

SITE = "site"  # folder of the pages, inside the folder of the boards
PICTURES, CARDS, NOTES, TABLES = "pictures", "cards", "notes", "tables"
TILES = "tiles"  # folder inside that of the pictures


@dataclass(frozen=True)
class Surroundings:
    """Facts from `about.json`, and the folder of the boards that the site is a part of."""

    about: About = field(default_factory=About)
    out: Path | None = None  # None: no file beside the pages is known, so none is linked

    @classmethod
    def of(cls, roots: Sequence[Path]) -> Surroundings:
        """Of the first folder of results that lies in a folder of boards."""
        folders = [root.parent for root in roots if (root.parent / ABOUT).is_file()]
        return cls(read_about(folders[0]), folders[0]) if folders else cls()

    def task(self, board: Board) -> TaskAbout | None:
        return self.about.tasks.get(dataset_of(board))

    def model(self, row: str) -> ModelAbout | None:
        return self.about.models.get(row.partition("@")[0])

    def address(self, path: Path | None) -> str | None:
        """The way to a file from the root of the site; None if there is no such file."""
        if self.out is None or path is None or not path.is_file():
            return None
        return Path(os.path.relpath(path, self.out / SITE)).as_posix()

    def linked_note(self, target: str) -> str | None:
        """The way to a file that a note of this folder links to; None if there is no such file."""
        return None if self.out is None else self.address(self.out / NOTES / target)

    def spelled(self, path: Path | None) -> str | None:
        """The same from the folder above the boards, where commands are typed."""
        if self.out is None or path is None:
            return None
        return Path(os.path.relpath(path, self.out.resolve().parent)).as_posix()

    def picture(self, board: Board) -> Path | None:
        """The picture of a task: of its own window, else of the dataset."""
        names = (safe_name(board.task), safe_name(dataset_of(board)))
        paths = [self.out / PICTURES / f"{name}.png" for name in names] if self.out else []
        return next((path for path in paths if path.is_file()), None)

    def tile(self, board: Board) -> Path | None:
        """Its small picture for the gallery, else the picture of its page."""
        picture = self.picture(board)
        small = picture.parent / TILES / picture.name if picture else None
        return small if small and small.is_file() else picture

    def card(self, row: str) -> Path | None:
        name = safe_name(row.partition("@")[0])
        return None if self.out is None else self.out / CARDS / f"{name}.md"

    def notes(self, track: str, board: str = "") -> str:
        """Remarks by a person on a track, or on one of its boards."""
        name = "--".join(safe_name(part) for part in (track, board) if part)
        path = None if self.out is None else self.out / NOTES / f"{name}.md"
        return path.read_text(encoding="utf-8").strip() if path and path.is_file() else ""


def inlined(picture: Path) -> str:
    """A picture as part of a page, for pages that must need no other file."""
    return f"data:image/png;base64,{b64encode(picture.read_bytes()).decode()}"
