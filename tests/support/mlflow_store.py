"""A real MLflow store in a home, as tests of tracking read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from gsnobench.files import lock
from gsnobench.records import RunSpec
from gsnobench.tracking.address import URI_VARIABLES, Address
from gsnobench.tracking.mirror import lock_path
from gsnobench.tracking.observer import WAIT_VARIABLE
from gsnobench.tracking.spool import read


def forget_outer_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever store the environment of the tests names is not ours."""
    for name in URI_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@contextmanager
def no_mirror(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if another process mirrored this home and were slow: the hooks then only write."""
    monkeypatch.setenv(WAIT_VARIABLE, "0")
    address = Address.of(home)
    assert address is not None
    with lock(lock_path(address), patience=30) as is_ours:
        assert is_ours
        yield


def client_of(home: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=f"sqlite:///{home / 'mlflow.db'}")


def runs_of(home: Path, spec: RunSpec) -> list[Run]:
    client = client_of(home)
    experiment = client.get_experiment_by_name(f"gsnobench/{spec.track}/{spec.task}")
    if experiment is None:
        return []
    query = f"tags.`gsnobench.key` = '{spec.key}'"
    return list(client.search_runs([experiment.experiment_id], query))


def history(home: Path, run: Run) -> list[tuple[str, int, float]]:
    """(metric, step, value) of every point in the store."""
    client = client_of(home)
    curves = [client.get_metric_history(run.info.run_id, name) for name in run.data.metrics]
    return sorted((point.key, point.step, point.value) for curve in curves for point in curve)


def spooled(path: Path) -> list[tuple[str, int, float]]:
    """(metric, step, value) of every point in the spool."""
    spool = read(path)
    assert spool is not None
    return sorted((point.name, point.step, point.value) for point in spool.points.values())
