"""How a model is trained: the knobs of the loop, the learning rate over a run, the optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from gsnobench.params import Params, knob
from gsnobench.training.muon import Muon


class TrainParams(Params):
    """How a model is trained; presets set these, `--train.NAME` overrides."""

    loss: Literal["rel_l2", "mse"] = knob(
        default="rel_l2", help="relative L2 in physical units, or MSE in encoded units"
    )
    optimiser: Literal["adam", "adamw", "muon"] = knob(default="adamw", help="optimiser")
    lr: float = knob(default=1e-3, low=1e-6, high=1.0, log=True, help="peak learning rate")
    weight_decay: float = knob(
        default=0.0, low=0.0, high=1.0, help="decoupled for adamw and muon", search=False
    )
    beta2: float = knob(
        default=0.999, low=0.5, high=0.99999, help="second moment decay", search=False
    )
    schedule: Literal["constant", "cosine", "onecycle"] = knob(
        default="cosine", help="learning rate over the run", search=False
    )
    warmup: float = knob(
        default=0.0,
        low=0.0,
        high=0.9,
        help="share of the run with a linearly rising rate",
        search=False,
    )
    clip: float = knob(default=0.0, low=0.0, help="largest gradient norm, 0 for none", search=False)
    batch: int = knob(default=32, low=1, high=4096, log=True, help="samples a step")
    accumulate: int = knob(
        default=1, low=1, help="batches whose gradients are added before a step", search=False
    )
    amp: bool = knob(default=False, help="bfloat16 autocast", search=False)
    compile: bool = knob(
        default=False, help="torch.compile the module, where the loss is the core's", search=False
    )
    average: float = knob(
        default=0.0,
        low=0.0,
        high=0.99999,
        help="decay of averaged weights (EMA), 0 for none",
        search=False,
    )
    start_share: float = knob(
        default=0.25, low=0.0, high=1.0, help="one-call windows that begin at frame 0", search=False
    )
    unroll_after: float = knob(
        default=0.5, low=0.0, high=1.0, help="progress at which unrolling begins", search=False
    )
    unroll_share: float = knob(
        default=0.6, low=0.0, high=1.0, help="steps that unroll, once it has begun", search=False
    )


def steps_per_epoch(samples: int, starts: int, params: TrainParams) -> int:
    """Optimiser steps in which every training item is seen once."""
    return math.ceil(math.ceil(samples * starts / params.batch) / params.accumulate)


def rate(params: TrainParams, done: float) -> float:
    """Learning rate relative to its peak, at a share `done` of the run."""
    # up from 1/25 in 30 % of the run, down to 1e-4, both along a cosine
    if params.schedule == "onecycle":
        up, start, end = 0.3, 1 / 25, 1e-4
        if done < up:
            return start + (1 - start) * (1 - math.cos(math.pi * done / up)) / 2
        return end + (1 - end) * (1 + math.cos(math.pi * (done - up) / (1 - up))) / 2
    if done < params.warmup:
        return max(done / params.warmup, 1e-3)
    if params.schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (done - params.warmup) / (1 - params.warmup))) / 2


def rate_groups(
    module: nn.Module, trained: Sequence[nn.Parameter], rates: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Trained parameters by their share of the learning rate."""
    shares = {
        id(one): next((share for start, share in rates.items() if name.startswith(start)), 1.0)
        for name, one in module.named_parameters()
    }
    return [
        {"params": [one for one in trained if shares[id(one)] == share], "share": share}
        for share in sorted({shares[id(one)] for one in trained}, reverse=True)
    ]


def make_optimiser(
    trained: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
    params: TrainParams,
    device: torch.device,
) -> torch.optim.Optimizer:
    """The optimiser of a phase."""
    betas = (0.9, params.beta2)
    if params.optimiser == "muon":
        return Muon(trained, params.lr, betas=betas, weight_decay=params.weight_decay)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[params.optimiser]
    fused = device.type in ("cpu", "cuda")
    return kind(trained, lr=params.lr, betas=betas, weight_decay=params.weight_decay, fused=fused)
