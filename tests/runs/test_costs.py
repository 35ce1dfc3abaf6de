"""What a run cost: parameters that are trained, seconds by purpose, and the machine."""

from __future__ import annotations

import torch
from torch import nn

from gsnobench.runs.costs import costs_of, count_parameters, describe_environment
from gsnobench.training.checkpoint import Clock


def test_trained_real_numbers_are_counted_and_complex_ones_twice() -> None:
    module = nn.Module()
    module.real = nn.Parameter(torch.zeros(3))
    module.complex = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    module.fixed = nn.Parameter(torch.zeros(5), requires_grad=False)
    assert count_parameters(module) == 3 + 2 * 2


def test_seconds_are_kept_by_purpose() -> None:
    clock = Clock(train_cpu_s=2.0, train_s=3.0, validate_cpu_s=4.0)
    seconds = {"cold_s": 1.0, "warm_s": 0.5}
    costs = costs_of(nn.Linear(2, 1), **seconds, clock=clock, device=torch.device("cpu"))
    assert (costs["prepare_cold_s"], costs["prepare_warm_s"]) == (1.0, 0.5)
    assert (costs["train_cpu_s"], costs["train_s"]) == (2.0, 3.0)
    assert costs["validate_cpu_s"] == 4.0 and costs["parameters"] == 3
    assert costs["peak_mb"] > 10


def test_an_environment_names_versions_and_hardware() -> None:
    here = describe_environment(torch.device("cpu"))
    assert here["torch"] == torch.__version__.split("+")[0] or here["torch"] == torch.__version__
    assert here["device"] == "cpu" and here["hardware"]
