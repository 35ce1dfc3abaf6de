"""Can every model memorise eight samples? Errors on the training samples, in one table.

    OMP_NUM_THREADS=1 python benchmarks/overfit.py [--models a,b] [--seeds 0,1] [--json FILE]

`pairs`: eight pairs of unrelated smooth fields on 300 random points, the test of the sheets of
DeepONet, CORAL (whose codec has to rebuild the second field), Geo-FNO and MGKN, with the sizes,
steps and rates given there; fields are unscaled, coordinates scaled as the sheet of the model says:
to [-1, 1] for DeepONet and CORAL, to [0, 1] for the others. `darcy`: eight samples of
darcy_threshold on 298 nodes, in preset `compact`, for the models whose sheets name a bound instead.
The bar is the sheet's own figure after as many steps, one seed of a prototype; CORAL's minimised
the mean squared error, the preset `paper` its root.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from baselines import make_job

import gsnobench as gb
from gsnobench.datasets.store import write
from gsnobench.runs.plan import Plan, make_plan
from gsnobench.runs.request import Request
from gsnobench.training.fit import fit

SAMPLES, NODES, WAVES = 8, 300, 4


@dataclass(frozen=True)
class Case:
    """What to fit, with which knobs, for how long, and the error to reach."""

    data: str
    steps: int
    bar: float
    preset: str = "paper"
    knobs: Mapping[str, str] = field(default_factory=dict)


PLAIN = {"train.optimiser": "adam", "train.lr": "1e-3", "train.schedule": "constant"}
CASES = {
    "deeponet": Case("pairs", 2000, 0.024, knobs=PLAIN),
    "geofno": Case("pairs", 300, 0.036, knobs={**PLAIN, "train.weight_decay": "1e-4"}),
    "mgkn": Case(
        "pairs", 400, 0.37, knobs={**PLAIN, "model.width": "32", "model.kernel_width": "32"}
    ),
    "coral": Case(
        "pairs",
        400,
        0.012,
        knobs={**PLAIN, "model.codec_rate": "0.5", "model.width": "64", "model.latent": "64"},
    ),
    "gnot": Case("darcy", 800, 0.01, "compact"),
    "transolver": Case("darcy", 800, 0.01, "compact"),
    "amg": Case("darcy", 800, 0.02, "compact"),
    "sp2gno": Case("darcy", 800, 0.02, "compact"),
}


def pairs(draw: np.random.Generator, mesh: gb.Mesh) -> gb.Samples:
    """Unrelated smooth fields: sums of four sines of random direction and phase."""

    def fields() -> np.ndarray:
        waves = draw.integers(1, 4, (SAMPLES, WAVES, 2))
        phases = draw.uniform(0, 2 * np.pi, (SAMPLES, 1, WAVES))
        angles = np.einsum("nd,skd->snk", mesh.points, np.pi * waves) + phases  # (S, N, waves)
        return np.sin(angles).sum(2).astype("f4")

    task = gb.Task(
        "pairs", "pairs", (gb.Field("u"),), dim=2, static=(gb.Field("a"),), resolution=NODES
    )
    frames, static = fields()[:, None, :, None], fields()[..., None]
    return gb.Samples(task, (mesh,), frames, static, np.zeros((SAMPLES, 0), "f4"))


def plan_of(model: str, case: Case, seed: int, folder: Path) -> Plan:
    """The plan that `gsnobench run` would make."""
    knobs = {**case.knobs, "train.batch": str(SAMPLES)}
    if case.data == "darcy":
        request = Request(
            model,
            "darcy_threshold",
            preset=case.preset,
            seed=seed,
            knobs=knobs,
            track="smoke",
            resolution=298,
            samples=SAMPLES,
            data_seed=seed,
        )
        return make_plan(request)
    draw = np.random.default_rng(seed)
    mesh = gb.Mesh(draw.random((NODES, 2)), None, {})
    file = folder / "pairs.nc"
    provenance = {"title": "unrelated pairs", "source": "benchmarks/overfit.py"}
    write(file, {"train": pairs(draw, mesh), "valid": pairs(draw, mesh)}, provenance=provenance)
    plan = make_plan(Request(model, str(file), preset=case.preset, seed=seed, knobs=knobs))
    return replace(plan, preset=replace(plan.preset, inputs="none", outputs="none"))


def error_after(model: str, case: Case, seed: int) -> float:
    """Least error of the first phase on its training samples, used as the validation split."""
    with tempfile.TemporaryDirectory() as name:
        torch.manual_seed(seed)
        job = make_job(plan_of(model, case, seed, Path(name)), Path(name))
        first = job.phases[0]
        steps = {first.name: case.steps}
        outcome = fit(replace(job, valid=job.train, phases=(first,), steps=steps, seed=seed))
    if outcome.reason:
        raise SystemExit(f"{model}: {outcome.reason}")
    return min(float(row["valid"]) for row in outcome.progress.curve if "valid" in row)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(CASES))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    table = {}
    for model in chosen.models.split(","):
        case = CASES[model]
        errors = [error_after(model, case, int(seed)) for seed in chosen.seeds.split(",")]
        table[model] = {"data": case.data, "steps": case.steps, "errors": errors, "bar": case.bar}
        verdict = "ok" if mean(errors) <= case.bar else "MISSED"
        shown = ", ".join(f"{error:.2g}" for error in errors)
        print(
            f"{model:12s} {case.data:6s} {case.steps:5d} steps  {shown}  (sheet {case.bar:g})  "
            f"{verdict}",
            flush=True,
        )
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
