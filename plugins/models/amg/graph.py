"""The graphs of AMG: farthest points and details of a mesh, neighbours among sampled nodes,
attention along their edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

import gsnobench as gb

INTERPOLATED = 3  # coarse nodes that a node's value is interpolated from
NEAREST = 1e-16  # least squared distance in the interpolation
SLOPE = 0.2  # of the leaky rectifier for negative arguments
# numbers held between two steps: on a CPU what its cache holds, elsewhere
IN_CACHE, AT_ONCE = 1 << 18, 1 << 26
FIRST_TURNS = 32  # of the search for farthest points, in which nearly all points are within reach
MOST_ROWS = 256  # of a table of closeness at a time

# ---------------------------------------------------------------------------------- once for a mesh


def sampled_geometry(mesh: gb.Mesh, *, coarse: float, sampled: float, local: int) -> gb.Geometry:
    """What depends on the places of the nodes alone. Nodes are first sorted by their coordinates,
    so that the first of equals, wherever one is taken, is a matter of geometry and not of
    numbering."""
    points, size = mesh.points, mesh.size
    order = np.lexsort(points.T[::-1])  # (N,) by x, then y, then z
    counts = [math.ceil(share * size) for share in (coarse, sampled)]
    # both samples are beginnings of one sequence
    far = order[farthest_points(points[order], max(counts))]
    rank = np.zeros(size, dtype=np.int64)
    rank[np.concatenate([far, order[~np.isin(order, far)]])] = np.arange(size)
    return {
        "detail": gb.Part(detail_operator(points, far[: counts[0]]), ("node", "node")),
        "rank": gb.Part(rank, ("node",)),  # who is taken first among equals
        "place": gb.Part((points - points.min(0)) / np.ptp(points, axis=0).max(), ("node", "axis")),
        "farthest": gb.Part(far[: counts[1]], ("sampled",), index="node"),
        "is_sampled": gb.Part(np.ones(counts[1], dtype=bool), ("sampled",)),  # no padding
        "is_local": gb.Part(np.ones(min(local, size), dtype=bool), ("local",)),
    }


def farthest_points(points: gb.Array, count: int) -> gb.Array:
    """(count,) indices: the point nearest to the centroid, then always the one farthest from those
    taken.

    A point that is taken at a distance r brings only those within r of it nearer to the taken ones;
    the tree finds them.
    """
    tree, chosen = KDTree(points), np.empty(count, dtype=np.int64)
    distance = np.full(len(points), np.inf)  # squared, to the points taken
    chosen[0] = np.argmin(((points - points.mean(0)) ** 2).sum(1))
    for turn in range(count - 1):
        last = chosen[turn]
        reach = math.sqrt(distance[last]) * (1 + 1e-9)
        within: Any = (
            slice(None) if turn < FIRST_TURNS else tree.query_ball_point(points[last], reach)
        )
        distance[within] = np.minimum(
            distance[within], ((points[within] - points[last]) ** 2).sum(1)
        )
        distance[last] = -1.0  # never twice, even where points coincide
        chosen[turn + 1] = np.argmax(distance)
    return chosen


def detail_operator(points: gb.Array, coarse: gb.Array) -> csr_array:
    """x -> x - (its interpolation from the coarse nodes), (N, N): what a coarse graph cannot carry;
    0 at coarse nodes.
    """
    fine = np.setdiff1d(np.arange(len(points)), coarse)
    among = min(INTERPOLATED, len(coarse))
    # (F, 3)
    distance, closest = KDTree(points[coarse]).query(points[fine], np.arange(1, among + 1))
    share = 1 / np.maximum(distance**2, NEAREST)
    share /= share.sum(1, keepdims=True)
    rows = np.concatenate([fine, np.repeat(fine, among)])
    columns = np.concatenate([fine, coarse[closest].ravel()])
    values = np.concatenate([np.ones(len(fine)), -share.ravel()])
    return csr_array((values, (rows, columns)), shape=(len(points), len(points)))


# --------------------------------------------------------------------------------- once for a batch


@dataclass(frozen=True, eq=False)
class Graph:
    """Edges among R sampled nodes of a batch; every node also hears itself, and all others hear
    themselves alone.
    """

    nodes: Tensor  # (R,) where they are among the B*N nodes
    near: Tensor  # (R, k+1) rows of `nodes`, the node itself first
    is_missing: Tensor | None  # (R, k+1) bool: no such neighbour


@dataclass(frozen=True, eq=False)
class Sites:
    """Where the nodes of a batch are, as far as graphs are concerned."""

    batch: gb.Batch
    mask: Tensor | None  # (B, N, 1) 0/1
    order: Tensor  # (1 or B, N) nodes by rank, padding last
    starts: Tensor  # (B, 1) number of the first node of each sample

    @classmethod
    def of(cls, batch: gb.Batch) -> Sites:
        rank, mask = batch.geometry["rank"], batch.mask
        rank = rank if mask is None else rank.masked_fill(~mask, batch.nodes)
        starts = torch.arange(batch.size, device=rank.device)[:, None] * batch.nodes
        return cls(
            batch,
            None if mask is None else mask[..., None].to(batch.points.dtype),
            rank.argsort(1),
            starts,
        )

    def local_graph(self, x: Tensor, k: int, space: Literal["place", "features"]) -> Graph:
        """Among the nodes of x (B, N, d) whose values a coarse graph carries worst."""
        detail = self.batch.apply("detail", x.float()).abs().sum(-1)  # (B, N)
        detail = detail if self.batch.mask is None else detail.masked_fill(~self.batch.mask, -1.0)
        order = self.order.expand(len(x), -1)
        is_real = self.batch.geometry["is_local"]  # (1 or B, S)
        # (B, S)
        worst = (
            detail.gather(1, order)
            .sort(dim=1, descending=True, stable=True)
            .indices[:, : is_real.shape[1]]
        )
        worst = worst if self.mask is None else worst.where(is_real, self.batch.nodes - 1)
        nodes = order.gather(1, worst.sort(1).values) + self.starts  # (B, S) by rank, padding last
        if space == "features":
            return self._graph(nodes, is_real, alike(self._rows(x, nodes), self._real(is_real)), k)
        return self._graph(
            nodes,
            is_real,
            close(self._rows(self.batch.geometry["place"].expand(len(x), -1, -1), nodes)),
            k,
        )

    def global_graph(self, x: Tensor, k: int) -> Graph:
        """Among the farthest points, by the features x (B, N, d)."""
        # (1 or B, S)
        nodes, is_real = self.batch.geometry["farthest"], self.batch.geometry["is_sampled"]
        # own meshes are numbered through the batch already
        nodes = nodes + self.starts if len(nodes) < len(x) else nodes
        nodes = (
            nodes if self.mask is None else nodes.where(is_real, self.starts + self.batch.nodes - 1)
        )
        return self._graph(nodes, is_real, alike(self._rows(x, nodes), self._real(is_real)), k)

    def _rows(self, x: Tensor, nodes: Tensor) -> Tensor:
        return x.flatten(0, 1)[nodes]  # (B, S, d)

    def _real(self, is_real: Tensor) -> Tensor | None:
        return None if self.mask is None else is_real

    def _graph(
        self, nodes: Tensor, is_real: Tensor, closeness: Callable[[slice], Tensor], k: int
    ) -> Graph:
        size, slots = nodes.shape
        found, is_missing = neighbours(
            closeness, size, slots, k=k, is_real=self._real(is_real), device=nodes.device
        )
        own = torch.arange(size * slots, device=nodes.device).view(size, slots, 1)
        near = torch.cat([own, found + own[:, :1]], -1).flatten(0, 1)  # (R, k+1)
        missing = None if self.mask is None else functional.pad(is_missing, (1, 0)).flatten(0, 1)
        return Graph(nodes.flatten(), near, missing)


# --------------------------------------------------------------------------------------- neighbours


def alike(x: Tensor, is_real: Tensor | None) -> Callable[[slice], Tensor]:
    """Rows of the cosines between features (B, S, d), up to a map that keeps their order in a row.

    Unit vectors rank one another by their cosine as by their distance, and distances may be taken
    from the mean, where smooth features, whose cosines are all nearly 1, are told apart beyond
    rounding.
    """
    unit = functional.normalize(x.float(), dim=-1)
    if is_real is None:
        mean = unit.mean(1, keepdim=True)
    else:
        share = is_real[..., None].float()
        mean = (unit * share).sum(1, keepdim=True) / share.sum(1, keepdim=True)
    unit = unit - mean
    half = unit.square().sum(-1)[:, None] / 2  # (B, 1, S)
    return lambda rows: torch.baddbmm(half, unit[:, rows], unit.mT, beta=-1)


def close(x: Tensor) -> Callable[[slice], Tensor]:
    """Rows of minus the squared distances between places (B, S, d); of equal distances the earlier
    place is the nearer.
    """
    columns = x.float().mT  # (B, d, S)
    # beyond a float's precision
    ramp = -1 - 2.0**-52 * torch.arange(x.shape[1], device=x.device, dtype=torch.float64)

    def closeness(rows: slice) -> Tensor:
        square = sum(
            (column[:, rows, None] - column[:, None]).square_() for column in columns.unbind(1)
        )
        return square * ramp  # (B, c, S) float64

    return closeness


def neighbours(
    closeness: Callable[[slice], Tensor],
    size: int,
    slots: int,
    *,
    k: int,
    is_real: Tensor | None,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """The k closest other slots of each, (B, S, k), and whether there is none: a sample may have
    fewer slots.
    """
    wanted, found, missing = min(k, slots - 1), [], []
    for rows in blocks(slots, size * slots, device, least=MOST_ROWS):
        table = closeness(rows)  # (B, c, S)
        table.diagonal(rows.start, 1, 2).fill_(-math.inf)
        table = table if is_real is None else table.masked_fill_(~is_real[:, None], -math.inf)
        values, indices = table.topk(wanted, -1)
        found.append(indices)
        missing.append(values == -math.inf)
    return torch.cat(found, 1), torch.cat(missing, 1)


def blocks(rows: int, width: int, device: torch.device, least: int = 1) -> Iterator[slice]:
    """Slices of rows, each of so many numbers that the next step finds them in the cache."""
    step = max(least, (IN_CACHE if device.type == "cpu" else AT_ONCE) // max(width, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


# ---------------------------------------------------------------------------------------- attention


class EdgeAttention(torch.autograd.Function):
    """y_i = mean_h sum_j softmax_j(a_h . leaky(s_hj + t_hi)) s_hj over the neighbours j of i; s =
    W_0 x, t = W_1 x + b.

    By hand, because the (R*(k+1), d) numbers at the edges of a head are then made and used inside
    the cache: only s, t and the shares are kept. For the gradient, leaky(z) = c z + (1 - c) z sign
    z with c = (1 + slope) / 2, so that all it takes from the edges are weighted sums of signs; what
    c contributes at t cancels, as the gradients of a node's logits sum to 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        score: Tensor,
        near: Tensor,
        is_missing: Tensor | None,
    ) -> Tensor:
        """x (R, d), W (H, 2, d, d), b (H, d), a (H, d), near (R, k+1), is_missing (R, k+1) -> y (R,
        d).
        """
        # (H, 2, R, d)
        images = torch.bmm(x.expand(2 * len(score), -1, -1), weight.flatten(0, 1).mT).unflatten(
            0, (-1, 2)
        )
        images[:, 1] += bias[:, None]
        pairs, shares, y = (
            edge_ends(near),
            x.new_empty(len(score), *near.shape),
            torch.zeros_like(x),
        )
        for image, a, share in zip(images, score, shares, strict=True):
            for edges in blocks(len(pairs), x.shape[1], x.device):
                share.view(-1)[edges] = (
                    functional.leaky_relu_(bag(pairs[edges], image.flatten(0, 1)), SLOPE) @ a
                )
            logits = share if is_missing is None else share.masked_fill_(is_missing, -math.inf)
            share.copy_(logits.softmax(-1))  # (R, k+1)
            y += bag(near, image[0], share)
        ctx.save_for_backward(x, weight, score, near, images, shares)
        return y / len(score)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, score, near, images, shares = ctx.saved_tensors
        pairs, g, linear = edge_ends(near), (grad / len(score)).contiguous(), (1 + SLOPE) / 2
        heard = near.flatten().argsort(stable=True)  # (R*(k+1),) edges by the node that is heard
        # (R,)
        starts = torch.searchsorted(near.flatten()[heard], torch.arange(len(x), device=x.device))
        by_hearer = torch.arange(len(pairs), device=x.device).view_as(near)
        dx, dw, db, da = (
            torch.zeros_like(x),
            *(torch.empty_like(one) for one in (weight, score, score)),
        )
        signs = x.new_empty(len(pairs), x.shape[1])
        for head, (image, a, share) in enumerate(zip(images, score, shares, strict=True)):
            for edges in blocks(len(pairs), x.shape[1], x.device):
                torch.sign(bag(pairs[edges], image.flatten(0, 1)), out=signs[edges])
            d_logit = share_gradient(g, image[0], near).mul_(share)
            d_logit -= share * d_logit.sum(-1, keepdim=True)  # (R, k+1)
            d_linear = linear * x.new_zeros(len(x), 1).index_add_(
                0, near.flatten(), d_logit.view(-1, 1)
            )
            # but for the factor a
            d_source = (
                bag(heard, signs, d_logit.flatten()[heard], starts).mul_(1 - linear).add_(d_linear)
            )
            d_target = bag(by_hearer, signs, d_logit).mul_(1 - linear)
            da[head] = (image[0] * d_source + image[1] * d_target).sum(0)
            given = bag(heard // near.shape[1], g, share.flatten()[heard], starts)
            for side, d_image in enumerate((given.addcmul_(d_source, a), d_target.mul_(a))):
                dx.addmm_(d_image, weight[head, side])
                dw[head, side] = d_image.mT @ x
            db[head] = d_target.sum(0)
        return dx, dw, db, da, None, None


def bag(
    rows: Tensor, table: Tensor, weights: Tensor | None = None, starts: Tensor | None = None
) -> Tensor:
    """Sums of some rows of a table, one a line of `rows`, or one from each start to the next."""
    return functional.embedding_bag(rows, table, starts, mode="sum", per_sample_weights=weights)


def edge_ends(near: Tensor) -> Tensor:
    """Of every edge the row of s and the row of t in a table of both, (R*(k+1), 2)."""
    hearer = torch.arange(len(near), 2 * len(near), device=near.device)[:, None].expand_as(near)
    return torch.stack([near.flatten(), hearer.flatten()], 1)


def share_gradient(g: Tensor, source: Tensor, near: Tensor) -> Tensor:
    """g_i . s_j at every edge, (R, k+1): what a weighted bag has as the gradient of its weights."""
    size, edges = near.shape
    starts = torch.arange(0, size * edges, edges, device=near.device)
    owner = torch.arange(size, device=near.device).repeat_interleave(edges)
    return torch.ops.aten._embedding_bag_per_sample_weights_backward(
        g, source, near.flatten(), starts, owner, 0
    ).view_as(near)
