"""The field codec of CORAL: a network of sines over coordinates, and gradient steps to a code.

f(x; z): y_1 = sin(w0 (W_1 x + s_1)), y_l = sin(w0 (W_l y_{l-1} + s_l)), f = W_D y_{D-1} + b_D,
with shifts s_l = b_l + c_l + V_l z. Encoding starts at z = 0 and makes K steps
z <- z - alpha grad_z MSE. Since z acts only through the shifts, the gradient is V^T g,
g_l = w0 sum_n delta_l. It is written out here: the inner loop needs no autograd, and training needs
one backward pass, not two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

INNER_RATE = 0.01  # alpha at the start
# numbers in one hidden layer of the rows computed together: what a core's cache holds
CHUNK = {"cpu": 2**18}
CHUNK_ELSEWHERE = 2**26


def row_chunks(rows: int, size: int, device: torch.device) -> Iterator[slice]:
    """Rows in groups whose hidden layers (`size` numbers per row) stay in the cache."""
    step = max(1, CHUNK.get(device.type, CHUNK_ELSEWHERE) // size)
    yield from (slice(first, first + step) for first in range(0, rows, step))


def rows_of(values: Tensor, rows: slice) -> Tensor:
    """These rows of a tensor; a single row belongs to all."""
    return values if len(values) == 1 else values[rows]


# --------------------------------------------------------------------------- gradient by the shifts


class Net:
    """The matrices w0 W_l and W_D, and the former transposed.

    They are transposed once, since a product with a contiguous matrix is a fifth faster.
    """

    def __init__(self, last: Tensor, hidden: Sequence[Tensor]) -> None:
        self.last, self.hidden = last, hidden
        self.up = [matrix.mT.contiguous() for matrix in hidden]


class Sweep:
    """One pass of some rows up (layers y, cosines k, residual r) and down (e, d = k e).

    e and d are the gradients by y and by the shifts.
    """

    def __init__(self, net: Net, angle: Tensor, shifts: Tensor, target: Tensor) -> None:
        """angle (1 or R, N, h), shifts (R, L, h), target (R, N, c)."""
        self.net = net
        self.y: list[Tensor] = []
        self.k: list[Tensor] = []
        for layer in range(len(net.up) + 1):
            if layer:
                p = (self.y[-1] @ net.up[layer - 1]).add_(shifts[:, layer, None])  # (R, N, h)
            else:
                p = angle + shifts[:, :1]  # (R, N, h)
            self.y.append(p.sin())
            self.k.append(p.cos_())
        self.r = functional.linear(self.y[-1], net.last) - target  # (R, N, c)

    def fall(self, weight: Tensor) -> Tensor:
        """Gradient of the sum of weight/2 r^2 by the shifts, (R, L, h).

        From here on r is the gradient by the output.
        """
        self.r = self.r * weight
        self.e = [self.r @ self.net.last]  # last layer first
        self.d = [self.k[-1] * self.e[0]]
        for k, matrix in zip(self.k[-2::-1], self.net.hidden[::-1], strict=True):
            self.e.append(self.d[-1] @ matrix)
            self.d.append(k * self.e[-1])
        self.e.reverse()
        self.d.reverse()
        return torch.stack([d.sum(1) for d in self.d], 1)


class Totals:
    """Gradients by every input of the functions below, summed chunk by chunk."""

    def __init__(
        self, angle: Tensor, shifts: Tensor, target: Tensor, last: Tensor, hidden: Sequence[Tensor]
    ) -> None:
        self.angle = torch.zeros_like(angle)
        self.shifts, self.target = torch.empty_like(shifts), torch.empty_like(target)
        self.last = torch.zeros_like(last)
        self.hidden = [torch.zeros_like(matrix) for matrix in hidden]

    def add_angle(self, rows: slice, d: Tensor) -> None:
        if len(self.angle) == 1:
            self.angle += d.sum(0)
        else:
            self.angle[rows] = d

    def all(self) -> tuple[Tensor | None, ...]:
        return self.angle, self.shifts, self.target, None, self.last, *self.hidden


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += sum over rows and nodes of a^T b."""
    total.addmm_(a.flatten(0, 1).mT, b.flatten(0, 1))


