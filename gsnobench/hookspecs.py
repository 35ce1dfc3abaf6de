"""The hooks of a plugin: all that can be added to the benchmark.

A plugin module states `GSNOBENCH_API = 1` and implements one hook with `@gb.hookimpl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

# mypy: disable-error-code=empty-body

if TYPE_CHECKING:
    from gsnobench.declare import Dataset, Executor, Importer, Invariant, Metric, Model
    from gsnobench.records import RunResult, RunSpec

API_VERSION = 1

hookspec = pluggy.HookspecMarker("gsnobench")
hookimpl = pluggy.HookimplMarker("gsnobench")


@hookspec
def gsnobench_dataset() -> Dataset:
    """Group `gsnobench.datasets`: a PDE problem with its solver."""


@hookspec
def gsnobench_importer() -> Importer:
    """Group `gsnobench.importers`: a reader of public data in their authors' own files."""


@hookspec
def gsnobench_invariant() -> Invariant:
    """Group `gsnobench.invariants`: what must hold in the samples of some datasets."""


@hookspec
def gsnobench_model() -> Model:
    """Group `gsnobench.models`: an operator with its knobs."""


@hookspec
def gsnobench_metric() -> Metric:
    """Group `gsnobench.metrics`: one more score per sample."""


@hookspec
def gsnobench_executor() -> Executor:
    """Group `gsnobench.executors`: a way to run many runs, such as a cluster."""


@hookspec
def gsnobench_run_started(spec: RunSpec, folder: Path, tags: Mapping[str, str]) -> None:
    """Group `gsnobench.observers`: a run begins; tags are no part of its key."""


@hookspec
def gsnobench_epoch_ended(
    spec: RunSpec, phase: str, epoch: int, scores: Mapping[str, float]
) -> None:
    """Group `gsnobench.observers`: once per epoch; raise `gb.Prune` to end the run."""


@hookspec
def gsnobench_run_finished(result: RunResult, folder: Path) -> None:
    """Group `gsnobench.observers`: the result is final and written.

    If the process is killed before it can tell, the next one that asks for the run tells it: then
    nothing came before, and the same may come twice.
    """
