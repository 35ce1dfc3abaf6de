"""What a reader must know of a row: it did not learn, was cut short, cost more, has old code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from gsnobench.boards.assembly.declared import Declared
from gsnobench.boards.board import Mark, Row
from gsnobench.boards.evidence import Entry, Installation
from gsnobench.errors import PluginError
from gsnobench.plugins import dataset_name
from gsnobench.registry import Registry

SLACK = 0.15  # share of a track's CPU-seconds by which a row may miss them without a mark


def marked(rows: Sequence[Row], declared: Declared) -> list[Row]:
    """The rows of a board with their normalised CPU-seconds and their marks."""
    registry = declared.registry
    blind = next((row for row in rows if row.name == registry.blind_floor and row.seeds), None)
    timed = [replace(row, normalised_cpu_s=_normalised_cpu_s(row, registry)) for row in rows]
    return [replace(row, marks=tuple(_marks(row, blind, declared))) for row in timed]


def _normalised_cpu_s(row: Row, registry: Registry) -> float:
    """Training in CPU-seconds of the calibrating machine, by the reference step timed beside it."""
    pairs = [
        (entry.costs.get("train_cpu_s"), entry.costs.get("reference_step_s")) for entry in row.done
    ]
    values = [spent * registry.reference_step_s / step for spent, step in pairs if spent and step]
    return float(np.mean(values)) if values else math.nan


def _marks(row: Row, blind: Row | None, declared: Declared) -> Iterator[Mark]:
    yield from _blind_mark(row, blind)
    if not row.is_converged and row.ending is not None:
        yield Mark("not converged", _ending_in_words(row))
    yield from _budget_mark(row, declared)
    spec = row.entries[0].spec
    score = declared.registry.published_score(spec.task, spec.model, spec.resolution)
    if score is not None and row.published is not None:
        yield Mark("published", f"{score.rel_l2:.3g} on the same files, {score.cite}")
    names = sorted({name for entry in row.done for name in _changed_plugins(entry, declared.here)})
    if names:
        yield Mark("code changed", f"{', '.join(names)} since the results were computed")


def _blind_mark(row: Row, blind: Row | None) -> Iterator[Mark]:
    """An error that is not below that of the floor that uses no input but the last given frame."""
    if blind is None or row.is_floor or not row.seeds or row.error < blind.error:
        return
    uses = "which uses no input but the last given frame, if any"
    yield Mark("did not learn", f"{blind.name}, {uses}, has {blind.error:.3g}")


def _ending_in_words(row: Row) -> str:
    ending = row.ending
    assert ending is not None
    words = f"{ending.epochs:.0f} epochs"
    if math.isfinite(ending.valid_fall):
        words += f", validation fell by {100 * ending.valid_fall:.1f} % over the last tenth"
    if ending.best_at < 0.5:
        words += f", best after {100 * ending.best_at:.0f} % of the steps"
    return words


def _budget_mark(row: Row, declared: Declared) -> Iterator[Mark]:
    """CPU-seconds that miss those of the track, on tracks that are counted in them.

    Rows with features take the steps of the row without, whatever those then cost; variants may
    take any.
    """
    track = declared.track(row.entries[0].spec.track)
    is_on_cpu = all(entry.environment.get("device", "cpu") == "cpu" for entry in row.done)
    is_free = row.has_features or row.is_variant or not row.steps
    if not track.counts_steps or not is_on_cpu or is_free:
        return
    is_known = math.isfinite(row.normalised_cpu_s)
    spent = row.normalised_cpu_s if is_known else row.cost("train_cpu_s")
    if abs(spent - track.train_cpu_s) > SLACK * track.train_cpu_s:
        unit = "normalised CPU-s" if is_known else "CPU-s"
        yield Mark("off the budget", f"{spent:.0f} of {track.train_cpu_s:.0f} {unit}")


def _changed_plugins(entry: Entry, here: Installation) -> Iterator[str]:
    """Names of plugins whose installed code is not that of the result, where both are known."""
    names = {"model": entry.spec.model}
    with suppress(PluginError):  # no such dataset is installed
        known = [name for kind, name in here.code if kind == "dataset"]
        names["dataset"] = dataset_name(entry.spec.task, known)
    for kind, name in names.items():
        recorded, installed = entry.code.get(kind), here.code.get((kind, name))
        if recorded and installed and installed != recorded:
            yield name
