"""Gaussian random fields N(0, (-Laplace + tau^2)^-alpha) with Neumann conditions, as functions on
one reference mesh.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

import gsnobench as gb
from gsnobench_plugins.solvers.methods.fem import factorise, lumped_mass, stiffness


def sample_rng(seed: int, split: gb.Split, index: int) -> np.random.Generator:
    """The random numbers of one sample: a function of (data seed, split, index) and nothing else."""
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence([seed, gb.SPLITS.index(split), index]))
    )


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """The lowest Neumann eigenpairs of -Laplace on a mesh, orthonormal in its lumped mass."""

    mesh: gb.Mesh
    values: gb.Array  # (K,) ascending; the first is 0
    vectors: gb.Array  # (N, K)

    def spectrum(self, tau: float, alpha: float) -> gb.Array:
        """Standard deviations of the coefficients of N(0, (-Laplace + tau^2)^-alpha), (K,)."""
        return np.asarray((self.values + tau**2) ** (-alpha / 2))

    def mean_variance(self, spectrum: gb.Array) -> float:
        """Pointwise variance of the field, averaged over the domain."""
        return float(np.sum(spectrum**2) / lumped_mass(self.mesh).sum())

    def draw(self, rng: np.random.Generator, spectrum: gb.Array) -> gb.Array:
        """Node values of one field, (N,)."""
        return np.asarray(self.vectors @ (spectrum * rng.standard_normal(len(spectrum))))

    def covariance(self, spectrum: gb.Array) -> gb.Array:
        """Covariance between node values, (N, N)."""
        scaled = self.vectors * spectrum
        return np.asarray(scaled @ scaled.T)


def compute_eigenbasis(mesh: gb.Mesh, modes: int) -> Eigenbasis:
    """Eigenpairs by shift-invert Lanczos from a fixed start, by a dense solver where most of the
    spectrum is wanted.
    """
    if not 1 <= modes <= mesh.size:
        raise gb.DataError(
            f"eigenbasis: {modes} modes on {mesh.size} nodes; expected 1..{mesh.size}; use a finer "
            "mesh"
        )
    scale = 1.0 / np.sqrt(lumped_mass(mesh))
    scaling = sp.diags_array(scale)
    # symmetric form of the lumped eigenproblem
    matrix = (scaling @ stiffness(mesh) @ scaling).tocsr()
    if 3 * modes > mesh.size:
        values, vectors = scipy.linalg.eigh(matrix.toarray(), subset_by_index=(0, modes - 1))
    else:
        shift = float(matrix.diagonal().mean()) / mesh.size
        start = np.random.default_rng(0).standard_normal(mesh.size)
        values, vectors = eigsh(matrix, k=modes, sigma=-shift, v0=start)
    order = np.argsort(values, kind="stable")
    vectors = vectors[:, order] * scale[:, None]
    largest = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(modes)])
    return Eigenbasis(mesh, np.maximum(values[order], 0.0), np.ascontiguousarray(vectors))


def cached_eigenbasis(mesh: gb.Mesh, modes: int, cache: gb.Cache) -> Eigenbasis:
    """The eigenbasis of a mesh, from disk after the first time."""

    def compute() -> dict[str, gb.Array]:
        basis = compute_eigenbasis(mesh, modes)
        return {"values": basis.values, "vectors": basis.vectors}

    arrays = cache.arrays("neumann-eigenbasis-v1", {"mesh": mesh.key, "modes": modes}, compute)
    return Eigenbasis(mesh, arrays["values"], arrays["vectors"])


def spde_draws(mesh: gb.Mesh, tau: float, noise: gb.Array) -> gb.Array:
    """Fields with alpha = 2 from white noise (N, S) by one sparse solve, (N, S): (K + tau^2 M) g =
    M^1/2 noise.
    """
    weights = lumped_mass(mesh)
    operator = stiffness(mesh) + tau**2 * sp.diags_array(weights)
    return np.asarray(factorise(operator.tocsr()).solve(np.sqrt(weights)[:, None] * noise))
