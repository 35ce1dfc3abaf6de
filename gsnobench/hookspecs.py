"""The whole extension surface. A plugin module implements one hook with `@gb.hookimpl` and states
GSNOBENCH_API = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

# mypy: disable-error-code=empty-body

if TYPE_CHECKING:
    from gsnobench.declare import Dataset, Executor, Metric, Model

API_VERSION = 1

hookspec = pluggy.HookspecMarker("gsnobench")
hookimpl = pluggy.HookimplMarker("gsnobench")


@hookspec
def gsnobench_dataset() -> Dataset:
    """Group `gsnobench.datasets`: a PDE problem with its solver."""


@hookspec
def gsnobench_model() -> Model:
    """Group `gsnobench.models`: an operator with its knobs."""


@hookspec
def gsnobench_metric() -> Metric:
    """Group `gsnobench.metrics`: one more score per sample."""


@hookspec
def gsnobench_executor() -> Executor:
    """Group `gsnobench.executors`: a place where runs happen."""


@hookspec
def gsnobench_run_started(spec: Any, folder: Path, tags: Mapping[str, str]) -> None:
    """Group `gsnobench.observers`: a run begins; tags are outside its key."""


@hookspec
def gsnobench_epoch_ended(spec: Any, phase: str, epoch: int, scores: Mapping[str, float]) -> None:
    """Group `gsnobench.observers`: once an epoch; raise `gb.Prune` to end the run."""


@hookspec
def gsnobench_run_finished(result: Any, folder: Path) -> None:
    """Group `gsnobench.observers`: the result is final and written."""
