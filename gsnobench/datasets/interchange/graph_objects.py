"""Graphs as PyTorch Geometric keeps them: `pos`, `edge_index`, and node or graph values by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsnobench.data import Mesh
from gsnobench.datasets.interchange.mesh_argument import new_mesh
from gsnobench.datasets.interchange.raw import Raw, as_array
from gsnobench.errors import DataError

SUBJECT = "graphs"


def is_graph(data: Any) -> bool:
    """Whether an object has the positions and the edge list of a graph."""
    if isinstance(data, Mapping):
        return {"pos", "edge_index"} <= set(data)
    return hasattr(data, "pos") and hasattr(data, "edge_index")


def raw_of_graphs(graphs: Sequence[Any], names: Sequence[str]) -> Raw:
    """One sample per graph; its edges are the cells of its mesh."""
    meshes = tuple(_mesh(graph, number) for number, graph in enumerate(graphs))
    values = {
        name: [as_array(_entry(graph, name, number)) for number, graph in enumerate(graphs)]
        for name in names
    }
    return Raw(SUBJECT, meshes, values)


def _entry(graph: Any, name: str, number: int) -> Any:
    value = graph.get(name) if isinstance(graph, Mapping) else getattr(graph, name, None)
    if value is None:
        raise DataError(f"{SUBJECT}: graph {number} has no {name!r}; expected it in every graph")
    return value


def _mesh(graph: Any, number: int) -> Mesh:
    points = as_array(_entry(graph, "pos", number))
    ends = as_array(_entry(graph, "edge_index", number))
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise DataError(
            f"{SUBJECT}: edge_index of graph {number} is {ends.dtype} of the shape {ends.shape}; "
            "expected whole numbers (2, edges)"
        )
    pairs = np.unique(np.sort(ends.T[ends[0] != ends[1]], axis=1), axis=0)  # once, without loops
    is_alone = np.bincount(pairs.ravel(), minlength=len(points)) == 0
    if is_alone.any():
        raise DataError(
            f"{SUBJECT}: node {int(np.flatnonzero(is_alone)[0])} of graph {number} has no edge; "
            "expected every node in one; drop the node or write the graph as a point cloud"
        )
    return new_mesh(points, pairs, {}, f"graph {number}")
