"""A small run as an observer sees it, without data and without training; imports no mlflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsnobench.records import RunResult, RunSpec
from gsnobench.tracking import observer

SPEC = RunSpec(
    task="darcy",
    version=1,
    track="smoke",
    resolution=100,
    sizes={"train": 4},
    data={"psi": "exp"},
    data_seed=0,
    model="gsno",
    preset="plus",
    revision=1,
    model_params={"k_s": 8},
    train_params={"lr": 1e-3},
    steps={"fit": 100},
    seed=0,
)


def folder_of(home: Path, spec: RunSpec) -> Path:
    folder = home / "runs" / spec.short
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def train(home: Path, spec: RunSpec, epochs: range) -> None:
    observer.gsnobench_run_started(spec, folder_of(home, spec), {"sweep": "none"})
    for epoch in epochs:
        scores = {"loss": 1.0 / epoch, "valid": 2.0 / epoch, "lr": 1e-3}
        observer.gsnobench_epoch_ended(spec, "fit", epoch, scores)


def finish(home: Path, spec: RunSpec, **about: Any) -> None:
    folder = folder_of(home, spec)
    scores = {"test": {"headline": {"rel_l2": 0.125}, "u": {"rel_l2": 0.125, "max": 3.0}}}
    entries = {"status": "done", "scores": scores, "costs": {"train_s": 2.0}, **about}
    result = RunResult(spec=spec, **entries)
    result.save(folder / "result.json")
    (folder / "figures").mkdir(exist_ok=True)
    (folder / "figures" / "cases.png").write_bytes(b"picture")
    observer.gsnobench_run_finished(result, folder)
