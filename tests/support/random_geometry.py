"""A geometry with a part of every kind, filled with random numbers."""

from __future__ import annotations

import numpy as np
import scipy.sparse

import gsnobench as gb


def random_geometry(nodes: int, edges: int, seed: int) -> gb.Geometry:
    """Values on nodes, an index into the nodes, and a sparse operator between nodes."""
    draw = np.random.default_rng(seed)
    matrix = scipy.sparse.random_array((nodes, nodes), density=0.3, rng=draw, format="csr")
    neighbours = draw.integers(0, nodes, size=(edges, 2))
    return {
        "modes": gb.Part(draw.normal(size=(nodes, 3)), ("node", "mode")),
        "neighbours": gb.Part(neighbours, ("edge", "end"), index="node"),
        "smooth": gb.Part(matrix @ matrix, ("node", "node")),  # the columns of a product: unsorted
    }
