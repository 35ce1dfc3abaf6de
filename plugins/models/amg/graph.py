"""The graphs of AMG: samples and details of a mesh, neighbours, attention along edges."""

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
IN_CACHE = 1 << 18  # numbers per block on a CPU: what its cache holds
AT_ONCE = 1 << 26  # numbers per block elsewhere
FIRST_TURNS = 32  # of the search for farthest points, in which nearly all points are within reach
LEAST_ROWS = 256  # per block of a table of closeness

# ----------------------------------------------------------------------------------- once per mesh


def sampled_geometry(mesh: gb.Mesh, *, coarse: float, sampled: float, local: int) -> gb.Geometry:
    """What depends on the positions of the nodes alone.

    Nodes are first sorted by their coordinates, so that ties are decided by the geometry and not by
    the numbering.
    """
    points, size = mesh.points, mesh.size
    order = np.lexsort(points.T[::-1])  # (N,) by x, then y, then z
    counts = [math.ceil(share * size) for share in (coarse, sampled)]
    # both samples are beginnings of one sequence
    far = order[farthest_points(points[order], max(counts))]
    rank = np.zeros(size, dtype=np.int64)
    rank[np.concatenate([far, order[~np.isin(order, far)]])] = np.arange(size)
    place = (points - points.min(0)) / np.ptp(points, axis=0).max()
    return {
        "detail": gb.Part(detail_operator(points, far[: counts[0]]), ("node", "node")),
        "rank": gb.Part(rank, ("node",)),  # decides ties
        "place": gb.Part(place, ("node", "axis")),
        "farthest": gb.Part(far[: counts[1]], ("sampled",), index="node"),
        "is_sampled": gb.Part(np.ones(counts[1], dtype=bool), ("sampled",)),  # no padding
        "is_local": gb.Part(np.ones(min(local, size), dtype=bool), ("local",)),
    }


def farthest_points(points: gb.Array, count: int) -> gb.Array:
    """Indices (count,): the point nearest to the centroid, then the farthest from the chosen ones.

    Choosing a point at distance r changes only the distances of points within r of it; the tree
    returns those.
    """
    tree, chosen = KDTree(points), np.empty(count, dtype=np.int64)
    distance = np.full(len(points), np.inf)  # squared, to the chosen points
    chosen[0] = np.argmin(((points - points.mean(0)) ** 2).sum(1))
    for turn in range(count - 1):
        last = chosen[turn]
        reach = math.sqrt(distance[last]) * (1 + 1e-9)
        within: Any = slice(None)
        if turn >= FIRST_TURNS:
            within = tree.query_ball_point(points[last], reach)
        to_last = ((points[within] - points[last]) ** 2).sum(1)
        distance[within] = np.minimum(distance[within], to_last)
        distance[last] = -1.0  # never twice, even where points coincide
        chosen[turn + 1] = np.argmax(distance)
    return chosen


def detail_operator(points: gb.Array, coarse: gb.Array) -> csr_array:
    """x -> x - (its interpolation from the coarse nodes), (N, N); 0 at coarse nodes."""
    fine = np.setdiff1d(np.arange(len(points)), coarse)
    among = min(INTERPOLATED, len(coarse))
    tree = KDTree(points[coarse])
    distance, closest = tree.query(points[fine], np.arange(1, among + 1))  # (F, 3)
    share = 1 / np.maximum(distance**2, NEAREST)
    share /= share.sum(1, keepdims=True)
    rows = np.concatenate([fine, np.repeat(fine, among)])
    columns = np.concatenate([fine, coarse[closest].ravel()])
    values = np.concatenate([np.ones(len(fine)), -share.ravel()])
    return csr_array((values, (rows, columns)), shape=(len(points), len(points)))


# ---------------------------------------------------------------------------------- once per batch


@dataclass(frozen=True, eq=False)
class Graph:
    """Edges among R sampled nodes of a batch, with a loop at each; other nodes have only loops."""

    nodes: Tensor  # (R,) indices among the B*N nodes
    near: Tensor  # (R, k+1) rows of `nodes`, the node itself first
    is_missing: Tensor | None  # (R, k+1) bool: no such neighbour


