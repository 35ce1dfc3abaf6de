"""MGKN's kernels, and two exact forms of their sum: with a matrix for every edge, and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Sum = Callable[[Tensor], Tensor]  # v (m, S, w) -> K v (M, S, w)
CHUNK = 1 << 20  # numbers of an inner sum that are computed at once: they stay in the cache
ROWS = 512  # of it at least, so that the gradient of wide kernels is summed in few pieces


class GramSum(torch.autograd.Function):
    """y_i = sum_q (sum_j h_ijq v_j) A_q, a few targets at a time.

    Neither a matrix per edge nor all inner sums are ever in memory.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, v: Tensor, matrices: Tensor, source: Tensor) -> Tensor:
        """h (M, D, K), v (m, S, w), A (K, w, w), source (M, D) -> (M, S, w)."""
        ctx.save_for_backward(h, v, matrices, source)
        flat, y = matrices.flatten(0, 1), v.new_empty(len(h), *v.shape[1:])
        for rows in _chunks(h, v):
            y[rows] = (_inner(h[rows], _picked(v, source[rows])) @ flat).view(-1, *v.shape[1:])
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        h, v, matrices, source = ctx.saved_tensors
        (S, w), d_y, flat = v.shape[1:], d_y.to(v.dtype), matrices.flatten(0, 1)  # (K*w, w)
        d_h, d_v, d_flat = torch.empty_like(h), torch.zeros_like(v), torch.zeros_like(flat)
        for rows in _chunks(h, v):
            x, d = _picked(v, source[rows]), d_y[rows].reshape(-1, w)  # (n, D, S, w), (n*S, w)
            d_flat += _inner(h[rows], x).mT @ d
            d_s = (d @ flat.mT).view(-1, S, len(matrices), w)  # (n, S, K, w)
            d_s = d_s.transpose(1, 2).flatten(2)  # (n, K, S*w)
            d_h[rows] = x.flatten(2) @ d_s.mT
            d_x = (h[rows] @ d_s).view(-1, S, w)  # (n*D, S, w)
            d_v.index_add_(0, source[rows].flatten(), d_x.to(d_v.dtype))
        return d_h, d_v, d_flat.view_as(matrices), None


def _picked(v: Tensor, source: Tensor) -> Tensor:
    """Values at the sources, (n, D, S, w)."""
    return v.index_select(0, source.flatten()).unflatten(0, source.shape)


def _inner(h: Tensor, x: Tensor) -> Tensor:
    """sum_j h_jq v_j of some targets: (n, D, K), (n, D, S, w) -> (n*S, K*w)."""
    n, _, S, w = x.shape
    return (h.mT @ x.flatten(2)).view(n, -1, S, w).transpose(1, 2).reshape(n * S, -1)


