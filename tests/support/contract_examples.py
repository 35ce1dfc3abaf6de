"""A dataset and a metric that keep the contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

import gsnobench as gb

CORNERS = (0, 1, 3, 4)
CELLS = np.array([[i, i + 3, i + 4] for i in CORNERS] + [[i, i + 4, i + 1] for i in CORNERS])


def triangle_mesh(resolution: int = 9) -> gb.Mesh:
    points = np.array([[x, y] for x in (0.0, 0.5, 1.0) for y in (0.0, 0.5, 1.0)])
    return gb.Mesh(points, CELLS, {"wall": np.arange(9) != 4})


def generate(setup: gb.Mesh, seed: int, split: str, indices: Sequence[int]) -> Iterator[gb.Sample]:
    inside = ~setup.tags["wall"][:, None]
    for index in indices:
        value = np.random.default_rng([seed, gb.SPLITS.index(split), index]).normal(size=(2, 9, 1))
        yield gb.Sample(frames=value * inside, static=value[0], scalars=np.zeros(0))


DATASET = gb.Dataset(
    name="toy",
    fields=(gb.Field("u", boundary={"wall": "dirichlet"}),),
    static=(gb.Field("f"),),
    dim=2,
    tags=("wall",),
    times=(0.0, 1.0),
    t_in=1,
    sizes={
        track: gb.Sizes(4, 2, 2, resolution=9)
        for track in ("smoke", "laptop", "workstation", "paper")
    },
    tiny=gb.Sizes(3, 2, 2, 1, resolution=9),
    setup=lambda params, resolution, cache: triangle_mesh(resolution),
    generate=generate,
    mesh=lambda setup: setup,
    title="Toy",
    solver="a random number generator",
    licence="CC0-1.0",
    cites="unpublished",
)


def mean_error(prediction: torch.Tensor, target: torch.Tensor, batch: gb.Batch) -> torch.Tensor:
    is_node = torch.ones_like(target)
    if batch.mask is not None:
        is_node = batch.mask[:, None, :, None].expand_as(target)
    return ((prediction - target).abs() * is_node).sum((1, 2, 3)) / is_node.sum((1, 2, 3))


METRIC = gb.Metric("toy", mean_error, help="mean absolute error")