@dataclass(frozen=True, eq=False)
class Sites:
    """What the graphs of a batch need to know of its nodes."""

    batch: gb.Batch
    mask: Tensor | None  # (B, N, 1) 0/1
    order: Tensor  # (1 or B, N) nodes by rank, padding last
    starts: Tensor  # (B, 1) number of the first node of each sample

    @classmethod
    def of(cls, batch: gb.Batch) -> Sites:
        rank, mask = batch.geometry["rank"], batch.mask
        rank = rank if mask is None else rank.masked_fill(~mask, batch.nodes)
        starts = torch.arange(batch.size, device=rank.device)[:, None] * batch.nodes
        weights = None if mask is None else mask[..., None].to(batch.points.dtype)  # (B, N, 1)
        return cls(batch, weights, rank.argsort(1), starts)

    def local_graph(self, x: Tensor, k: int, space: Literal["place", "features"]) -> Graph:
        """Among the nodes of x (B, N, d) that coarse nodes interpolate worst."""
        detail = self.batch.apply("detail", x.float()).abs().sum(-1)  # (B, N)
        detail = detail if self.batch.mask is None else detail.masked_fill(~self.batch.mask, -1.0)
        order = self.order.expand(len(x), -1)
        is_real = self.batch.geometry["is_local"]  # (1 or B, S)
        by_detail = detail.gather(1, order).sort(dim=1, descending=True, stable=True).indices
        worst = by_detail[:, : is_real.shape[1]]  # (B, S)
        worst = worst if self.mask is None else worst.where(is_real, self.batch.nodes - 1)
        nodes = order.gather(1, worst.sort(1).values) + self.starts  # (B, S) by rank, padding last
        if space == "features":
            return self._graph(nodes, is_real, alike(self._rows(x, nodes), self._real(is_real)), k)
        place = self.batch.geometry["place"].expand(len(x), -1, -1)  # (B, N, d)
        return self._graph(nodes, is_real, close(self._rows(place, nodes)), k)

    def global_graph(self, x: Tensor, k: int) -> Graph:
        """Among the farthest points, by the features x (B, N, d)."""
        nodes, is_real = self.batch.geometry["farthest"], self.batch.geometry["is_sampled"]
        if len(nodes) < len(x):  # a shared mesh; nodes of own meshes are numbered over the batch
            nodes = nodes + self.starts  # (B, S)
        if self.mask is not None:
            nodes = nodes.where(is_real, self.starts + self.batch.nodes - 1)
        return self._graph(nodes, is_real, alike(self._rows(x, nodes), self._real(is_real)), k)

    def _rows(self, x: Tensor, nodes: Tensor) -> Tensor:
        return x.flatten(0, 1)[nodes]  # (B, S, d)

    def _real(self, is_real: Tensor) -> Tensor | None:
        return None if self.mask is None else is_real

    def _graph(
        self, nodes: Tensor, is_real: Tensor, closeness: Callable[[slice], Tensor], k: int
    ) -> Graph:
        (size, slots), device = nodes.shape, nodes.device
        real = self._real(is_real)
        closest, is_missing = neighbours(closeness, size, slots, k=k, is_real=real, device=device)
        own = torch.arange(size * slots, device=device).view(size, slots, 1)
        near = torch.cat([own, closest + own[:, :1]], -1).flatten(0, 1)  # (R, k+1)
        missing = None if self.mask is None else functional.pad(is_missing, (1, 0)).flatten(0, 1)
        return Graph(nodes.flatten(), near, missing)


# --------------------------------------------------------------------------------------- neighbours