def _chunks(h: Tensor, v: Tensor) -> list[slice]:
    """Targets that are computed together."""
    step = max(1, CHUNK // (h.shape[2] * v.shape[1] * v.shape[2]), ROWS // v.shape[1])
    return [slice(first, first + step) for first in range(0, len(h), step)]


@dataclass(eq=False)
class Shared:
    """The kernel matrices of one kind of edge, and what every use leaves for their gradient."""

    source: Tensor  # (E,)
    target: Tensor  # (E,)
    targets: int
    kernel: Tensor = field(init=False)  # (E, w, w)
    uses: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # v and dL/dy of each

    def chunks(self, v: Tensor) -> list[slice]:
        """Edges that are computed together."""
        step = max(1, CHUNK // (v.shape[2] * (v.shape[1] + v.shape[2])))
        return [slice(first, first + step) for first in range(0, len(self.source), step)]


class Hold(torch.autograd.Function):
    """rho [h, 1] and A -> a token for the kernels made of them; backward waits for all their uses.

    The kernels' own gradient is one product over all cycles, a few edges at a time, and is never
    in memory as a whole.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, matrices: Tensor, shared: Shared) -> Tensor:
        """h (E, K), A (K, w, w); sets the kernels."""
        ctx.shared = shared
        ctx.save_for_backward(h, matrices)
        shared.kernel = (h @ matrices.flatten(1)).view(-1, *matrices.shape[1:])  # (E, w, w)
        return h.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_token: Tensor) -> tuple[Tensor | None, ...]:
        (h, matrices), shared = ctx.saved_tensors, ctx.shared
        # (m, T*S, w), (M, T*S, w)
        values, slopes = (torch.cat(tensors, 1) for tensors in zip(*shared.uses, strict=True))
        shared.uses.clear()
        flat = matrices.flatten(1)  # (K, w*w)
        d_h, d_flat = torch.empty_like(h), torch.zeros_like(matrices).flatten(1)
        for rows in shared.chunks(values):
            x = values.index_select(0, shared.source[rows])  # (n, T*S, w)
            d = slopes.index_select(0, shared.target[rows])  # (n, T*S, w)
            d_kernel = (x.mT @ d).flatten(1)  # (n, w*w)
            d_h[rows] = d_kernel @ flat.mT
            d_flat += h[rows].mT @ d_kernel
        return d_h, d_flat.view_as(matrices), None


class SharedSum(torch.autograd.Function):
    """y_i = sum_j v_j k_ij with kernels that all samples and cycles share."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, v: Tensor, shared: Shared) -> Tensor:
        """v (m, S, w) -> (M, S, w)."""
        ctx.shared = shared
        ctx.save_for_backward(v)
        y = v.new_zeros(shared.targets, *v.shape[1:])
        for rows in shared.chunks(v):
            messages = v.index_select(0, shared.source[rows]) @ shared.kernel[rows]  # (n, S, w)
            y.index_add_(0, shared.target[rows], messages.to(y.dtype))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, None]:
        shared, (v,) = ctx.shared, ctx.saved_tensors
        d_y, d_v = d_y.to(v.dtype), torch.zeros_like(v)
        shared.uses.append((v, d_y))
        for rows in shared.chunks(v):
            d_x = d_y.index_select(0, shared.target[rows]) @ shared.kernel[rows].mT  # (n, S, w)
            d_v.index_add_(0, shared.source[rows], d_x.to(v.dtype))
        return d_y.new_zeros(()), d_v, None


class Kernel(nn.Module):
    """k(e) = sum_q h_q(e) A_q + A_0, h a network of `layers` layers; k = A_0 without layers."""

    def __init__(
        self, *, inputs: int, hidden: int, layers: int, width: int, is_small: bool, leak: float
    ) -> None:
        super().__init__()
        sizes = [inputs, *[hidden] * layers]
        net: list[nn.Module] = []
        for a, b in zip(sizes, sizes[1:], strict=False):
            net += [nn.Linear(a, b), nn.LeakyReLU(leak, inplace=True)]  # leak 0: ReLU
        self.net = nn.Sequential(*net)
        # A_1.., A_0
        self.matrices = nn.Parameter(torch.empty(1 + (hidden if layers else 0), width, width))
        smaller = width**-0.5 if is_small and layers else 1.0
        bound = (hidden if layers else width) ** -0.5 * smaller
        nn.init.uniform_(self.matrices, -bound, bound)

    def weighted(self, ends: Tensor, share: Tensor) -> Tensor:
        """rho [h(e), 1], (.., K + 1)."""
        if not len(self.net):
            return share[..., None]
        return functional.pad(self.net(ends), (0, 1), value=1.0) * share[..., None]

    def shared(
        self, ends: Tensor, share: Tensor, source: Tensor, target: Tensor, targets: int
    ) -> Sum:
        """The sum with one matrix per edge, computed once: ends (E, features), the rest (E,)."""
        shared = Shared(source, target, targets)
        weighted = self.weighted(ends, share).to(self.matrices.dtype)  # (E, K + 1)
        token = Hold.apply(weighted, self.matrices, shared)
        return lambda v: SharedSum.apply(token, v, shared)

    def gram(self, ends: Callable[[], Tensor], share: Tensor, source: Tensor, again: bool) -> Sum:
        """The sum without such matrices: ends (M, D, features), the rest (M, D).

        Its weights are kept or, with `again`, computed at every use.
        """
        if again and torch.is_grad_enabled():

            def use(v: Tensor) -> Tensor:
                h = self.weighted(ends(), share).to(v.dtype)  # (M, D, K + 1)
                return GramSum.apply(h, v, self.matrices, source)

            return lambda v: checkpoint(use, v, use_reentrant=False)
        h = self.weighted(ends(), share)  # (M, D, K + 1)
        return lambda v: GramSum.apply(h.to(v.dtype), v, self.matrices, source)
