"""Geo-FNO's transforms: on a grid they are the truncated FFT, at scattered points the same sums."""

from __future__ import annotations

import math

import pytest
import torch
from kept_modes import kept_of
from torch import Tensor

import gsnobench as gb
from gsnobench_plugins.models.geofno.fourier import GridFourier, ModeMixing, PointFourier


def as_complex(pair: Tensor) -> Tensor:
    return torch.complex(pair[0], pair[1])


CASES = [((9,), (4,)), ((8, 10), (4, 3)), ((7, 6, 8), (2, 3, 4))]


@pytest.mark.parametrize(("sizes", "modes"), CASES)
def test_grid_transforms_are_the_truncated_real_fft(
    sizes: tuple[int, ...], modes: tuple[int, ...]
) -> None:
    fourier, axes = GridFourier(sizes, modes).double(), tuple(range(1, len(sizes) + 1))
    z = torch.randn(2, *sizes, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    c = fourier.analyse(z)
    full = torch.fft.rfftn(z, dim=axes)
    torch.testing.assert_close(
        as_complex(c), kept_of(full, modes), rtol=0, atol=1e-6 * float(full.abs().max())
    )
    # not the spectrum of a real field
    y = torch.randn(c.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    spectrum = torch.zeros_like(full)
    indices = [
        torch.cat([torch.arange(m), torch.arange(s - m, s)])
        for s, m in zip(sizes[:-1], modes[:-1], strict=True)
    ]
    index = torch.meshgrid(*indices, torch.arange(modes[-1]), indexing="ij")
    spectrum[(slice(None), *index)] = as_complex(y)
    torch.testing.assert_close(
        fourier.synthesise(y), torch.fft.irfftn(spectrum, s=sizes, dim=axes), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(("sizes", "modes"), CASES)
def test_points_on_the_grid_give_the_grid_transforms(
    sizes: tuple[int, ...], modes: tuple[int, ...]
) -> None:
    grid, points = GridFourier(sizes, modes), PointFourier(modes)
    axes = [torch.arange(size) / size for size in sizes]
    xi = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(1, -1, len(sizes))
    basis = points.basis(xi)
    z = torch.randn(1, *sizes, 3, generator=torch.Generator().manual_seed(0))
    c = grid.analyse(z)  # (2, 1, K_1, .., K_d, 3)
    result = points.analyse(basis, z.reshape(1, -1, 3))[0]  # (2, K, 3)
    scale = float(c.abs().max())
    torch.testing.assert_close(result, c[:, 0].flatten(1, -2), rtol=0, atol=1e-5 * scale)
    y = torch.randn(c.shape, generator=torch.Generator().manual_seed(1))
    values = points.synthesise(basis, y[:, 0].flatten(1, -2)[None]).reshape(1, *sizes, 3)
    torch.testing.assert_close(values, grid.synthesise(y) * math.prod(sizes), rtol=0, atol=1e-4)


def test_a_shift_of_the_points_turns_the_coefficients() -> None:
    points, draw = PointFourier((3, 3)).double(), torch.Generator().manual_seed(0)
    xi = torch.rand(1, 20, 2, generator=draw, dtype=torch.float64)
    v = torch.randn(1, 20, 1, generator=draw, dtype=torch.float64)
    shift = torch.tensor([0.3, -0.1], dtype=torch.float64)
    # (K, 1)
    before, after = (as_complex(points.analyse(points.basis(at), v)[0]) for at in (xi, xi + shift))
    angle = shift @ points.waves[:, : len(before)]
    torch.testing.assert_close(after, before * torch.exp(-1j * angle)[:, None], rtol=0, atol=1e-5)


def test_mixing_is_a_complex_product() -> None:
    mixing = ModeMixing(5, 4)
    c = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    matrices = torch.complex(*mixing.weight.detach().split(4, -1))  # (K, C, C)
    expected = torch.einsum("bkc,kcd->bkd", as_complex(c), matrices)
    torch.testing.assert_close(as_complex(mixing(c).detach()), expected, rtol=1e-5, atol=1e-6)


def test_band_limited_fields_pass_both_mesh_layers_unchanged() -> None:
    size, modes = 8, 3
    grid, points = GridFourier((size, size), (modes, modes)), PointFourier((modes, modes))
    axis = torch.arange(size) / size
    xi = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(1, -1, 2)
    x, y = xi[0].T
    v = (1 + torch.cos(2 * math.pi * (2 * x - y)) + torch.sin(2 * math.pi * 2 * y)).reshape(
        1, -1, 1
    )
    basis = points.basis(xi)
    onto = points.analyse(basis, v).movedim(1, 0).unflatten(2, grid.kept)  # (2, 1, K_1, K_2, 1)
    z = grid.synthesise(onto)
    torch.testing.assert_close(z.reshape(v.shape), v, rtol=0, atol=1e-5)
    again = points.synthesise(basis, grid.analyse(z)[:, 0].flatten(1, -2)[None])
    torch.testing.assert_close(again, size**2 * v, rtol=0, atol=1e-3)


def test_more_modes_than_the_grid_carries_is_an_error() -> None:
    with pytest.raises(gb.ParamError, match="modes"):
        GridFourier((8, 8), (5, 3))
