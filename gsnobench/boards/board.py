"""A track, its boards and their rows: all that any view shows, each number computed once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.boards.convergence import Ending, is_converged, mean_ending
from gsnobench.boards.evidence import Entry
from gsnobench.boards.statistics import Comparison, Rank, Scores, interval
from gsnobench.data import Array
from gsnobench.files import digest
from gsnobench.records import FEATURES, RunSpec, Status

SEEDS = 3  # fewer seeds than this are marked
TAIL = 0.95  # share of the test samples below the column of this name
# names of costs in a result
COSTS = (
    "parameters",
    "prepare_cold_s",
    "prepare_warm_s",
    "train_cpu_s",
    "inference_s",
    "peak_mb",
)
# metrics of a field that every result has; any other is a column of its own
USUAL_METRICS = ("rel_l2", "rel_l2_raw", "rel_l2_area", "rmse", "mae", "max")
BOUNDARY_METRIC = "boundary_"  # how the names of further usual ones begin
HEADLINE = "headline"


@dataclass(frozen=True)
class Mark:
    """What a reader should know before trusting a row; it stays ranked."""

    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.why}" if self.why else self.name


@dataclass(frozen=True, eq=False)
class Row:
    """One model@preset on a board: its runs, and the numbers that follow from them.

    Every number is computed for each seed, then averaged over the seeds.
    """

    name: str  # model@preset; of a variant with what sets it apart: model@preset [width=16]
    entries: tuple[Entry, ...]  # by seed; results that can be compared with one another
    state: Status
    reason: str  # why it has no error, or what became of the seeds that have none
    is_floor: bool
    is_reference: bool  # run times are shown relative to this row
    is_variant: bool  # not the unmodified preset at its committed steps: shown, not ranked
    published: float | None
    settings: str = ""  # of a variant: which settings differ from the row's
    rank: Rank | None = None  # None for variants, for a single seed, and without an error
    needs: str = ""  # what would separate it from the row above
    normalised_cpu_s: float = math.nan  # of training: in units of the reference step
    marks: tuple[Mark, ...] = ()

    @property
    def model(self) -> str:
        return self.entries[0].spec.model

    @property
    def untold(self) -> str:
        """Settings of a variant that its name does not spell out."""
        return "" if self.name.endswith(f"[{self.settings}]") else self.settings

    @property
    def has_features(self) -> bool:
        return self.entries[0].spec.has_features

    @property
    def is_own(self) -> bool:
        """Whether any of its runs was computed in the home that the boards are made for."""
        return any(entry.is_own for entry in self.entries)

    @cached_property
    def done(self) -> list[Entry]:
        """The entries that have an error."""
        return [entry for entry in self.entries if entry.status == "done"]

    @property
    def seeds(self) -> int:
        return len(self.done)

    @cached_property
    def is_exact(self) -> bool:
        """A closed form, which has no seed and no spread."""
        return bool(self.done) and all(entry.is_closed_form for entry in self.done)

    @property
    def has_few_seeds(self) -> bool:
        """Too few seeds to be trusted."""
        return 0 < self.seeds < SEEDS and not self.is_exact

    @property
    def scores(self) -> Scores:
        errors = np.array([entry.error for entry in self.done])
        samples = np.stack([entry.samples for entry in self.done])
        return Scores(errors, samples, self.is_exact)

    @cached_property
    def error(self) -> float:
        """Mean headline over seeds; not a number where none is done."""
        return float(np.mean([entry.error for entry in self.done])) if self.done else math.nan

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """95 % over seeds; None for a single one and for a closed form."""
        errors = np.array([entry.error for entry in self.done])
        return None if self.is_exact else interval(errors)

    @cached_property
    def ood_error(self) -> float:
        """Mean error out of distribution; not a number where a seed has none."""
        return self._mean([entry.ood_error for entry in self.done])

    @cached_property
    def ood_median(self) -> float:
        """Median over samples out of distribution, since a single one can set the mean."""
        samples = [entry.ood_samples for entry in self.done]
        return self._mean([np.median(values) if len(values) else math.nan for values in samples])

    @cached_property
    def tail(self) -> float:
        """The error that 95 % of the test samples stay below."""
        return self._mean([np.quantile(entry.samples, TAIL) for entry in self.done])

    @cached_property
    def worst(self) -> float:
        """The error of the worst test sample."""
        return self._mean([entry.samples.max() for entry in self.done])

    @staticmethod
    def _mean(by_seed: Sequence[float]) -> float:
        return float(np.mean(by_seed)) if by_seed else math.nan

    @property
    def steps(self) -> int:
        """Optimiser steps of all phases; none of a closed form."""
        return sum(self.entries[0].spec.trained_steps.values())

    @cached_property
    def ending(self) -> Ending | None:
        """How training ended, mean over seeds; None for a closed form."""
        return mean_ending([entry.ending for entry in self.done if entry.ending is not None])

    @property
    def is_converged(self) -> bool:
        return self.ending is None or is_converged(self.ending)

    @property
    def metrics(self) -> list[tuple[str, str]]:
        """Field and metric of what is scored beyond the usual: metrics of plugins."""
        names = {
            (field, metric)
            for entry in self.done
            for field in (HEADLINE, *entry.fields)
            for metric in entry.scores.get(field, {})
        }
        return sorted(
            (field, metric)
            for field, metric in names
            if metric not in USUAL_METRICS and not metric.startswith(BOUNDARY_METRIC)
        )

    def by_seed(self, field: str, metric: str) -> Array:
        """A metric of one field, one value per seed; empty where a result lacks it."""
        values = [entry.scores.get(field, {}).get(metric) for entry in self.done]
        return np.array([] if None in values else values, dtype=float)

    def score(self, field: str, metric: str) -> float:
        """Mean over seeds of a metric of one field; not a number where a result lacks it."""
        values = self.by_seed(field, metric)
        return float(values.mean()) if len(values) else math.nan

    @property
    def raw(self) -> float:
        """The headline without a reference subtracted, as papers print it."""
        values = [self.score(field, "rel_l2_raw") for field in self.fields]
        return float(np.mean(values)) if values else math.nan

    @cached_property
    def fields(self) -> list[str]:
        """Scored fields, as the results name them."""
        return sorted({field for entry in self.done for field in entry.fields})

    @property
    def picture(self) -> Path | None:
        """That of the first seed that has one."""
        return next((entry.picture for entry in self.done if entry.picture is not None), None)

    def cost(self, name: str) -> float:
        """Mean over seeds; not a number where unknown."""
        values = [entry.costs[name] for entry in self.done if entry.costs.get(name) is not None]
        return float(np.mean(values)) if values else math.nan


@dataclass(frozen=True)
class Promotion:
    """How far the best model is ahead of the second best, floors left out (the paper's column)."""

    first: str
    second: str
    percent: float
    is_separated: bool


@dataclass(frozen=True, eq=False)
class Board:
    """One table: all rows were run on the same task and the same data."""

    track: str
    task: str
    version: int
    origin: str
    resolution: int
    sizes: Mapping[str, int]
    data_seed: int
    slug: str  # safe in a file name and in an address; unique within a track
    # those with an error, best first; those without one; variants in the same order
    rows: tuple[Row, ...]
    # (R, R) of the `compared` rows, in their order
    p_values: Array = field(default_factory=lambda: np.ones((0, 0)))
    promotion: Promotion | None = None
    outdated: int = 0  # results of an older model revision, left out

    @property
    def compared(self) -> list[Row]:
        """Rows with an error, best first, without variants."""
        return [row for row in self.rows if row.seeds and not row.is_variant]

    @property
    def variants(self) -> list[Row]:
        """What is not the row itself, best first, then those without an error."""
        return [row for row in self.rows if row.is_variant]

    @property
    def blank(self) -> list[Row]:
        """Rows without an error, without variants."""
        return [row for row in self.rows if not row.seeds and not row.is_variant]

    @property
    def has_models(self) -> bool:
        """Whether any row but a floor has an error: else nobody is the best."""
        return any(not row.is_floor for row in self.compared)

    @property
    def ranks_models(self) -> bool:
        """Whether any row but a floor has a place: a row with one seed has none."""
        return any(row.rank is not None and not row.is_floor for row in self.compared)

    @property
    def tied_with_best(self) -> list[Row]:
        """The best of the rows that have a place, and those that are not significantly worse."""
        placed = [(row, row.rank) for row in self.compared if row.rank is not None]
        return [row for row, rank in placed if rank.is_tied(placed[0][1])]

    @property
    def best_floor(self) -> Row | None:
        """The floor with the smallest error, if any floor has one."""
        return next((row for row in self.compared if row.is_floor), None)

    @property
    def input_pairs(self) -> list[tuple[Row, Row]]:
        """Rows of equal knobs and steps without and with computed inputs, variants too."""
        done = [row for row in self.rows if row.seeds]
        plain = {_settings_key(row): row for row in done if not row.has_features}
        with_inputs = [row for row in done if row.has_features and _settings_key(row) in plain]
        return [(plain[_settings_key(row)], row) for row in with_inputs]

    @property
    def title(self) -> str:
        words = [self.task, f"track {self.track}", f"{self.resolution} nodes"]
        words += [f"data seed {self.data_seed}"] if self.data_seed else []
        words += [f"{self.origin} data"] if self.origin not in ("generated", "") else []
        return ", ".join(words)

    @property
    def data(self) -> list[str]:
        """Hashes of the data of all results: one, unless machines round differently."""
        return sorted({entry.data.get("hash", "") for row in self.rows for entry in row.done})


def _settings_key(row: Row) -> str:
    """Equal for two rows that differ in computed inputs alone."""
    spec = row.entries[0].spec
    return digest([spec.row.removesuffix(FEATURES), chosen_settings(spec)])


def chosen_settings(spec: RunSpec) -> dict[str, Any]:
    """Settings without knobs at their default, which results of older code do not name."""
    defaults = frozenset(spec.defaults)
    return {name: value for name, value in spec.settings.items() if name not in defaults}


@dataclass(frozen=True)
class Standing:
    """One row across the tasks of a track."""

    row: str
    is_floor: bool
    tasks: int  # board tasks on which it has an error
    is_complete: bool  # it has one on every compared task
    mean_rank: float  # over the compared tasks, among complete rows; not a number if incomplete
    ratio: float  # geometric mean of error / best error over its compared tasks
    ratio_interval: tuple[float, float] | None = None  # 95 % over tasks of the log ratio


@dataclass(frozen=True, eq=False)
class BoardTrack:
    """All boards of one track, and the view across them."""

    name: str
    boards: tuple[Board, ...]
    standings: tuple[Standing, ...]  # every row of any board, complete ones first, best first
    tasks: int  # board tasks of the benchmark
    counted: tuple[str, ...]  # slugs of the boards that stand for the tasks of the benchmark
    compared: tuple[str, ...]  # those of them that standings and comparisons are about
    # (row, other) -> tasks on which the row is significantly better, tasks that both have
    wins: Mapping[tuple[str, str], tuple[int, int]]
    comparison: Comparison | None
    converged: Comparison | None  # the same without rows that are marked as not converged
    help: str = ""  # what the track is, in words

    @property
    def main(self) -> list[Board]:
        """The boards of the benchmark's tasks."""
        return [board for board in self.boards if board.slug in self.counted]

    @property
    def extra(self) -> list[Board]:
        """The other boards: other windows, other data, easier forms of a task."""
        return [board for board in self.boards if board.slug not in self.counted]

    @property
    def rows(self) -> tuple[str, ...]:
        """Names in the order of the standings."""
        return tuple(standing.row for standing in self.standings)


def safe_name(text: str) -> str:
    """A file name that cannot leave its folder; names that had to change stay distinct."""
    plain = re.sub(r"[^A-Za-z0-9@._+-]+", "-", text).strip(".-")[:80]
    return plain if plain and plain == text else f"{plain or 'x'}-{digest(text)[:6]}"
