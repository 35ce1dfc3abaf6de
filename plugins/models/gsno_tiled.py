"""The pointwise halves of the Graph Spectral Neural Operator in tiles that fit a processor's cache.

Each tile is recomputed for the gradient, so that of a layer only its input is kept: less memory, and on a CPU less time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

Spectral = Callable[[Tensor], Tensor]
gelu_backward = torch.ops.aten.gelu_backward


def tiles(v: Tensor, size: int, inner: float) -> Iterator[tuple[int, slice]]:
    """Mesh and nodes of every tile of a latent (G, N, columns); a tile and `inner` tensors like it hold about `size` numbers."""
    nodes = max(1, int(size / (1 + inner)) // v.shape[2])
    for mesh in range(v.shape[0]):
        for first in range(0, v.shape[1], nodes):
            yield mesh, slice(first, first + nodes)


class TiledLayer(torch.autograd.Function):
    """h = GELU(W v + b + Phi y) with y = spectral(analysis v); with an outer map O, d the result is v + O h + d, else h."""

    @staticmethod
    def forward(
        ctx: Any,
        spectral: Spectral,
        size: int,
        phi: Tensor,  # (G, N, K)
        analysis: Tensor,  # (G, k, N)
        v: Tensor,  # (G, N, columns)
        *weights: Tensor | None,  # W, b, O, d, then those of `spectral`
    ) -> Tensor:
        with torch.enable_grad():  # the coefficients are few: their graph is kept, not recomputed
            c = (analysis @ v.detach()).requires_grad_()  # (G, k, columns)
            y = spectral(c)  # (G, K, columns)
        local, bias, outer, shift = weights[:4]
        rows, columns, u = _with_bias(phi, 1.0), _with_bias(y.detach().mT, bias).mT, torch.empty_like(v)
        for g, at in tiles(v, size, inner=2):
            z = _before(v[g, at], rows[g, at], columns[g], local)  # (n, columns)
            h = torch.ops.aten.gelu.out(z, out=u[g, at])
            if outer is not None:
                u[g, at] = v[g, at] + functional.linear(h.view(-1, outer.shape[1]), outer, shift).view_as(h)
        ctx.size, ctx.small = size, (c, y)
        ctx.save_for_backward(rows, columns, analysis, v, *weights)
        return u

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, analysis, v, local, bias, outer, shift, *inner = ctx.saved_tensors
        c, y = ctx.small
        d_local, d_outer, d_shift = (None if one is None else torch.zeros_like(one) for one in (local, outer, shift))
        dv, dy = torch.empty_like(v), torch.zeros_like(columns)  # (G, N, columns), (G, K + 1, columns)
        for g, at in tiles(v, ctx.size, inner=2):
            z, dz = _before(v[g, at], rows[g, at], columns[g], local), grad[g, at]  # (n, columns)
            if outer is not None and d_outer is not None and d_shift is not None:
                above = dz.reshape(-1, outer.shape[0])  # (n*S*T, C)
                d_outer.addmm_(above.T, functional.gelu(z).view_as(above))
                d_shift.add_(above.sum(0))
                dz = (above @ outer).view_as(z)
            dz = gelu_backward(dz, z)
            dy[g].addmm_(rows[g, at].T, dz)
            if local is None or d_local is None:
                dv[g, at] = 0
            else:
                flat = dz.view(-1, local.shape[0])  # (n*S*T, C)
                d_local.addmm_(flat.T, v[g, at].view(-1, local.shape[1]))
                torch.mm(flat, local, out=dv[g, at].view(-1, local.shape[1]))
            if outer is not None:
                dv[g, at] += grad[g, at]
        d_bias = None if bias is None else dy[:, -1].reshape(-1, len(bias)).sum(0)
        dc, *others = torch.autograd.grad(y, [c, *inner], dy[:, : y.shape[1]])
        return None, None, None, None, dv.baddbmm_(analysis.mT, dc), d_local, d_bias, d_outer, d_shift, *others


def _with_bias(x: Tensor, bias: Tensor | float | None) -> Tensor:
    """One more column, (..., n, K) -> (..., n, K + 1): the bias rides on the product with the modes, which saves a pass."""
    column = x.new_zeros(x.shape[-2]) if bias is None else x.new_ones(x.shape[-2] // _length(bias), 1) * bias
    return torch.cat([x, column.reshape(-1, 1).expand(*x.shape[:-1], 1)], -1)


def _length(bias: Tensor | float) -> int:
    return len(bias) if isinstance(bias, Tensor) else 1


def _before(v: Tensor, rows: Tensor, columns: Tensor, local: Tensor | None) -> Tensor:
    """W v + b + Phi y on some nodes of one mesh, (n, columns)."""
    if local is None:
        return rows @ columns
    return (v.view(-1, local.shape[1]) @ local.T).view_as(v).addmm_(rows, columns)


class TiledHead(torch.autograd.Function):
    """W2 GELU(W1 v + b1) + b2 on the first `kept` of T steps: (G, N, S*T*C) -> (G, N, S*kept*D)."""

    @staticmethod
    def forward(ctx: Any, size: int, steps: int, kept: int, v: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
        ctx.plan = size, steps, kept
        ctx.save_for_backward(v, W1, b1, W2)
        G, N, columns = v.shape
        y = v.new_empty((G, N, columns // W1.shape[1] // steps * kept * W2.shape[0]))  # (G, N, S*kept*D)
        for g, at in tiles(v, size, inner=2 * W1.shape[0] / W1.shape[1]):
            h = functional.gelu(functional.linear(_rows(v[g, at], steps, kept, W1), W1, b1))  # (n*S*kept, hidden)
            y[g, at] = functional.linear(h, W2, b2).view(-1, y.shape[2])
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        v, W1, b1, W2 = ctx.saved_tensors
        size, steps, kept = ctx.plan
        dv, dW1, db1, dW2, db2 = torch.zeros_like(v), *(torch.zeros_like(one) for one in (W1, b1, W2, W2[:, 0]))
        for g, at in tiles(v, size, inner=2 * W1.shape[0] / W1.shape[1]):
            x, above = _rows(v[g, at], steps, kept, W1), grad[g, at].reshape(-1, W2.shape[0])
            z = functional.linear(x, W1, b1)  # (n*S*kept, hidden)
            dW2.addmm_(above.T, functional.gelu(z))
            db2.add_(above.sum(0))
            dz = gelu_backward(above @ W2, z)
            dW1.addmm_(dz.T, x)
            db1.add_(dz.sum(0))
            shape = (-1, steps, W1.shape[1])
            dv[g, at].view(shape)[:, :kept] = (dz @ W1).view(-1, kept, W1.shape[1])
        return None, None, None, dv, dW1, db1, dW2, db2


def _rows(v: Tensor, steps: int, kept: int, W: Tensor) -> Tensor:
    """The kept steps of some nodes as rows of channels: (n, S*T*C) -> (n*S*kept, C)."""
    return v.view(-1, steps, W.shape[1])[:, :kept].reshape(-1, W.shape[1])
