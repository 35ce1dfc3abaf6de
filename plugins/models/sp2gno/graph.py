"""The graph of Sp2GNO: nearest neighbours, path lengths to anchors, messages along its edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gsnobench.meshes.graphs import knn_edges

SHORTEST = 1e-12  # of a node's sum of messages, for the division by its length


# ------------------------------------------------------------------------------------ preprocessing


def in_box(points: np.ndarray) -> np.ndarray:
    """Positions relative to the bounding box, (N, d) in [0, 1]."""
    low, size = points.min(axis=0), np.ptp(points, axis=0)
    return (points - low) / np.where(size > 0, size, 1.0)


def farthest(points: np.ndarray, count: int) -> np.ndarray:
    """Farthest points: the node nearest to the lower corner, then the farthest from the chosen."""
    chosen = [int(np.argmin(points.sum(axis=1)))]
    distance = np.full(len(points), np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
        chosen.append(int(np.argmax(distance)))
    return np.array(chosen)


def edge_lengths(points: np.ndarray, k: int) -> csr_array:
    """The symmetric graph of k nearest nodes, (N, N), each edge with its length."""
    i, j = knn_edges(points, k).T
    length = np.linalg.norm(points[i] - points[j], axis=1)
    ends = np.concatenate([i, j]), np.concatenate([j, i])
    shape = (len(points), len(points))
    return csr_array(coo_array((np.concatenate([length, length]), ends), shape=shape))


def balanced(lengths: csr_array) -> csr_array:
    """Every edge's length over the root of the sums of lengths at its two ends, (N, N)."""
    total = np.asarray(lengths.sum(axis=1))  # (N,)
    receivers = np.repeat(np.arange(len(total)), np.diff(lengths.indptr))  # (E,)
    ends = np.sqrt(total[receivers] * total[lengths.indices])
    scaled = lengths.data / np.where(ends > 0, ends, 1.0)
    return csr_array((scaled, lengths.indices, lengths.indptr), shape=lengths.shape)


def lipschitz(lengths: csr_array, anchors: np.ndarray) -> np.ndarray:
    """1 / (1 + path length to an anchor), 0 without a path, standardised per anchor, (N, a)."""
    distance = dijkstra(lengths, directed=False, indices=anchors).T  # (N, a)
    near = np.where(np.isfinite(distance), 1 / (1 + distance), 0.0)
    spread = near.std(axis=0)
    return (near - near.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


# ----------------------------------------------------------------------------------------- messages


class Graph(NamedTuple):
    """Edges over the R nodes of all meshes, in both directions, in the order of their receivers."""

    starts: Tensor  # (R + 1,) index of a receiver's first edge
    senders: Tensor  # (E,)
    reverse: Tensor  # (E,) index of the edge in the other direction
    described: Tensor  # (1 + 2 a, E) inputs of a gate: length, receiver's and sender's embedding


def make_graph(lengths: Tensor, embedding: Tensor) -> Graph:
    """From the CSR matrix of edge lengths, (R, R), and the embedding, (G, N, a)."""
    starts, senders, length = lengths.crow_indices(), lengths.col_indices(), lengths.values()
    receivers = torch.repeat_interleave(starts.diff(), output_size=len(senders))  # (E,)
    nodes = embedding.flatten(0, 1).mT.contiguous()  # (a, R)
    ends = [nodes.index_select(1, receivers), nodes.index_select(1, senders)]
    described = torch.cat([length[None], *ends])  # (1 + 2 a, E)
    return Graph(starts, senders, senders.argsort(stable=True), described)


class Messages(torch.autograd.Function):
    """G = A y, every node's sum divided by its length; A holds the gates.

    With gradients by hand: torch would transpose a sparse matrix at every step, but edges run in
    both directions, so A^T is the same list of edges with the gates in another order.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, gates: Tensor, graph: Graph) -> Tensor:
        """y (R, S, d), gates (E,) -> (R, S, d)."""
        unit = gather(y.flatten(1), gates, graph).view_as(y)
        length = unit.norm(dim=-1, keepdim=True).clamp_min_(SHORTEST)  # (R, S, 1)
        unit /= length
        ctx.graph = graph
        ctx.save_for_backward(y, gates, unit, length)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        (y, gates, unit, length), graph = ctx.saved_tensors, ctx.graph
        along = (above * unit).sum(-1, keepdim=True)
        d_sums = torch.addcmul(above, unit, along, value=-1).div_(length).flatten(1)  # (R, S*d)
        dy = gather(d_sums, gates[graph.reverse], graph).view_as(y)
        with torch.autocast(y.device.type, enabled=False):
            empty, size = torch.zeros_like(gates), (len(y), len(y))
            edges = torch.sparse_csr_tensor(
                graph.starts, graph.senders, empty, size=size, check_invariants=False
            )
            products = torch.sparse.sampled_addmm(edges, d_sums, y.flatten(1).mT, beta=0.0)
        return dy, products.values(), None  # d_gates_ij = d_sums_i . y_j


def gather(y: Tensor, values: Tensor, graph: Graph) -> Tensor:
    """sum_j v_ij y_j over the senders j of every node i, (R, C) -> (R, C).

    Twice as fast as a product with a CSR matrix.
    """
    return functional.embedding_bag(
        graph.senders,
        y,
        graph.starts,
        mode="sum",
        per_sample_weights=values,
        include_last_offset=True,
    )


def messages(y: Tensor, gates: Tensor, graph: Graph) -> Tensor:
    """Gated sums over neighbours, of length 1 or, without neighbours, 0: (R, S, d) -> (R, S, d)."""
    # sparse products have no meta kernel; a meta run checks shapes and devices only
    if y.is_meta:
        return y + gates.sum()
    dtype = graph.described.dtype  # not autocast's: sparse products need single precision
    result: Tensor = Messages.apply(y.to(dtype).contiguous(), gates.to(dtype).contiguous(), graph)
    return result
