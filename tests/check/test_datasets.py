"""Every rule for datasets can fail: for each there is a dataset that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contract_examples import CELLS, DATASET, generate, triangle_mesh

import gsnobench as gb
from gsnobench.check import failed
from gsnobench.check.datasets import check_dataset
from gsnobench.check.findings import Finding
from gsnobench.data import SPLITS


def broken(findings: Sequence[Finding]) -> set[str]:
    return {finding.code for finding in failed(findings)}


def raises(*arguments: object) -> Any:
    raise RuntimeError("no luck")


def on_mesh(**changes: Any) -> gb.Dataset:
    return replace(DATASET, mesh=lambda setup: replace(setup, **changes))


def made(change: Callable[[gb.Sample, int, str], gb.Sample]) -> gb.Dataset:
    """The toy with every sample changed."""

    def altered(
        setup: gb.Mesh, seed: int, split: str, indices: Sequence[int]
    ) -> Iterator[gb.Sample]:
        for index, sample in zip(indices, generate(setup, seed, split, indices), strict=True):
            yield change(sample, index, split)

    return replace(DATASET, generate=altered)


def in_a_chain(
    setup: gb.Mesh, seed: int, split: str, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    draw = np.random.default_rng([seed, SPLITS.index(split)])
    for _ in indices:
        value = draw.normal(size=(2, 9, 1))
        yield gb.Sample(
            frames=value * ~setup.tags["wall"][:, None], static=value[0], scalars=np.zeros(0)
        )


def without_the_split(
    setup: gb.Mesh, seed: int, split: str, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    return generate(setup, seed, "train", indices)


FLAT = np.concatenate([CELLS, [[0, 1, 2]]])
DATASET_DEFECTS: dict[str, tuple[gb.Dataset, set[str]]] = {
    "name with an underscore": (replace(DATASET, name="my_toy"), {"D001"}),
    "no licence": (replace(DATASET, licence=""), {"D001"}),
    "no solver": (replace(DATASET, solver=""), {"D001"}),
    "no citation": (replace(DATASET, cites=""), {"D001"}),
    "track missing": (replace(DATASET, sizes={"smoke": DATASET.sizes["smoke"]}), {"D001"}),
    "unit missing": (replace(DATASET, static=(gb.Field("f", unit=""),)), {"D001"}),
    "name used twice": (replace(DATASET, static=(gb.Field("u"),)), {"D001"}),
    "variant with an unknown knob": (replace(DATASET, variants={"hard": {"size": 3}}), {"D001"}),
    "boundary on an unknown tag": (
        replace(DATASET, fields=(gb.Field("u", boundary={"lid": "neumann"}),)),
        {"D002"},
    ),
    "support on an unknown tag": (
        replace(DATASET, fields=(gb.Field("u", support="not lid"),)),
        {"D002"},
    ),
    "window longer than the trajectory": (replace(DATASET, t_in=2), {"D003"}),
    "times that stand still": (replace(DATASET, times=(1.0, 1.0)), {"D003"}),
    "solver raises": (replace(DATASET, setup=raises), {"D004"}),
    "frames missing": (
        made(lambda sample, index, split: replace(sample, frames=sample.frames[:1])),
        {"D005"},
    ),
    "not finite": (
        made(lambda sample, index, split: replace(sample, static=sample.static / 0)),
        {"D006"},
    ),
    "constant field": (
        made(lambda sample, index, split: replace(sample, frames=sample.frames * 0)),
        {"D007"},
    ),
    "test samples in training": (replace(DATASET, generate=without_the_split), {"D008"}),
    "samples in a chain": (replace(DATASET, generate=in_a_chain), {"D009"}),
    "tag missing": (on_mesh(tags={"lid": np.arange(9) == 0}), {"D010", "D012"}),
    "tag on no node": (on_mesh(tags={"wall": np.zeros(9, dtype=bool)}), {"D010"}),
    "node in no cell": (on_mesh(cells=CELLS[CELLS.min(1) > 0]), {"D011"}),
    "double node": (on_mesh(points=triangle_mesh().points[[0, 1, 2, 3, 4, 5, 6, 7, 0]]), {"D011"}),
    "flat cell": (on_mesh(cells=FLAT), {"D011"}),
    "boundary value": (
        made(lambda sample, index, split: replace(sample, frames=sample.frames + 1)),
        {"D012"},
    ),
}


def test_a_sound_dataset_breaks_no_rule() -> None:
    findings = check_dataset(DATASET)
    assert broken(findings) == set()
    assert [finding.code for finding in findings] == [f"D{number:03d}" for number in range(1, 13)]


@pytest.mark.parametrize("defect", DATASET_DEFECTS)
def test_a_dataset_defect_breaks_its_rules_and_no_others(defect: str) -> None:
    dataset, codes = DATASET_DEFECTS[defect]
    with np.errstate(all="ignore"):
        assert broken(check_dataset(dataset)) == codes
