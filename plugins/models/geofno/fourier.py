"""Truncated Fourier transforms of Geo-FNO as real products, on a grid and at scattered points.

Coefficients have their real and imaginary parts in front, (2, B, K_1, .., K_d, C), with
k = 0..M-1, -M..-1 along every axis but the last and k = 0..M-1 along the last: the other half of a
real field's spectrum is the conjugate of this half. So v = Re(sum over k_d = 0) + 2 Re(sum over
k_d > 0), which is the inverse real FFT of the truncated spectrum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

import gsnobench as gb


def frequencies(modes: Sequence[int]) -> list[Tensor]:
    """Along each axis: both signs, but on the last axis only k >= 0."""
    sides = [torch.arange(count) for count in modes]
    return [torch.cat([k, k - len(k)]) for k in sides[:-1]] + sides[-1:]


def multiplicity(k: Tensor) -> Tensor:
    """How many terms of the whole sum a kept k of the last axis represents: 1 at 0, else 2."""
    return (1 + (k > 0).long()).to(torch.float32)


class GridFourier(nn.Module):
    """Grid values (B, s_1, .., s_d, C) <-> coefficients: rfftn and irfftn on the kept modes."""

    def __init__(self, sizes: Sequence[int], modes: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.kept = len(sizes), tuple(len(k) for k in frequencies(modes))
        for size, count in zip(sizes, modes, strict=True):
            if not 1 <= count <= (size + 1) // 2:
                raise gb.ParamError(
                    f"model.modes: {count} modes on {size} grid points; expected "
                    f"1..{(size + 1) // 2}; lower it"
                )
        for axis, (size, k) in enumerate(zip(sizes, frequencies(modes), strict=True)):
            angle = 2 * math.pi * ((k[:, None] * torch.arange(size)) % size) / size  # (K, s)
            there = torch.stack([angle.cos(), -angle.sin()])  # (2, K, s)
            back = torch.stack([angle.cos(), angle.sin()]).mT.flatten(0, 1) / size  # (2*s, K)
            if axis == self.dim - 1:  # only the real part is needed
                back = (there * multiplicity(k)[:, None] / size).flatten(0, 1).T  # (s, 2*K)
            self.register_buffer(f"there{axis}", there.flatten(0, 1), persistent=False)  # (2*K, s)
            self.register_buffer(f"back{axis}", back.contiguous(), persistent=False)

    def analyse(self, z: Tensor) -> Tensor:
        """(B, s_1, .., s_d, C) -> (2, B, K_1, .., K_d, C)."""
        pair = along(self.get_buffer(f"there{self.dim - 1}"), z, self.dim)  # (B, s_1, .., 2*K_d, C)
        c = pair.unflatten(self.dim, (2, -1)).movedim(self.dim, 0)  # (2, B, s_1, .., K_d, C)
        for axis in reversed(range(self.dim - 1)):
            c = turned(along(self.get_buffer(f"there{axis}"), c, axis + 2), axis + 2)
        return c

    def synthesise(self, c: Tensor) -> Tensor:
        """(2, B, K_1, .., K_d, C) -> (B, s_1, .., s_d, C)."""
        for axis in range(self.dim - 1):
            c = turned(along(self.get_buffer(f"back{axis}"), c, axis + 2), axis + 2)
        pair = c.movedim(0, self.dim).flatten(self.dim, self.dim + 1)  # (B, s_1, .., 2*K_d, C)
        return along(self.get_buffer(f"back{self.dim - 1}"), pair, self.dim)


def along(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """A matrix (m, s) on one axis of size s, which becomes m."""
    shape = x.shape
    y = matrix @ x.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    return y.view(*shape[:axis], matrix.shape[0], *shape[axis + 1 :])


def turned(y: Tensor, axis: int) -> Tensor:
    """The complex product from its four real ones: pairs times cosines and sines -> pairs."""
    real, imag = y.unflatten(axis, (2, -1)).unbind(0)  # (B, .., 2, m, .., C)
    (real_cos, real_sin), (imag_cos, imag_sin) = real.unbind(axis - 1), imag.unbind(axis - 1)
    return torch.stack([real_cos - imag_sin, real_sin + imag_cos])


class PointFourier(nn.Module):
    """The same sums at any points xi; a matrix has the columns cos(2 pi k.xi), -sin(2 pi k.xi)."""

    def __init__(self, modes: Sequence[int]) -> None:
        super().__init__()
        axes = frequencies(modes)
        waves = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)  # (K_1, .., K_d, d)
        waves = waves.flatten(0, -2).T.float()  # (d, K)
        self.waves: Tensor
        self.phase: Tensor
        self.share: Tensor
        doubled = 2 * math.pi * waves.repeat(1, 2)  # (d, 2*K)
        self.register_buffer("waves", doubled, persistent=False)
        # -sin is a cosine a quarter turn ahead
        phase = torch.tensor([0.0, math.pi / 2]).repeat_interleave(waves.shape[1])  # (2*K,)
        self.register_buffer("phase", phase, persistent=False)
        self.register_buffer("share", multiplicity(waves[-1]), persistent=False)  # (K,)

    def basis(self, xi: Tensor) -> Tensor:
        """(G, N, d) -> (G, N, 2*K)."""
        return torch.cos(xi @ self.waves + self.phase)

    @staticmethod
    def analyse(basis: Tensor, v: Tensor) -> Tensor:
        """Sums over the nodes of v exp(-2 pi i k.xi): (G, N, R) -> (G, 2, K, R)."""
        return (basis.mT @ v).unflatten(1, (2, -1))

    def synthesise(self, basis: Tensor, c: Tensor) -> Tensor:
        """Values at the points, without the grid's 1/(s_1 .. s_d): (G, 2, K, R) -> (G, N, R)."""
        return basis @ (c * self.share[:, None]).flatten(1, 2)


class ModeMixing(nn.Module):
    """A complex channel matrix per mode, its real part beside its imaginary part: (K, C, 2*C)."""

    def __init__(self, modes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(modes, width, 2 * width) / width**2)

    def forward(self, c: Tensor) -> Tensor:
        """(2, B, K, C) -> (2, B, K, C)."""
        _, B, K, C = c.shape
        y = torch.bmm(c.permute(2, 0, 1, 3).reshape(K, 2 * B, C), self.weight).view(K, 2, B, 2, C)
        # each (K, B, 2, C): times the real and the imaginary part of the matrix
        real, imag = y[:, 0], y[:, 1]
        pair = [real[:, :, 0] - imag[:, :, 1], real[:, :, 1] + imag[:, :, 0]]
        return torch.stack(pair).transpose(1, 2)  # (2, B, K, C)
