"""A board and its rows: all that any view shows, each number with one way to ask for it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from gsnobench.boards.evidence import Entry
from gsnobench.boards.statistics import Comparison, Rank, Scores, interval
from gsnobench.data import Array
from gsnobench.files import digest
from gsnobench.records import FEATURES, Status

SEEDS = 3  # fewer seeds than this are marked
COSTS = ("parameters", "prepare_s", "train_cpu_s", "inference_s", "peak_mb")


@dataclass(frozen=True, eq=False)
class Row:
    """One model@preset on a board: its runs, and what they amount to."""

    name: str  # gsno@plus, or with the knobs that make it a variant: gsno@plus [model.k_s=16]
    entries: tuple[Entry, ...]  # by seed; results that can be compared with one another
    state: Status
    reason: str  # why it has no error, or what became of the seeds that have none
    is_floor: bool
    is_variant: bool  # other knobs than the row itself: shown, not ranked
    published: float | None
    rank: Rank | None = None  # None for variants, for a single seed, and without an error
    needs: str = ""  # what would separate it from the row above

    @property
    def model(self) -> str:
        return self.entries[0].spec.model

    @property
    def has_features(self) -> bool:
        return self.entries[0].spec.has_features

    @cached_property
    def done(self) -> list[Entry]:
        return [one for one in self.entries if one.status == "done"]

    @property
    def seeds(self) -> int:
        return len(self.done)

    @cached_property
    def is_exact(self) -> bool:
        return bool(self.done) and all(one.is_closed_form for one in self.done)

    @property
    def is_thin(self) -> bool:
        """Too few seeds to be trusted."""
        return 0 < self.seeds < SEEDS and not self.is_exact

    @property
    def scores(self) -> Scores:
        done = self.done
        return Scores(
            np.array([one.error for one in done]),
            np.stack([one.samples for one in done]),
            self.is_exact,
        )

    @cached_property
    def error(self) -> float:
        """Mean headline over seeds; not a number where none is done."""
        return float(np.mean([one.error for one in self.done])) if self.done else math.nan

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        return interval(np.array([one.error for one in self.done])) if self.seeds > 1 else None

    def by_seed(self, name: str, metric: str) -> Array:
        """A metric of one field, one a seed; empty where a result lacks it."""
        values = [one.scores.get(name, {}).get(metric) for one in self.done]
        return np.array([] if None in values else values, dtype=float)

    def score(self, name: str, metric: str) -> float:
        """Mean over seeds of a metric of one field; not a number where a result lacks it."""
        values = self.by_seed(name, metric)
        return float(values.mean()) if len(values) else math.nan

    @property
    def raw(self) -> float:
        """The headline without a reference subtracted: the column that can be laid beside published
        numbers.
        """
        names = self.fields
        values = [self.score(name, "rel_l2_raw") for name in names]
        return float(np.mean(values)) if values else math.nan

    @cached_property
    def fields(self) -> list[str]:
        """Scored fields, as the results name them."""
        return sorted({name for one in self.done for name in one.fields})

    @property
    def picture(self) -> Path | None:
        """Of the first seed that has one."""
        return next((one.picture for one in self.done if one.picture is not None), None)

    def cost(self, name: str) -> float:
        """Mean over seeds; not a number where unknown."""
        values = [one.costs[name] for one in self.done if one.costs.get(name) is not None]
        return float(np.mean(values)) if values else math.nan


@dataclass(frozen=True)
class Promotion:
    """How far the best model is ahead of the second best (the paper's column); floors do not count."""

    first: str
    second: str
    percent: float
    is_separated: bool


@dataclass(frozen=True, eq=False)
class Board:
    """One table: all rows answered the same question on the same data."""

    track: str
    task: str
    version: int
    origin: str
    resolution: int
    sizes: Mapping[str, int]
    data_seed: int
    slug: str  # safe in a file name and in an address; unique within a track
    # those with an error by that error, then variants by theirs, then those without one
    rows: tuple[Row, ...]
    # of the `compared` rows, in their order
    p_values: Array = field(default_factory=lambda: np.ones((0, 0)))
    promotion: Promotion | None = None
    outdated: int = 0  # results of an older model revision, left out

    @property
    def compared(self) -> list[Row]:
        """Rows with an error, best first, without variants."""
        return [row for row in self.rows if row.seeds and not row.is_variant]

    @property
    def offered(self) -> list[tuple[Row, Row]]:
        """Rows, variants too, of the same knobs and steps without computed inputs and with them;
        the best of the latter first.
        """
        done = [row for row in self.rows if row.seeds]
        plain = {_question(row): row for row in done if not row.has_features}
        return [
            (plain[_question(row)], row)
            for row in done
            if row.has_features and _question(row) in plain
        ]

    @property
    def title(self) -> str:
        words = [self.task, f"track {self.track}", f"{self.resolution} nodes"]
        words += [f"data seed {self.data_seed}"] if self.data_seed else []
        words += [f"{self.origin} data"] if self.origin not in ("generated", "") else []
        return ", ".join(words)

    @property
    def data(self) -> list[str]:
        """Hashes of the data that the results were made on: one, unless machines round differently."""
        return sorted({entry.data.get("hash", "") for row in self.rows for entry in row.done})


def _question(row: Row) -> str:
    """What a row is asked, with computed inputs or without."""
    spec = row.entries[0].spec
    return digest(
        [
            spec.row.removesuffix(FEATURES),
            dict(spec.model_params),
            dict(spec.train_params),
            spec.trained_steps,
        ]
    )


@dataclass(frozen=True, eq=False)
class Track:
    """All boards of one track, and the view across them."""

    name: str
    boards: tuple[Board, ...]
    rows: tuple[str, ...]  # every row of any board, best mean rank first
    # (row, other) -> tasks won surely, tasks both have
    wins: Mapping[tuple[str, str], tuple[int, int]]
    comparison: Comparison | None


def safe_name(text: str) -> str:
    """A file name that cannot leave its folder or end a tag; names that had to change stay
    distinct.
    """
    plain = re.sub(r"[^A-Za-z0-9@._+-]+", "-", text).strip(".-")[:80]
    return plain if plain and plain == text else f"{plain or 'x'}-{digest(text)[:6]}"
