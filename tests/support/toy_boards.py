"""Boards of models and tasks that do not exist, with errors of known size; boards of a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fake_results import made_spec

from gsnobench.boards.assembly.tracks import make_tracks
from gsnobench.boards.board import Board, BoardTrack
from gsnobench.boards.evidence import NOWHERE, Entry, Evidence, Installation, read_evidence
from gsnobench.boards.reproduction.paper import PaperNumbers, read_paper
from gsnobench.records import RunResult, RunSpec
from gsnobench.registry import Registry

FLOOR = "floor0"
REFERENCE = "deeponet@compact"
HOSTILE = (
    "<hostile a=1>",
    "</script><script>hostile()</script>",
    '" onmouseover="hostile()',
    "'><img src=x onerror=hostile()>",
    "../../hostile/x",
    "a|b`c`[d](javascript:hostile())",
    "$\\frac{1}{2}$ & &lt;hostile&gt;",
    "two\nlines\u202e\x00-->",
)


def toy_tracks(
    models: Sequence[str],
    tasks: Sequence[str],
    *,
    seeds: int = 3,
    reason: str = "no mesh",
    track: str = "laptop",
) -> list[BoardTrack]:
    """All models on all tasks, and a variant of the first.

    Every fourth task has frames; the last model declines every third task, the one before it has a
    single seed.
    """
    entries = []
    for number, task in enumerate(tasks):
        frames = 46 if number % 4 == 0 else 1
        entries.append(_done(_spec(task, models[0], 0, track, {"k_s": 16}), 1, frames))
        for rank, model in enumerate(models):
            if rank == len(models) - 1 and number % 3 == 0:
                declined = RunResult(_spec(task, model, 0, track), "declined", reason)
                entries.append(Entry.of(declined))
                continue
            count = 1 if rank == len(models) - 2 or model == FLOOR else seeds
            specs = [_spec(task, model, seed, track) for seed in range(count)]
            entries += [_done(spec, rank, frames) for spec in specs]
    evidence = Evidence(tuple(entries), ())
    return make_tracks(
        evidence, Registry({}, floors=(FLOOR,), reference_row=REFERENCE), PaperNumbers()
    )


def tracks_of(*roots: Path, here: Installation = NOWHERE, **declared: Any) -> list[BoardTrack]:
    """The tracks of folders of results, with the floor `mean`; `declared` is for the registry."""
    registry = Registry(**{"tracks": {}, "floors": ("mean",), **declared})
    return make_tracks(read_evidence(roots, here.results), registry, read_paper(), here)


def board_of(
    *roots: Path, slug: str = "darcy", here: Installation = NOWHERE, **declared: Any
) -> Board:
    """One board of folders of results."""
    tracks = tracks_of(*roots, here=here, **declared)
    boards = [board for track in tracks for board in track.boards]
    return next(board for board in boards if board.slug == slug)


def has_bands(task: str) -> bool:
    """The oldest results have none."""
    return task != "pipe"


def _spec(
    task: str, model: str, seed: int, track: str, knobs: Mapping[str, int] | None = None
) -> RunSpec:
    steps = {"fit": 0 if model == FLOOR else 100}
    named = {"task": task, "track": track, "seed": seed, "resolution": 450}
    return made_spec(model, **named, model_params=knobs or {}, steps=steps)


def _done(spec: RunSpec, rank: int, frames: int) -> Entry:
    """The model of rank r has an error of about 0.01 * 1.5**r, and costs less the worse it is."""
    draw = np.random.default_rng([rank, spec.seed, len(spec.task), frames])
    scatter = np.exp(0.2 * draw.standard_normal(64) + 0.02 * draw.standard_normal())
    samples = 0.01 * 1.5**rank * scatter
    error = float(samples.mean())
    growth = np.linspace(0.5, 1.5, frames)
    factors = {"q10": 0.7, "q50": 1.0, "q90": 1.4}
    quantiles = {name: (error * factor * growth).tolist() for name, factor in factors.items()}
    truth = np.geomspace(1.0, 0.01, 8)
    missed = np.minimum(truth, error * np.geomspace(0.3, 1.0, 8))
    bands = {"truth": truth.tolist(), "error": missed.tolist()}
    costs = {
        "parameters": 10**6 / (1 + rank),
        "prepare_cold_s": 0.2,
        "prepare_warm_s": 0.1,
        "train_cpu_s": 120.0 / (1 + rank),
        "peak_mb": 400.0 + 10 * rank,
    }
    height = {"rel_l2": error, "rel_l2_raw": error / 30}
    result = RunResult(
        spec=spec,
        status="done",
        scores={"test": {"height": height, "headline": {"rel_l2": error}}},
        samples={"test": {"height": {"rel_l2": samples.tolist()}}},
        frames={"height": quantiles} if frames > 1 else {},
        costs={**costs, "inference_s": 0.003 * (1 + rank)},
        data={"hash": "0123456789abcdef", "origin": "generated"},
        environment={"hardware": spec.model},
        bands={"height": bands} if has_bands(spec.task) else {},
        changed={f"model.{name}": value for name, value in spec.model_params.items()},
        steps_from="plugin",
    )
    return Entry.of(result)
