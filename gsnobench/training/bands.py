"""Errors by band: truth and error of predictions in octaves of a mesh's Laplacian modes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from gsnobench.data import Array, Mesh
from gsnobench.files import Cache
from gsnobench.meshes.modes import Basis, eigenbasis
from gsnobench.records import rounded
from gsnobench.training.loader import Loader
from gsnobench.training.rollout import Step

OCTAVES = 7  # modes 1, 2-3, 4-7, ... 64-127; a last band holds all that is left
MODES = 2**OCTAVES - 1
MOST_MESHES = 32  # eigenbases are expensive: further meshes are left out


def band_table(
    steps: Iterable[Step], loader: Loader, cache: Cache
) -> dict[str, dict[str, list[float]]]:
    """Scored field -> "truth" and "error" -> norm in each band, relative to the whole truth.

    The table holds root mean squares over samples. Norms are weighted by area, for which the modes
    are orthonormal: the squares of a table add up to the square of the whole. A field on part of a
    mesh has no entry: the modes of the whole mesh are not orthonormal there.
    """
    task = loader.task
    scored = {
        name: list(group)
        for name, group in task.scored.items()
        if {task.fields[position].support for position in group} == {"all"}
    }
    energies: dict[str, list[Array]] = defaultdict(list)  # field -> (2, bands) per window
    for basis, truth, error in _decomposable(steps if scored else (), loader, cache):
        for name, group in scored.items():
            pair = np.stack([band_energies(basis, values[..., group]) for values in (truth, error)])
            energies[name].append(pair / max(pair[0].sum(), 1e-30))
    means = {name: np.sqrt(np.mean(pairs, axis=0)) for name, pairs in energies.items()}
    return {
        name: {"truth": _digits(truth), "error": _digits(error)}
        for name, (truth, error) in means.items()
    }


def _decomposable(
    steps: Iterable[Step], loader: Loader, cache: Cache
) -> Iterator[tuple[Basis, Array, Array]]:
    """Modes, truth and error of each window, (T, N, C) both; of the first meshes if there are many.

    Windows of a mesh that has no basis are left out.
    """
    bases: dict[str, Basis] = {}
    for step in steps:
        for position, index in enumerate(step.indices.tolist()):
            mesh = loader.samples.mesh(index)
            if mesh.key not in bases and len(bases) < MOST_MESHES:
                bases[mesh.key] = _basis(mesh, cache)
            if mesh.key in bases:
                truth = step.target[position, :, : mesh.size].double().cpu().numpy()
                error = step.prediction[position, :, : mesh.size].double().cpu().numpy() - truth
                yield bases[mesh.key], truth, error


def _digits(norms: Array) -> list[float]:
    return [rounded(norm) for norm in norms.tolist()]


def band_energies(basis: Basis, values: Array) -> Array:
    """Squared norm of (T, N, c) in each band, (OCTAVES + 1,); small meshes lack the last bands."""
    coefficients = np.einsum("kn,tnc->ktc", basis.analysis, values, optimize=True)
    by_mode = np.square(coefficients).sum(axis=(1, 2))  # (k,)
    octave = np.log2(np.arange(1, len(by_mode) + 1)).astype(int)  # exact at powers of two
    inside = np.bincount(octave, by_mode, OCTAVES)
    whole = float((basis.mass[:, None] * np.square(values)).sum())
    return np.append(inside, max(whole - inside.sum(), 0.0))


def _basis(mesh: Mesh, cache: Cache) -> Basis:
    """The modes of a mesh, kept on disk: all models of a task share them."""

    def compute() -> dict[str, Array]:
        basis = eigenbasis(mesh, min(MODES, mesh.size))
        return {"values": basis.values, "vectors": basis.vectors, "mass": basis.mass}

    arrays = cache.arrays("spectrum-v1", {"mesh": mesh.key, "modes": MODES}, compute)
    return Basis(arrays["values"], arrays["vectors"], arrays["mass"], 0.0)
