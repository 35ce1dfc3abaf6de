"""Every rule for metrics and executors can fail: for each there is a plugin that breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from contract_examples import METRIC, mean_error

import gsnobench as gb
from gsnobench.check import failed
from gsnobench.check.findings import Finding
from gsnobench.check.metric_samples import samples_for
from gsnobench.check.metrics_executors import (
    METRIC_RULES,
    check_executor,
    check_metric,
    check_metric_on,
)
from gsnobench.meshes.operators import lumped_mass


def broken(findings: Sequence[Finding]) -> set[str]:
    return {finding.code for finding in failed(findings)}


METRIC_DEFECTS: dict[str, tuple[gb.Metric, set[str]]] = {
    "no help": (replace(METRIC, help=""), {"X001"}),
    "one number per batch": (
        replace(METRIC, compute=lambda p, u, batch: mean_error(p, u, batch).mean()),
        {"X002", "X006"},
    ),
    "not finite": (
        replace(METRIC, compute=lambda p, u, batch: mean_error(p, u, batch).log()),
        {"X003", "X004"},
    ),
    "wrong direction": (replace(METRIC, better="higher"), {"X004"}),
    "offset": (replace(METRIC, compute=lambda p, u, batch: mean_error(p, u, batch) + 1), {"X004"}),
    "padding": (
        replace(METRIC, compute=lambda p, u, batch: (p - u).abs().mean((1, 2, 3))),
        {"X005"},
    ),
    "companions": (
        replace(METRIC, compute=lambda p, u, b: mean_error(p, u, b) * mean_error(p, u, b).mean()),
        {"X006"},
    ),
    "first node": (
        replace(METRIC, compute=lambda p, u, batch: (p - u)[:, :, 0].abs().sum((1, 2))),
        {"X008"},
    ),
    "scaled inputs": (
        replace(METRIC, compute=lambda p, u, b: mean_error(p, u, b) * b.points.abs().amax((1, 2))),
        {"X009"},
    ),
}


def test_a_sound_metric_breaks_no_rule() -> None:
    assert broken(check_metric(METRIC)) == set()


@pytest.mark.parametrize("defect", METRIC_DEFECTS)
def test_a_metric_defect_breaks_its_rules_and_no_others(defect: str) -> None:
    metric, codes = METRIC_DEFECTS[defect]
    assert broken(check_metric(metric)) == codes


def test_meshes_are_given_and_renumbered_with_the_fields() -> None:
    """An integral by the areas of the mesh keeps every rule; by areas of another mesh it cannot."""

    def integral(p: gb.Array, u: gb.Array, mesh: gb.Mesh, task: gb.Task) -> float:
        return float(np.sum(np.abs(p - u) * lumped_mass(mesh)[:, None]))

    def first_mesh(p: torch.Tensor, u: torch.Tensor, batch: gb.Batch) -> torch.Tensor:
        order = np.argsort(batch.meshes[0].points[:, 0])
        area = lumped_mass(batch.meshes[0])[order]  # of other nodes than those of the fields
        weights = torch.as_tensor(area)[:, None]
        return ((p - u)[:, :, : len(area)].abs() * weights).sum((1, 2, 3))

    with_cells = replace(METRIC, applies=lambda task, mesh: mesh.cells is not None)
    sound = replace(with_cells, compute=gb.each_sample(integral))
    assert broken(check_metric(sound)) == set()
    assert "X008" in broken(check_metric(replace(with_cells, compute=first_mesh)))


def test_a_metric_that_applies_to_nothing_cannot_be_checked() -> None:
    findings = check_metric_on(METRIC, {})
    assert broken(findings) == {"X007"}
    assert {finding.code for finding in findings if finding.skipped} == {
        code for code, _, _ in METRIC_RULES
    }


def test_a_metric_is_checked_where_it_applies() -> None:
    solid = replace(METRIC, applies=lambda task, mesh: mesh.dim == 3)
    assert set(samples_for(solid)) == {"solid", "body"}


def test_an_executor_gives_no_results_for_no_runs() -> None:
    sound = gb.Executor("toy", lambda specs, limits: iter(specs), help="nowhere")
    eager = gb.Executor("toy", lambda specs, limits: iter([None]))
    assert broken(check_executor(sound)) == set()
    assert broken(check_executor(eager)) == {"E001", "E002"}
