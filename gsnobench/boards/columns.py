"""The columns of a board: one declaration of each for all views, with what it means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gsnobench.boards.board import HEADLINE, Row
from gsnobench.boards.wording import count, number, seeds, spread


@dataclass(frozen=True)
class Column:
    """One number of a row: its heading with the unit, and how it is read, sorted and shown."""

    name: str
    help: str
    value: Callable[[Row], float]  # not a number where unknown
    show: Callable[[Row], str]
    is_detail: bool = False  # a narrow view leaves it out


def _measured(
    name: str, text: str, value: Callable[[Row], float], *, is_detail: bool = False
) -> Column:
    return Column(name, text, value, lambda row: number(value(row)), is_detail)


def _counted(
    name: str, text: str, value: Callable[[Row], float], *, is_detail: bool = False
) -> Column:
    return Column(name, text, value, lambda row: count(value(row)), is_detail)


def _cost(name: str, scale: float = 1.0) -> Callable[[Row], float]:
    return lambda row: scale * row.cost(name)


def _published(row: Row) -> float:
    return math.nan if row.published is None else row.published


def _epochs(row: Row) -> float:
    return math.nan if row.ending is None else row.ending.epochs


def _steps(row: Row) -> float:
    return row.steps or math.nan


ERROR = _measured("error", "relative L2 on the test split, mean over seeds", lambda row: row.error)
INTERVAL = Column(
    "95 % over seeds",
    "t-interval over seeds of the log error",
    lambda row: row.interval[0] if row.interval else math.nan,
    lambda row: spread(row.interval),
)
SEEDS = Column("seeds", "trainings from different random starts", lambda row: row.seeds, seeds)
FURTHER_ERRORS = (
    _measured(
        "OOD error", "mean over test samples from another distribution", lambda row: row.ood_error
    ),
    _measured(
        "OOD median",
        "median over test samples from another distribution",
        lambda row: row.ood_median,
    ),
    _measured("95th pct", "95 % of the test samples have a smaller error", lambda row: row.tail),
    _measured("worst", "the largest error of a test sample", lambda row: row.worst),
    _measured(
        "raw", "the error without a reference subtracted", lambda row: row.raw, is_detail=True
    ),
    _measured(
        "published",
        "printed in the GSNO paper, on other data; of public files, by its authors",
        _published,
        is_detail=True,
    ),
)
COSTS = (
    _counted("steps", "optimiser steps of all phases", _steps),
    _counted("epochs", "how often training used every sample", _epochs),
    _measured("train CPU-s", "CPU-seconds of training, validation apart", _cost("train_cpu_s")),
    _measured(
        "normalised CPU-s",
        "the same in a unit that all machines share, by a reference step timed beside it",
        lambda row: row.normalised_cpu_s,
    ),
    _counted("parameters", "trained real numbers", _cost("parameters"), is_detail=True),
    _measured(
        "prepare s", "geometry and inputs, computed anew", _cost("prepare_cold_s"), is_detail=True
    ),
    _measured(
        "prepare again s", "the same from the cache", _cost("prepare_warm_s"), is_detail=True
    ),
    _measured(
        "ms per sample",
        "inference in batches of one size",
        _cost("inference_s", 1000),
        is_detail=True,
    ),
    _counted("peak MB", "peak memory of the process", _cost("peak_mb"), is_detail=True),
)


def error_columns(rows: Sequence[Row]) -> list[Column]:
    """Errors, with those further ones and metrics of plugins that any of these rows has."""
    names = sorted({name for row in rows for name in row.metrics})
    metrics = [_metric(*name, len({field for field, _ in names}) > 1) for name in names]
    return [ERROR, INTERVAL, SEEDS, *_filled((*FURTHER_ERRORS, *metrics), rows)]


def cost_columns(rows: Sequence[Row]) -> list[Column]:
    """Steps, epochs and costs that any of these rows has."""
    return _filled(COSTS, rows)


def _filled(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    return [column for column in columns if any(math.isfinite(column.value(row)) for row in rows)]


def _metric(field: str, metric: str, is_of_several: bool) -> Column:
    name = metric if field == HEADLINE or not is_of_several else f"{metric} of {field}"
    return _measured(name, f"the metric {metric}", lambda row: row.score(field, metric))
