"""Gaussian random fields N(0, (-Laplace + tau^2)^-alpha) with Neumann conditions on one mesh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import gsnobench as gb
from gsnobench.meshes.operators import diffusion_matrix, factorise, node_volumes
from gsnobench.meshes.solver_modes import neumann_modes


def sample_rng(seed: int, split: gb.Split, index: int) -> np.random.Generator:
    """The random numbers of one sample, a function of (data seed, split, index) alone."""
    entropy = np.random.SeedSequence([seed, gb.SPLITS.index(split), index])
    return np.random.Generator(np.random.PCG64(entropy))


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
        return float(np.sum(spectrum**2) / node_volumes(self.mesh).sum())

    def draw(self, rng: np.random.Generator, spectrum: gb.Array) -> gb.Array:
        """Node values of one field, (N,)."""
        return np.asarray(self.vectors @ (spectrum * rng.standard_normal(len(spectrum))))

    def covariance(self, spectrum: gb.Array) -> gb.Array:
        """Covariance between node values, (N, N)."""
        scaled = self.vectors * spectrum
        return np.asarray(scaled @ scaled.T)


def compute_eigenbasis(mesh: gb.Mesh, modes: int) -> Eigenbasis:
    """The eigenbasis of a mesh."""
    return Eigenbasis(mesh, *neumann_modes(mesh, modes))


def cached_eigenbasis(mesh: gb.Mesh, modes: int, cache: gb.Cache) -> Eigenbasis:
    """The eigenbasis of a mesh, from disk after the first time."""

    def compute() -> dict[str, gb.Array]:
        basis = compute_eigenbasis(mesh, modes)
        return {"values": basis.values, "vectors": basis.vectors}

    arrays = cache.arrays("neumann-eigenbasis-v1", {"mesh": mesh.key, "modes": modes}, compute)
    return Eigenbasis(mesh, arrays["values"], arrays["vectors"])


def spde_draws(mesh: gb.Mesh, tau: float, noise: gb.Array) -> gb.Array:
    """Fields (N, S) with alpha = 2 from white noise (N, S): (K + tau^2 M) g = M^1/2 noise.

    For verification: one sparse solve, and no modes.
    """
    weights = node_volumes(mesh)
    operator = diffusion_matrix(mesh) + tau**2 * sp.diags_array(weights)
    return np.asarray(factorise(operator.tocsc()).solve(np.sqrt(weights)[:, None] * noise))
