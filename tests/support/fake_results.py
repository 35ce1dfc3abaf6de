"""Made-up results in the files that `run` writes, for tests of what reads many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.records import RunResult, RunSpec, evidence_path


def made_spec(model: str = "gsno", **changes: Any) -> RunSpec:
    """A spec of the laptop track; any entry can be changed."""
    values: dict[str, Any] = {
        "task": "darcy",
        "version": 1,
        "track": "laptop",
        "resolution": 600,
        "sizes": {"train": 128, "valid": 32, "test": 64, "test_ood": 0},
        "data": {"psi": "exp"},
        "data_seed": 0,
        "model": model,
        "preset": "compact",
        "revision": 50,  # newer than those of the models whose names are borrowed
        "model_params": {"width": 32},
        "train_params": {"lr": 0.001},
        "steps": {"fit": 100},
        "seed": 0,
    }
    return RunSpec(**{**values, **changes})


def made_result(
    model: str = "gsno",
    *,
    errors: Sequence[float] | float = 0.1,
    frames: int = 0,
    changed: Mapping[str, Any] | None = None,
    epochs: float = 100.0,
    **changes: Any,
) -> RunResult:
    """A finished run with these errors of its test samples; `changed` makes it a variant.

    Its curve falls in the first epochs and is flat at the end.
    """
    spec = made_spec(model, **changes)
    by_sample = np.broadcast_to(errors, (spec.sizes["test"],))
    samples = [round(float(error), 6) for error in by_sample]
    mean = float(np.mean(samples))
    table = {
        "head": {"rel_l2": mean, "rel_l2_raw": mean, "rmse": 2 * mean, "mae": mean},
        "headline": {"rel_l2": mean},
    }
    growth = [mean * (1 + 0.01 * frame) for frame in range(frames)]
    quantiles = {"head": {"q10": growth, "q50": growth, "q90": growth}}
    costs = {
        "parameters": 1000.0 * (1 + len(model)),
        "prepare_cold_s": 0.1,
        "prepare_warm_s": 0.1,
        "train_cpu_s": 100.0,
        "validate_cpu_s": 1.0,
    }
    return RunResult(
        spec=spec,
        status="done",
        scores={"valid": table, "test": table},
        samples={"test": {"head": {"rel_l2": samples, "rel_l2_raw": samples}}},
        frames=quantiles if frames else {},
        curve=made_curve(spec.steps, epochs) if any(spec.steps.values()) else [],
        costs={**costs, "train_s": 110.0, "peak_mb": 500.0, "inference_s": 0.002},
        data={"hash": "a" * 64, "fingerprint": "{}", "origin": "generated"},
        environment={"gsnobench": "0.1.0", "hardware": "test"},
        changed=changed or {},
        steps_from="plugin",  # counts that are ranked without a registry
    )


def with_ood(result: RunResult, errors: Sequence[float]) -> RunResult:
    """The same result with these errors of its samples out of distribution."""
    samples = {"head": {"rel_l2": list(errors)}}
    scores = {"headline": {"rel_l2": float(np.mean(errors))}}
    return replace(
        result,
        scores={**result.scores, "test_ood": scores},
        samples={**result.samples, "test_ood": samples},
    )


def made_curve(steps: Mapping[str, int], epochs: float) -> list[dict[str, Any]]:
    """Ten points of every phase that takes steps: halved from point to point, flat at the end."""
    trained = {phase: count for phase, count in steps.items() if count}
    points = []
    for phase, count in trained.items():
        for tenth in range(1, 11):
            step = count * tenth / 10
            value = 2.0 ** -min(tenth, 6)
            epoch = epochs * step / count / len(trained)
            point = {"phase": phase, "epoch": epoch, "step": step, "loss": value, "valid": value}
            points.append(point)
    return points


def spread(mean: float, seed: int, *, samples: int = 64, scatter: float = 0.02) -> np.ndarray:
    """Errors of test samples, equally hard for all rows, with a scatter of this row and seed."""
    hardness = np.exp(0.3 * np.random.default_rng(7).normal(size=samples))
    shift = np.exp(scatter * np.random.default_rng(1000 + seed).normal())
    noise = np.exp(scatter * np.random.default_rng(2000 + seed).normal(size=samples))
    return np.asarray(mean * shift * noise * hardness / hardness.mean())


def save(root: Path, *results: RunResult) -> list[Path]:
    """Write results to their paths below a folder of evidence."""
    paths = [evidence_path(root, result.spec) for result in results]
    for path, result in zip(paths, results, strict=True):
        result.save(path)
    return paths


def made_evidence(root: Path, task: str = "darcy") -> Path:
    """Three models and a floor on one task, three seeds each, clearly apart."""
    for index, (model, mean) in enumerate((("gsno", 0.02), ("amg", 0.04), ("coral", 0.08))):
        for seed in range(3):
            errors = spread(mean, 10 * index + seed)
            save(root, made_result(model, errors=errors, seed=seed, task=task))
    floor = {"preset": "default", "steps": {"fit": 0}, "task": task}
    save(root, made_result("mean", errors=spread(0.5, 99), **floor))
    return root
