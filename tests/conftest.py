"""The shared problems as NetCDF files, and runs without MLflow or pictures."""

from __future__ import annotations

import os
from pathlib import Path

# scores are compared bit by bit, and two workers share two cores
os.environ.setdefault("OMP_NUM_THREADS", "1")
# a picture takes longer than a short training: only tests that look at one draw (`drawn`)
os.environ["GSNOBENCH_PICTURES"] = "none"

import pytest
from problems import steady, unsteady
from toy_samples import without_hashes, write_toy

from gsnobench.datasets.store import write


@pytest.fixture(scope="session")
def steady_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "poisson.nc"
    write(
        path, steady(), provenance={"title": "Poisson on a square", "source": "P1 finite elements"}
    )
    return path


@pytest.fixture(scope="session")
def unsteady_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "waves.nc"
    write(
        path, unsteady(), provenance={"title": "Standing waves on a square", "source": "eigenmodes"}
    )
    return path


@pytest.fixture
def untracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this test are not mirrored to MLflow."""
    monkeypatch.setenv("GSNOBENCH_TRACKING_URI", "none")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this test draw their pictures, as they do for everybody else."""
    monkeypatch.delenv("GSNOBENCH_PICTURES")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of ours."""
    return write_toy(tmp_path)


@pytest.fixture
def own(path: Path) -> Path:
    """The same file as a user would bring it: without any of the hashes."""
    return without_hashes(path)
