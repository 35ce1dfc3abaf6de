"""A new plugin package that installs, loads and passes `gsnobench check` as it is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from string import Template
from typing import Literal, get_args

from gsnobench import plugins
from gsnobench.errors import DataError, ParamError, PluginError
from gsnobench.files import part_of, remove_abandoned
from gsnobench.hookspecs import API_VERSION
from gsnobench.registry import read_registry

Offer = Literal["model", "dataset", "metric"]


def create(name: str, kind: Offer, folder: Path) -> Path:
    """Write the package `gsnobench-NAME` below `folder`, whole or not at all; returns its path."""
    _check_name(name, kind)
    target = folder / f"gsnobench-{name}"
    if target.exists():
        raise DataError(f"{target}: already exists; choose another name or folder")
    part = part_of(target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target)
        part.mkdir()
        for path, text in _files(name, kind).items():
            (part / path).parent.mkdir(exist_ok=True)
            (part / path).write_text(text, encoding="utf-8")
        part.rename(target)
    except OSError as error:
        raise DataError(
            f"{target}: cannot be written ({error.strerror}); choose a writable folder"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _check_name(name: str, kind: Offer) -> None:
    if kind not in get_args(Offer):
        raise ParamError(f"kind: {kind!r} is unknown; expected {', '.join(get_args(Offer))}")
    if not re.fullmatch("[a-z][a-z0-9]*", name) or name == "plugins":  # gsnobench_plugins is ours
        raise ParamError(
            f"name: {name!r} is not allowed; expected lower-case letters and digits, a letter first"
        )
    for entry in plugins.listed(kind):
        if entry.name == name and entry.package != f"gsnobench-{name}":
            raise PluginError(f"{name}: is already a {kind} of {entry.origin}; choose another name")


def _files(name: str, kind: Offer) -> dict[str, str]:
    words = {"name": name, "kind": kind, "class_name": name.capitalize(), "api": str(API_VERSION)}
    words["checked_model"] = read_registry().checked_model
    example = {"model": _TRY_MODEL, "dataset": _TRY_DATASET, "metric": ""}[kind]
    texts = {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README + example + _LICENCE,
        f"gsnobench_{name}.py": {"model": _MODEL, "dataset": _DATASET, "metric": _METRIC}[kind],
        "tests/test_contract.py": _TEST,
    }
    return {path: Template(text).substitute(words).lstrip("\n") for path, text in texts.items()}


_PYPROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "gsnobench-$name"
version = "0.1.0"
description = "The $kind $name for gsnobench"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["gsnobench"]

[project.entry-points."gsnobench.${kind}s"]
$name = "gsnobench_$name"

[tool.setuptools]
py-modules = ["gsnobench_$name"]
"""

_README = """
# gsnobench-$name

The $kind `$name` as a plugin of gsnobench. All of it is in `gsnobench_$name.py`.

    pip install -e .
    gsnobench list
    gsnobench check $name
    pytest
"""
_TRY_MODEL = "    gsnobench run --model $name --dataset darcy --track smoke\n"
_TRY_DATASET = "    gsnobench run --model $checked_model --dataset $name --track smoke\n"
_LICENCE = """
## Licence

None yet: all rights are reserved until you add a LICENSE file and `license = "..."` to
`pyproject.toml`.
"""

_TEST = """
from gsnobench.check import assert_contract


def test_the_contract_holds():
    assert_contract("$kind", "$name")
"""

_MODEL = '''
"""$class_name: a pointwise perceptron, to be replaced by your operator."""

import gsnobench as gb
import torch
from torch import nn

GSNOBENCH_API = $api


class Params(gb.Params):
    width: int = gb.knob(default=64, low=16, high=256, log=True, help="hidden channels")


class $class_name(nn.Module):
    """u(x) = W2 gelu(W1 a(x) + b1) + b2 at every node x, with a(x) all inputs there."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(task.in_channels, params.width),
            nn.GELU(),
            nn.Linear(params.width, task.out_channels),
        )

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        # features (B, N, in_channels) -> frames (B, t_out, N, C)
        return batch.frames(self.net(batch.features))


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "$name",
        Params,
        $class_name,
        title="Pointwise perceptron",
        cites="unpublished",
        capabilities=frozenset(gb.Capability),  # works on every task, so it claims them all
    )
'''