class Pull(torch.autograd.Function):
    """The gradient g of the loss by the shifts.

    Its own gradient, for a direction v, is that of the slope of the loss along v: a tangent pass up
    (p', y') and one down (e', d'), so that it costs twice as much as g itself.
    """

    @staticmethod
    def forward(
        ctx: Any,
        recompute: bool,
        angle: Tensor,  # w0 W_1 x (1 or R, N, h)
        shifts: Tensor,  # (R, L, h)
        target: Tensor,  # (R, N, c)
        weight: Tensor,  # (1 or R, N, 1 or c)
        last: Tensor,
        *hidden: Tensor,
    ) -> Tensor:
        """g (R, L, h)."""
        ctx.save_for_backward(angle, shifts, target, weight, last, *hidden)
        net, gradients = Net(last, hidden), []
        ctx.kept = [] if any(ctx.needs_input_grad) and not recompute else None
        for rows in row_chunks(len(shifts), angle[0].numel(), angle.device):
            sweep = Sweep(net, rows_of(angle, rows), shifts[rows], target[rows])
            gradients.append(sweep.fall(rows_of(weight, rows)))
            if ctx.kept is not None:
                ctx.kept.append(sweep)
        return torch.cat(gradients)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor | None, ...]:
        angle, shifts, target, weight, last, *hidden = ctx.saved_tensors
        net, totals = Net(last, hidden), Totals(angle, shifts, target, last, hidden)
        for index, rows in enumerate(row_chunks(len(shifts), angle[0].numel(), angle.device)):
            if ctx.kept is None:
                sweep = Sweep(net, rows_of(angle, rows), shifts[rows], target[rows])
                sweep.fall(rows_of(weight, rows))
            else:
                sweep, ctx.kept[index] = ctx.kept[index], None
            Pull.along(sweep, direction[rows], rows_of(weight, rows), rows, totals)
        ctx.kept = None
        return None, *totals.all()

    @staticmethod
    def along(s: Sweep, v: Tensor, weight: Tensor, rows: slice, totals: Totals) -> None:
        """Add the gradients for some rows and their direction v (R, L, h)."""
        # y' = k p' and y p', (R, N, h) each
        net, speeds, turns = s.net, [s.k[0] * v[:, :1]], [s.y[0] * v[:, :1]]
        for layer, matrix in enumerate(net.up, 1):
            p = (speeds[-1] @ matrix).add_(v[:, layer, None])
            speeds.append(s.k[layer] * p)
            turns.append(p.mul_(s.y[layer]))
        r = functional.linear(speeds[-1], net.last) * weight  # r' (R, N, c)
        totals.target[rows] = -r
        add_product(totals.last, r, s.y[-1])
        add_product(totals.last, s.r, speeds[-1])
        e = r @ net.last
        for layer in range(len(net.hidden), -1, -1):
            # d' = k e' - y p' e
            d = e.mul_(s.k[layer]).addcmul_(turns[layer], s.e[layer], value=-1)
            totals.shifts[rows, layer] = d.sum(1)
            if layer:
                add_product(totals.hidden[layer - 1], d, s.y[layer - 1])
                add_product(totals.hidden[layer - 1], s.d[layer], speeds[layer - 1])
                e = d @ net.hidden[layer - 1]
        totals.add_angle(rows, d)


