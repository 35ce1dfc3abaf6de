"""Evidence of models and tasks that do not exist: errors drawn from known distributions, for the
views of boards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from fake_results import made_spec

from gsnobench.boards.assemble import make_tracks
from gsnobench.boards.board import Track
from gsnobench.boards.evidence import Entry, Evidence
from gsnobench.boards.paper import Published
from gsnobench.records import RunResult, RunSpec

FLOOR = "floor0"
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
) -> list[Track]:
    """All models on all tasks, and a variant of the first.

    Every fourth task has frames; the last model declines every third task, the one before it has a
    single seed.
    """
    entries = []
    for place, task in enumerate(tasks):
        frames = 46 if place % 4 == 0 else 1
        entries.append(_done(_spec(task, models[0], 0, track, {"k_s": 16}), 1, frames))
        for rank, model in enumerate(models):
            if rank == len(models) - 1 and place % 3 == 0:
                entries.append(
                    Entry.of(RunResult(_spec(task, model, 0, track), "declined", reason))
                )
                continue
            count = 1 if rank == len(models) - 2 or model == FLOOR else seeds
            entries += [
                _done(_spec(task, model, seed, track), rank, frames) for seed in range(count)
            ]
    return make_tracks(Evidence(tuple(entries), ()), {FLOOR}, Published())


def has_bands(task: str) -> bool:
    """Results of the first days had none."""
    return task != "pipe"


def _spec(
    task: str, model: str, seed: int, track: str, knobs: Mapping[str, int] | None = None
) -> RunSpec:
    steps = {"fit": 0 if model == FLOOR else 100}
    return made_spec(
        model,
        task=task,
        track=track,
        seed=seed,
        model_params=knobs or {},
        steps=steps,
        resolution=450,
    )


def _done(spec: RunSpec, rank: int, frames: int) -> Entry:
    """The model of rank r has an error of about 0.01 * 1.5**r, and costs less the worse it is."""
    draw = np.random.default_rng([rank, spec.seed, len(spec.task), frames])
    samples = (
        0.01 * 1.5**rank * np.exp(0.2 * draw.standard_normal(64) + 0.02 * draw.standard_normal())
    )
    error = float(samples.mean())
    growth = np.linspace(0.5, 1.5, frames)
    quantiles = {
        name: (error * factor * growth).tolist()
        for name, factor in (("q10", 0.7), ("q50", 1.0), ("q90", 1.4))
    }
    truth = np.geomspace(1.0, 0.01, 8)
    bands = {
        "truth": truth.tolist(),
        "error": np.minimum(truth, error * np.geomspace(0.3, 1.0, 8)).tolist(),
    }
    costs = {
        "parameters": 10**6 / (1 + rank),
        "prepare_s": 0.2,
        "train_cpu_s": 120.0 / (1 + rank),
        "peak_mb": 400.0 + 10 * rank,
    }
    result = RunResult(
        spec=spec,
        status="done",
        scores={
            "test": {
                "height": {"rel_l2": error, "rel_l2_raw": error / 30},
                "headline": {"rel_l2": error},
            }
        },
        samples={"height": {"rel_l2": samples.tolist()}},
        frames={"height": quantiles} if frames > 1 else {},
        costs={**costs, "inference_s": 0.003 * (1 + rank)},
        data={"hash": "0123456789abcdef", "origin": "generated"},
        environment={"hardware": spec.model},
        bands={"height": bands} if has_bands(spec.task) else {},
    )
    return Entry.of(result)
