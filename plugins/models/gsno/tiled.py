"""The fast path of the Graph Spectral Neural Operator: layers and head in tiles of nodes.

`layer` and `head` compute what `Layer.forward` and `Gsno.projected` compute, in tiles that fit a
processor's cache and with gradients of their own. What the gradient needs of a tile is either kept,
which is fastest, or computed again, which needs about a third of the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gsnobench_plugins.models.gsno.gelu import activate

if TYPE_CHECKING:
    from gsnobench_plugins.models.gsno.model import Gsno, Layer

CACHE = 1 << 19  # numbers that a processor's cache holds: 2 MB
KEPT = 1 << 25  # numbers of a latent beyond which fresh memory costs more than computing again


@dataclass(frozen=True)
class Tiling:
    """How many numbers a tile and all that is made of it may hold, and whether that is kept."""

    size: int
    keep: bool  # for the gradient

    def tiles(self, v: Tensor, inner: float) -> Iterator[tuple[int, slice]]:
        """Mesh and nodes of every tile of a latent (G, N, columns).

        `inner` is how many further tensors like the tile are made of it.
        """
        nodes = max(1, int(self.size / (1 + inner)) // v.shape[2])
        for mesh in range(v.shape[0]):
            for first in range(0, v.shape[1], nodes):
                yield mesh, slice(first, first + nodes)


def choose(v: Tensor, tile: int) -> Tiling | None:
    """The tiles of a latent, None for the plain path; `tile` is the knob of that name.

    Tiles pay where a latent overflows a processor's cache. Autocast and compilers need the plain
    path.
    """
    kind, size = v.device.type, v.numel()
    cast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    if tile < 0 or cast or torch.compiler.is_compiling():
        return None
    if tile:
        return Tiling(tile, keep=False)
    keep = size < KEPT and torch.is_grad_enabled()
    return Tiling(CACHE, keep) if kind == "cpu" and size > CACHE else None


def layer(
    layer: Layer,
    v: Tensor,
    c: Tensor,
    mesh: Mapping[str, Tensor],
    dual: Tensor | None,
    *,
    tiling: Tiling,
) -> tuple[Tensor, Tensor | None]:
    """`Layer.forward` in tiles."""
    phi, y = mesh["modes"], layer.spectral(c, mesh["level"])  # (G, N, K), (G, K, S*T*C)
    weight, bias = _affine(layer.local)
    if bias is not None:  # as the coefficients of one more mode, the constant: saves a pass
        G, N, _ = phi.shape
        phi = torch.cat([phi, phi.new_ones(1, 1, 1).expand(G, N, 1)], 2)  # (G, N, K + 1)
        row = bias.repeat(y.shape[2] // len(bias)).expand(G, 1, -1)  # (G, 1, S*T*C)
        y = torch.cat([y, row], 1)  # (G, K + 1, S*T*C)
    return TiledLayer.apply(tiling, phi, dual, v, y, weight, *_affine(layer.out))


def head(model: Gsno, v: Tensor, *, tiling: Tiling) -> Tensor:
    """`Gsno.projected` in tiles."""
    frames = (model.steps, min(model.steps, model.task.t_out))
    return TiledHead.apply(tiling, frames, v, *_affine(model.head), *_affine(model.last))


def _affine(part: nn.Linear | None) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if part is None else (part.weight, part.bias)


class TiledLayer(torch.autograd.Function):
    """h = GELU(W v + Phi y), u = h or, with an outer map (O, d), u = v + O h + d.

    Returns u and its coefficients dual^T u for the next layer: they and their part of the gradient
    are computed while a tile is in the cache.
    """

    @staticmethod
    def forward(
        ctx: Any,
        tiling: Tiling,
        phi: Tensor,  # (G, N, K)
        dual: Tensor | None,  # (G, N, k); None: no coefficients
        v: Tensor,  # (G, N, columns)
        y: Tensor,  # (G, K, columns)
        local: Tensor | None,  # (C, C)
        outer: Tensor | None,  # (C, C)
        shift: Tensor | None,  # (C,)
    ) -> tuple[Tensor, Tensor | None]:
        u = torch.empty_like(v)  # (G, N, columns)
        c = None  # (G, k, columns)
        if dual is not None:
            c = v.new_zeros(v.shape[0], dual.shape[2], v.shape[2])
        kept: list[tuple[Tensor, Tensor | None]] = []
        for g, at in tiling.tiles(v, inner=2):
            h = u[g, at] if outer is None else torch.empty_like(v[g, at])  # (n, columns)
            slope = activate(_before(h, v[g, at], phi[g, at], y[g], local))  # (n, columns)
            if outer is not None:
                mapped = functional.linear(_rows(h, outer), outer, shift).view_as(h)
                torch.add(v[g, at], mapped, out=u[g, at])
            if c is not None and dual is not None:
                c[g].addmm_(dual[g, at].T, u[g, at])
            if tiling.keep:
                # h = u would be a cycle of references
                kept.append((slope, None if outer is None else h))
        ctx.set_materialize_grads(False)
        ctx.tiling, ctx.kept = tiling, kept
        ctx.save_for_backward(phi, dual, v, y, local, outer, shift)
        return u, c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, du: Tensor, dc: Tensor | None) -> tuple[Tensor | None, ...]:
        phi, dual, v, y, local, outer, shift = ctx.saved_tensors
        d_local, d_outer, d_shift = (_sum(weight) for weight in (local, outer, shift))
        dv, dy = torch.empty_like(v), torch.zeros_like(y)  # (G, N, columns), (G, K, columns)
        for i, (g, at) in enumerate(ctx.tiling.tiles(v, inner=2)):
            # (n, columns)
            above = du[g, at].clone() if dc is None else torch.addmm(du[g, at], dual[g, at], dc[g])
            if ctx.kept:
                slope, h = ctx.kept[i]
            else:
                h = _before(torch.empty_like(above), v[g, at], phi[g, at], y[g], local)
                slope = activate(h)
            dh = above
            if outer is not None:
                rows = _rows(above, outer)  # (n*S*T, C)
                d_outer.addmm_(rows.T, _rows(h, outer))
                d_shift.add_(rows.sum(0))
                dh = (rows @ outer).view_as(above)
            dz = dh.mul_(slope)  # (n, columns)
            dy[g].addmm_(phi[g, at].T, dz)
            if local is None:
                dv[g, at] = 0
            else:
                d_local.addmm_(_rows(dz, local).T, _rows(v[g, at], local))
                torch.mm(_rows(dz, local), local, out=_rows(dv[g, at], local))
            if outer is not None:
                dv[g, at] += above
        return None, None, None, dv, dy, d_local, d_outer, d_shift


def _sum(weight: Tensor | None) -> Any:
    """Zeros in which the gradient of a weight is summed, if there is such a weight."""
    return None if weight is None else torch.zeros_like(weight)


def _rows(x: Tensor, weight: Tensor) -> Tensor:
    """Values at every node, sample and step as rows of channels: (n, S*T*C) -> (n*S*T, C)."""
    return x.view(-1, weight.shape[1])


def _before(out: Tensor, v: Tensor, phi: Tensor, y: Tensor, local: Tensor | None) -> Tensor:
    """W v + Phi y on some nodes of one mesh, (n, columns)."""
    if local is None:
        return torch.mm(phi, y, out=out)
    torch.mm(_rows(v, local), local.T, out=_rows(out, local))
    return out.addmm_(phi, y)


class TiledHead(torch.autograd.Function):
    """W2 GELU(W1 v + b1) + b2 on the first `used` of T steps: (G, N, S*T*C) -> (G, N, S*used*D)."""

    @staticmethod
    def forward(
        ctx: Any,
        tiling: Tiling,
        frames: tuple[int, int],  # T, used
        v: Tensor,  # (G, N, S*T*C)
        W1: Tensor,  # (hidden, C)
        b1: Tensor,  # (hidden,)
        W2: Tensor,  # (D, hidden)
        b2: Tensor,  # (D,)
    ) -> Tensor:
        steps, used = frames
        G, N, columns = v.shape
        samples = columns // W1.shape[1] // steps  # S
        y = v.new_empty((G, N, samples * used * W2.shape[0]))  # (G, N, S*used*D)
        kept: list[tuple[Tensor, Tensor]] = []
        for g, at in tiling.tiles(v, inner=2 * W1.shape[0] / W1.shape[1]):
            h = functional.linear(_used(v[g, at], frames, W1), W1, b1)  # (n*S*used, hidden)
            slope = activate(h)
            y[g, at] = functional.linear(h, W2, b2).view(-1, y.shape[2])
            if tiling.keep:
                kept.append((h, slope))
        ctx.tiling, ctx.frames, ctx.kept = tiling, frames, kept
        ctx.save_for_backward(v, W1, b1, W2)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        v, W1, b1, W2 = ctx.saved_tensors
        steps, used = ctx.frames
        dv = torch.empty_like(v)  # (G, N, S*T*C)
        dW1, db1 = W1.new_zeros(W1.T.shape), torch.zeros_like(b1)
        dW2, db2 = torch.zeros_like(W2), torch.zeros_like(W2[:, 0])
        for i, (g, at) in enumerate(ctx.tiling.tiles(v, inner=2 * W1.shape[0] / W1.shape[1])):
            x, above = _used(v[g, at], ctx.frames, W1), grad[g, at].reshape(-1, W2.shape[0])
            if ctx.kept:
                h, slope = ctx.kept[i]
            else:
                h = functional.linear(x, W1, b1)  # (n*S*used, hidden)
                slope = activate(h)
            dW2.add_(above.T @ h)  # a sum of sums: one running sum over all nodes loses two digits
            db2.add_(above.sum(0))
            dz = (above @ W2).mul_(slope)  # (n*S*used, hidden)
            dW1.addmm_(x.T, dz)
            db1.add_(dz.sum(0))
            below = dv[g, at].view(-1, steps, W1.shape[1])
            below[:, :used] = (dz @ W1).view(-1, used, W1.shape[1])
            below[:, used:] = 0
        return None, None, dv, dW1.T, db1, dW2, db2


def _used(v: Tensor, frames: tuple[int, int], W: Tensor) -> Tensor:
    """The used steps as rows of channels: (n, S*T*C) -> (n*S*used, C)."""
    steps, used = frames
    return v.view(-1, steps, W.shape[1])[:, :used].reshape(-1, W.shape[1])