class Misfit(torch.autograd.Function):
    """The loss: sum over nodes and channels of weight/2 (f - target)^2 of every row, (R,)."""

    @staticmethod
    def forward(
        ctx: Any,
        angle: Tensor,
        shifts: Tensor,
        target: Tensor,
        weight: Tensor,
        last: Tensor,
        *hidden: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(angle, shifts, target, weight, last, *hidden)
        net, ctx.kept, losses = Net(last, hidden), [], []
        for rows in row_chunks(len(shifts), angle[0].numel(), angle.device):
            sweep = Sweep(net, rows_of(angle, rows), shifts[rows], target[rows])
            losses.append((sweep.r.square() * rows_of(weight, rows)).sum((1, 2)) / 2)
            if any(ctx.needs_input_grad):
                ctx.kept.append(sweep)
        return torch.cat(losses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        angle, shifts, target, weight, last, *hidden = ctx.saved_tensors
        totals = Totals(angle, shifts, target, last, hidden)
        for index, rows in enumerate(row_chunks(len(shifts), angle[0].numel(), angle.device)):
            s, ctx.kept[index] = ctx.kept[index], None
            totals.shifts[rows] = s.fall(rows_of(weight, rows) * above[rows, None, None])
            totals.target[rows] = -s.r
            add_product(totals.last, s.r, s.y[-1])
            for layer, total in enumerate(totals.hidden, 1):
                add_product(total, s.d[layer], s.y[layer - 1])
            totals.add_angle(rows, s.d[0])
        return totals.all()


def first_pull(
    angle: Tensor,
    shifts: Tensor,  # (L, h)
    target: Tensor,
    weight: Tensor,
    last: Tensor,
    hidden: Sequence[Tensor],
) -> Tensor:
    """g at z = 0 on one mesh, (R, L, h): all rows share network and Jacobian, residuals differ."""
    angles = [angle[0] + shifts[0]]  # (N, h)
    for layer, matrix in enumerate(hidden, 1):
        angles.append(functional.linear(angles[-1].sin(), matrix, shifts[layer]))
    r = (functional.linear(angles[-1].sin(), last) - target) * weight  # (R, N, c)
    slope = angles[-1].cos() * last[:, None]  # (c, N, h): of channel c by the shift at node n
    slopes = [slope]
    for below, matrix in zip(angles[-2::-1], hidden[::-1], strict=True):
        slope = (slope @ matrix) * below.cos()
        slopes.append(slope)
    r = r.permute(0, 2, 1).flatten(1)  # (R, c*N)
    return torch.stack([r @ slope.flatten(0, 1) for slope in slopes[::-1]], 1)


# ---------------------------------------------------------------------------------------- the codec


class Siren(nn.Module):
    """f(x; z) with D layers of h channels, shifted by a code of dz numbers; alpha: inner rate."""

    def __init__(
        self,
        dim: int,
        channels: int,
        *,
        depth: int,
        width: int,
        latent: int,
        w0: float,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.w0, self.recompute = w0, recompute
        self.first = nn.Linear(dim, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth - 2))
        self.last = nn.Linear(width, channels)
        self.shift = nn.Linear(latent, width * (depth - 1))
        self.alpha = nn.Parameter(torch.tensor(INNER_RATE))
        for part in (*self.linears(), self.last):
            bound = 1 / dim if part is self.first else math.sqrt(6 / width) / w0
            nn.init.uniform_(part.weight, -bound, bound)
            nn.init.uniform_(part.bias, -bound, bound)

    def linears(self) -> list[nn.Linear]:
        """The maps in front of a sine."""
        return [self.first, *(layer for layer in self.hidden if isinstance(layer, nn.Linear))]

    def matrices(self) -> list[Tensor]:
        """w0 W_l of the hidden layers."""
        return [self.w0 * layer.weight for layer in self.linears()[1:]]

    def angle(self, x: Tensor) -> Tensor:
        """w0 W_1 x, (1 or R, N, h)."""
        return functional.linear(x, self.w0 * self.first.weight)

    def shifts(self, z: Tensor) -> Tensor:
        """w0 (b_l + c_l + V_l z), (R, L, h)."""
        bias = torch.cat([layer.bias for layer in self.linears()])
        shifts = functional.linear(z, self.shift.weight, self.shift.bias + bias)  # (R, L*h)
        return self.w0 * shifts.unflatten(1, (-1, len(self.first.bias)))

    def encode(self, x: Tensor, values: Tensor, weight: Tensor, steps: int) -> Tensor:
        """Codes (R, dz) of fields (R, N, c) at nodes x (1 or R, N, d).

        weight (1 or R, N, 1 or c) sums to 1 over a row.
        """
        z = values.new_zeros(len(values), self.shift.in_features)
        angle, matrices, target = self.angle(x), self.matrices(), values - self.last.bias
        given = target, 2 * weight, self.last.weight
        for step in range(steps):
            if step == 0 and len(x) == 1 and values.shape[2] < len(values):
                g = first_pull(angle, self.shifts(z[:1])[0], *given, matrices)
            else:
                g = Pull.apply(self.recompute, angle, self.shifts(z), *given, *matrices)
            z = z - self.alpha * self.w0 * (g.flatten(1) @ self.shift.weight)
        return z

    def decode(self, x: Tensor, z: Tensor) -> Tensor:
        """f(x; z): nodes (1 or R, N, d), codes (R, dz) -> (R, N, c)."""
        angle, matrices, shifts = self.angle(x), self.matrices(), self.shifts(z)
        results = []
        for rows in row_chunks(len(z), angle[0].numel(), z.device):
            y = (rows_of(angle, rows) + shifts[rows, :1]).sin()
            for layer, matrix in enumerate(matrices, 1):
                y = (functional.linear(y, matrix) + shifts[rows, layer, None]).sin()
            results.append(self.last(y))
        return torch.cat(results)

    def misfit(self, x: Tensor, values: Tensor, weight: Tensor, steps: int) -> Tensor:
        """Mean squared error of every row after encoding it, (R,); differentiates the steps too."""
        z = self.encode(x, values, weight, steps)
        network = self.angle(x), self.shifts(z)
        given = values - self.last.bias, 2 * weight, self.last.weight
        return Misfit.apply(*network, *given, *self.matrices())