def alike(x: Tensor, is_real: Tensor | None) -> Callable[[slice], Tensor]:
    """Rows of the cosines between features (B, S, d), up to a map that keeps their order in a row.

    Unit vectors have the same order by cosine as by distance. Distances do not change when the mean
    is subtracted, and then smooth features, whose cosines are all nearly 1, differ by more than
    rounding errors.
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
    """Rows of minus the squared distances between points (B, S, d); ties go to the first point."""
    axes = x.float().mT.unbind(1)  # each (B, S)
    # decides ties only: the steps are below the precision of a float
    ramp = -1 - 2.0**-52 * torch.arange(x.shape[1], device=x.device, dtype=torch.float64)

    def closeness(rows: slice) -> Tensor:
        square = sum((axis[:, rows, None] - axis[:, None]).square_() for axis in axes)
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
    """The k closest other slots of each, (B, S, k), and which of them are missing."""
    count, closest, missing = min(k, slots - 1), [], []
    for rows in blocks(slots, size * slots, device, least=LEAST_ROWS):
        table = closeness(rows)  # (B, c, S)
        table.diagonal(rows.start, 1, 2).fill_(-math.inf)
        table = table if is_real is None else table.masked_fill_(~is_real[:, None], -math.inf)
        values, indices = table.topk(count, -1)
        closest.append(indices)
        missing.append(values == -math.inf)
    return torch.cat(closest, 1), torch.cat(missing, 1)


def blocks(rows: int, width: int, device: torch.device, least: int = 1) -> Iterator[slice]:
    """Slices of rows that fit the cache, so that the next step reads them from there."""
    step = max(least, (IN_CACHE if device.type == "cpu" else AT_ONCE) // max(width, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


# ---------------------------------------------------------------------------------------- attention


class EdgeAttention(torch.autograd.Function):
    """y_i = mean_h sum_j softmax_j(a_h . leaky(s_hj + t_hi)) s_hj, s = W_0 x, t = W_1 x + b.

    The sum is over the neighbours j of i. With gradients by hand: the (R*(k+1), d) numbers at the
    edges of a head then stay inside the cache, and only s, t and the shares are kept. For the
    gradient, leaky(z) = c z + (1 - c) z sign z with c = (1 + slope) / 2, so that it needs only
    weighted sums of signs from the edges; what c contributes at t cancels, as the gradients of a
    node's logits sum to 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # (R, d)
        weight: Tensor,  # W (H, 2, d, d)
        bias: Tensor,  # b (H, d)
        score: Tensor,  # a (H, d)
        near: Tensor,  # (R, k+1)
        is_missing: Tensor | None,  # (R, k+1)
    ) -> Tensor:
        """y (R, d)."""
        images = torch.bmm(x.expand(2 * len(score), -1, -1), weight.flatten(0, 1).mT)
        images = images.unflatten(0, (-1, 2))  # (H, 2, R, d): s and t
        images[:, 1] += bias[:, None]
        pairs, y = edge_ends(near), torch.zeros_like(x)
        shares = x.new_empty(len(score), *near.shape)  # (H, R, k+1)
        for image, a, share in zip(images, score, shares, strict=True):
            for edges in blocks(len(pairs), x.shape[1], x.device):
                z = bag(pairs[edges], image.flatten(0, 1))  # (edges, d)
                share.view(-1)[edges] = functional.leaky_relu_(z, SLOPE) @ a
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
        by_source = near.flatten().argsort(stable=True)  # (R*(k+1),) edges by their source
        rows = torch.arange(len(x), device=x.device)
        starts = torch.searchsorted(near.flatten()[by_source], rows)  # (R,)
        by_target = torch.arange(len(pairs), device=x.device).view_as(near)
        dx, dw = torch.zeros_like(x), torch.empty_like(weight)
        db, da = torch.empty_like(score), torch.empty_like(score)
        signs = x.new_empty(len(pairs), x.shape[1])
        for head, (image, a, share) in enumerate(zip(images, score, shares, strict=True)):
            for edges in blocks(len(pairs), x.shape[1], x.device):
                torch.sign(bag(pairs[edges], image.flatten(0, 1)), out=signs[edges])
            d_logit = share_gradient(g, image[0], near).mul_(share)
            d_logit -= share * d_logit.sum(-1, keepdim=True)  # (R, k+1)
            d_linear = x.new_zeros(len(x), 1)
            d_linear = linear * d_linear.index_add_(0, near.flatten(), d_logit.view(-1, 1))
            # without the factor a
            d_source = bag(by_source, signs, d_logit.flatten()[by_source], starts)
            d_source = d_source.mul_(1 - linear).add_(d_linear)
            d_target = bag(by_target, signs, d_logit).mul_(1 - linear)
            da[head] = (image[0] * d_source + image[1] * d_target).sum(0)
            given = bag(by_source // near.shape[1], g, share.flatten()[by_source], starts)
            for side, d_image in enumerate((given.addcmul_(d_source, a), d_target.mul_(a))):
                dx.addmm_(d_image, weight[head, side])
                dw[head, side] = d_image.mT @ x
            db[head] = d_target.sum(0)
        return dx, dw, db, da, None, None


def bag(
    rows: Tensor, table: Tensor, weights: Tensor | None = None, starts: Tensor | None = None
) -> Tensor:
    """Sums of rows of a table, one per line of `rows`, or one from each start to the next."""
    return functional.embedding_bag(rows, table, starts, mode="sum", per_sample_weights=weights)


def edge_ends(near: Tensor) -> Tensor:
    """Of every edge the row of s and the row of t in a table of both, (R*(k+1), 2)."""
    target = torch.arange(len(near), 2 * len(near), device=near.device)[:, None].expand_as(near)
    return torch.stack([near.flatten(), target.flatten()], 1)


def share_gradient(g: Tensor, source: Tensor, near: Tensor) -> Tensor:
    """g_i . s_j at every edge, (R, k+1): the gradient of a weighted bag's weights."""
    size, edges = near.shape
    starts = torch.arange(0, size * edges, edges, device=near.device)
    owner = torch.arange(size, device=near.device).repeat_interleave(edges)
    backward = torch.ops.aten._embedding_bag_per_sample_weights_backward
    return backward(g, source, near.flatten(), starts, owner, 0).view_as(near)
