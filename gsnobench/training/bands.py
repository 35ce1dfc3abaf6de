"""Where in the spectrum an error lives: truth and error of test predictions in bands of a mesh's
Laplacian modes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from gsnobench.data import Array, Mesh
from gsnobench.files import Cache
from gsnobench.meshes.modes import Basis, eigenbasis
from gsnobench.records import rounded
from gsnobench.training.loader import Loader
from gsnobench.training.rollout import Step

OCTAVES = 7  # modes 1, 2-3, 4-7, ... 64-127; a last band holds all that is left
MODES = 2**OCTAVES - 1
# eigenbases are not free: where every sample has its own mesh, so many samples must do
MOST_MESHES = 32


def band_table(
    steps: Iterable[Step], loader: Loader, cache: Cache
) -> dict[str, dict[str, list[float]]]:
    """Scored field -> "truth" and "error" -> norm in each band over the norm of the whole truth,
    root mean square over samples.

    Norms are weighted by area, as the modes are orthonormal: the squares of a table add up to the
    square of the whole. A field that lives on part of a mesh has no entry: the modes of the mesh
    are not its own.
    """
    task = loader.task
    scored = {
        name: list(group)
        for name, group in task.scored.items()
        if {task.fields[one].support for one in group} == {"all"}
    }
    energies: dict[str, list[Array]] = defaultdict(list)  # field -> (2, bands) a window
    bases: dict[str, Basis] = {}
    for step in steps if scored else ():
        for place, index in enumerate(step.indices.tolist()):
            mesh = loader.samples.mesh(index)
            if mesh.key not in bases and len(bases) < MOST_MESHES:
                bases[mesh.key] = _basis(mesh, cache)
            if mesh.key in bases:
                truth = step.target[place, :, : mesh.size].double().cpu().numpy()  # (T, N, C)
                error = step.prediction[place, :, : mesh.size].double().cpu().numpy() - truth
                for name, group in scored.items():
                    pair = np.stack(
                        [
                            band_energies(bases[mesh.key], values[..., group])
                            for values in (truth, error)
                        ]
                    )
                    energies[name].append(pair / max(pair[0].sum(), 1e-30))
    means = {name: np.sqrt(np.mean(pairs, axis=0)) for name, pairs in energies.items()}
    return {
        name: {
            part: [rounded(one) for one in norms.tolist()]
            for part, norms in zip(("truth", "error"), pair, strict=True)
        }
        for name, pair in means.items()
    }


def band_energies(basis: Basis, values: Array) -> Array:
    """Squared norm of (T, N, c) in each band, (OCTAVES + 1,); a small mesh leaves the last bands
    empty.
    """
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