_METRIC = '''
"""$class_name: relative L1 error by area, to be replaced by your metric."""

from functools import lru_cache

import gsnobench as gb
import numpy as np
from gsnobench.meshes.operators import lumped_mass

GSNOBENCH_API = $api

node_areas = lru_cache(maxsize=4)(lumped_mass)  # computed once per mesh, not once per batch


def applies(task: gb.Task, mesh: gb.Mesh) -> bool:
    """Where the metric makes sense: nodes have an area only if there are cells."""
    return mesh.cells is not None


def score(p: gb.Array, u: gb.Array, mesh: gb.Mesh, task: gb.Task) -> float:
    """integral |p - u| / integral |u| over frames and fields, both (T, n, C), of one sample.

    Values are physical ones minus the references of their fields; there is no padding.
    """
    areas = node_areas(mesh)[:, None]  # (n, 1)
    return float(np.sum(np.abs(p - u) * areas) / max(np.sum(np.abs(u) * areas), 1e-30))


@gb.hookimpl
def gsnobench_metric() -> gb.Metric:
    help = "relative L1 error by area over all frames and fields"
    return gb.Metric("$name", gb.each_sample(score), better="lower", help=help, applies=applies)
'''

_DATASET = '''
"""$class_name: Poisson's equation on the unit square, to be replaced by your problem.

-Laplace(u) = f in (0,1)^2, u = 0 on the boundary. Varies: the source f, a random sum of sines with
falling amplitudes. Steady: no frame is given, one is predicted. Solved by linear finite elements.
Good values to start with: 441 nodes, 128 samples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import gsnobench as gb
import numpy as np
from gsnobench.meshes.operators import factorise, lumped_mass, stiffness
from scipy.sparse.linalg import SuperLU

GSNOBENCH_API = $api
WAVES = 4  # in each direction


class Params(gb.Params):
    decay: float = gb.knob(
        default=1.0, low=0.0, high=4.0, help="how fast the source's amplitudes fall with frequency"
    )


@dataclass(frozen=True)
class Setup:
    """What all samples share."""

    mesh: gb.Mesh
    mass: gb.Array  # (N,)
    free: gb.Array  # nodes off the boundary
    solver: SuperLU  # of the stiffness matrix on the free nodes
    decay: float


def setup(params: Params, resolution: int, cache: gb.Cache) -> Setup:
    mesh = square(round(resolution**0.5))
    free = np.flatnonzero(~mesh.tags["wall"])
    solver = factorise(stiffness(mesh)[free][:, free])
    return Setup(mesh, lumped_mass(mesh), free, solver, params.decay)


def square(side: int) -> gb.Mesh:
    """side x side nodes, two triangles per square."""
    axis = np.linspace(0.0, 1.0, side)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)  # (N, 2)
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    lower = np.stack([corner, corner + side, corner + side + 1], axis=1)
    upper = np.stack([corner, corner + side + 1, corner + 1], axis=1)
    wall = np.any((points == 0) | (points == 1), axis=1)
    return gb.Mesh(points, np.concatenate([lower, upper]), {"wall": wall})


def generate(
    shared: Setup, seed: int, split: gb.Split, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    for index in indices:
        # a sample depends on these three alone
        draw = np.random.default_rng([seed, gb.SPLITS.index(split), index])
        source = random_source(shared.mesh.points, shared.decay, draw)  # (N,)
        solution = np.zeros(shared.mesh.size)
        solution[shared.free] = shared.solver.solve((shared.mass * source)[shared.free])
        yield gb.Sample(frames=solution[None, :, None], static=source[:, None], scalars=np.zeros(0))


def random_source(points: gb.Array, decay: float, draw: np.random.Generator) -> gb.Array:
    frequency = np.arange(1, WAVES + 1)
    waves = np.sin(np.pi * points[:, :, None] * frequency)  # (N, 2, WAVES)
    size = (frequency[:, None] ** 2 + frequency**2) ** (-decay / 2.0)
    amplitude = draw.normal(size=(WAVES, WAVES)) * size
    return np.einsum("ni,nj,ij->n", waves[:, 0], waves[:, 1], amplitude)


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    return gb.Dataset(
        name="$name",
        fields=(gb.Field("u", unit="1", boundary={"wall": "dirichlet"}, help="solution"),),
        static=(gb.Field("f", unit="1", help="source"),),
        dim=2,
        tags=("wall",),
        sizes={
            "smoke": gb.Sizes(16, 4, 4, resolution=121),
            "laptop": gb.Sizes(128, 32, 64, resolution=441),
            "workstation": gb.Sizes(512, 64, 128, resolution=961),
            "paper": gb.Sizes(1000, 100, 200, resolution=1681),
        },
        tiny=gb.Sizes(4, 2, 2, resolution=121),
        setup=setup,
        generate=generate,
        mesh=lambda shared: shared.mesh,
        params=Params,
        title="Poisson equation with a random source",
        solver="linear finite elements, sparse LU",
        licence="CC-BY-4.0",
        cites="unpublished",
    )
'''
