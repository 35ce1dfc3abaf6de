"""Every rule for metrics and executors can fail: for each there is a plugin that breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from contract_examples import METRIC, mean_error

import gsnobench as gb
from gsnobench.check import failed
from gsnobench.check.findings import Finding
from gsnobench.check.metrics_executors import check_executor, check_metric


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
}


def test_a_sound_metric_breaks_no_rule() -> None:
    assert broken(check_metric(METRIC)) == set()


@pytest.mark.parametrize("defect", METRIC_DEFECTS)
def test_a_metric_defect_breaks_its_rules_and_no_others(defect: str) -> None:
    metric, codes = METRIC_DEFECTS[defect]
    assert broken(check_metric(metric)) == codes


def test_an_executor_gives_no_results_for_no_runs() -> None:
    sound = gb.Executor("toy", lambda specs, limits: iter(specs), help="nowhere")
    eager = gb.Executor("toy", lambda specs, limits: iter([None]))
    assert broken(check_executor(sound)) == set()
    assert broken(check_executor(eager)) == {"E001", "E002"}
