"""What the Graph Spectral Neural Operator computes once per mesh, and once per training split."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import gsnobench as gb
from gsnobench.meshes.modes import Basis, align, eigenbasis
from gsnobench_plugins.models.gsno import plus

if TYPE_CHECKING:
    from gsnobench_plugins.models.gsno.model import Params


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """The length that makes eigenvalues dimensionless and, with `align`, the training modes."""
    length = float(np.mean([gb.domain_length(mesh) for mesh in train.meshes]))
    stored: gb.Summary = {"length": np.array([length])}
    if params.align and len(train.meshes) == 1:
        mesh = train.meshes[0]
        stored |= {"points": mesh.points, "modes": _modes(mesh, train.task, params).vectors}
        stored |= {} if mesh.cells is None else {"cells": mesh.cells}
    return stored


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Modes, mass of the nodes, levels of the modes in the spectrum, and the inputs of `plus`."""
    length = float(summary["length"][0])
    is_aligned = "modes" in summary
    basis = _modes(mesh, task, params, guards=params.k_s // 8 + 2 if is_aligned else 0)
    values, volume = basis.values[: params.k_s], basis.mass.sum()
    vectors = align(basis, plus.carry(summary, mesh)) if is_aligned else basis.vectors  # (N, k)
    parts = [vectors]
    if params.gradients:
        parts += plus.gradient_modes(mesh, values, vectors)
    modes = np.concatenate(parts, axis=1) * volume**0.5  # (N, k) or (N, (1+d) k), of order 1
    computed = gb.computed_geometry(mesh, task, length) if params.features else {}
    return {
        "modes": gb.Part(modes, ("node", "wave")),
        "mass": gb.Part(basis.mass / volume, ("node",)),
        "level": gb.Part(_levels(values * length**2, mesh.dim, params.k_s), ("mode",)),
        **computed,
    }


def _modes(mesh: gb.Mesh, task: gb.Task, params: Params, guards: int = 0) -> Basis:
    """The k_s modes, and `guards` more that alignment may mix with them."""
    if params.k_s > mesh.size:
        raise gb.ParamError(
            f"model.k_s: {params.k_s} modes on a mesh of {mesh.size} nodes; expected at most one "
            "per node; lower it"
        )
    known = task.dirichlet_tags() if params.basis in ("fem", "nodes") else ()
    free = mesh.size - int(mesh.tag_matrix(known).any(axis=1).sum())
    k = max(params.k_s, min(params.k_s + guards, free))
    return eigenbasis(
        mesh,
        k,
        kind=params.basis,
        dirichlet=known,
        sigma=params.sigma_edges,
        neighbours=params.neighbours,
        seed=params.basis_seed,
    )


def _levels(values: gb.Array, dim: int, k: int) -> gb.Array:
    """Eigenvalues on a logarithmic scale from 0 (lambda = 0) to about 1 (the k-th), (k,).

    By Weyl's law, which says how many modes of the Laplacian to expect below an eigenvalue.
    """
    ball = math.pi ** (dim / 2) / math.gamma(dim / 2 + 1)
    count = ball * np.maximum(values, 0.0) ** (dim / 2) / (2 * math.pi) ** dim
    return np.log1p(count) / np.log1p(k)
