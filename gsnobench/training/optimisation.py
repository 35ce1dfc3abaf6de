"""How a model is trained: the knobs of the loop and of the scaling, learning rate, optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from gsnobench.declare import Phase, Scaling
from gsnobench.params import Params, knob
from gsnobench.training.muon import Muon


class TrainParams(Params):
    """How a model is trained; presets set these, `--train.NAME` overrides."""

    loss: Literal["rel_l2", "mse"] = knob(
        "rel_l2", help="relative L2 in physical units, or MSE in encoded units"
    )
    optimiser: Literal["adam", "adamw", "muon"] = knob("adamw", help="optimiser")
    lr: float = knob(
        1e-3, low=1e-6, high=1.0, log=True, usual=(1e-4, 3e-2), help="peak learning rate"
    )
    weight_decay: float = knob(
        0.0, low=0.0, high=1.0, search=False, help="decoupled for adamw and muon"
    )
    beta2: float = knob(0.999, low=0.5, high=0.99999, search=False, help="second moment decay")
    schedule: Literal["constant", "cosine", "onecycle", "step"] = knob(
        "cosine", search=False, help="learning rate over the run"
    )
    decay: float = knob(
        0.5, low=0.0, high=1.0, search=False, when={"schedule": "step"}, help="factor of one decay"
    )
    decays: int = knob(
        10, low=1, search=False, when={"schedule": "step"}, help="decays, evenly over the run"
    )
    beta1_cycle: bool = knob(
        False,
        search=False,
        when={"schedule": "onecycle", "optimiser": ("adam", "adamw")},
        help="beta1 from 0.95 down to 0.85 and back, against the rate",
    )
    warmup: float = knob(
        0.0, low=0.0, high=0.9, search=False, help="share of the run with a linearly rising rate"
    )
    clip: float = knob(0.0, low=0.0, search=False, help="largest gradient norm, 0 for none")
    batch: int = knob(32, low=1, high=4096, log=True, usual=(2, 64), help="samples per step")
    accumulate: int = knob(
        1, low=1, search=False, help="batches whose gradients are added before a step"
    )
    amp: bool = knob(False, search=False, help="bfloat16 autocast")
    compile: bool = knob(
        False, search=False, help="torch.compile the module, where the loss is the core's"
    )
    average: float = knob(
        0.0, low=0.0, high=0.99999, search=False, help="decay of averaged weights (EMA), 0 for none"
    )
    start_share: float = knob(
        0.25, low=0.0, high=1.0, search=False, help="share of windows that begin at a scored start"
    )
    unroll_after: float = knob(
        0.5, low=0.0, high=1.0, search=False, help="progress at which unrolling begins"
    )
    unroll_share: float = knob(
        0.6, low=0.0, high=1.0, search=False, help="share of steps that unroll, once it has begun"
    )
    scale_window: Scaling = knob("zscore", search=False, help="scaling of the given frames")
    scale_static: Scaling = knob("zscore", search=False, help="scaling of static inputs, scalars")
    scale_outputs: Scaling = knob("zscore", search=False, help="scaling of what is predicted")
    scale_points: Scaling = knob("box", search=False, help="scaling of the coordinates")
    impose_boundary: bool = knob(
        True, search=False, help="set known boundary values after decoding, in loss and score"
    )
    predict: Literal["field", "change"] = knob(
        "field", search=False, help="predict the field, or its change since the last given frame"
    )


def steps_per_epoch(samples: int, starts: int, params: TrainParams) -> int:
    """Optimiser steps in which every training item is used once."""
    return math.ceil(math.ceil(samples * starts / params.batch) / params.accumulate)


def rate(params: TrainParams, done: float) -> float:
    """Learning rate relative to its peak, after a share `done` of the phase."""
    if params.schedule == "onecycle":
        return _one_cycle(done)
    if done < params.warmup:
        return max(done / params.warmup, 1e-3)
    if params.schedule == "constant":
        return 1.0
    if params.schedule == "step":
        return params.decay ** int(done * (params.decays + 1))
    return (1 + math.cos(math.pi * (done - params.warmup) / (1 - params.warmup))) / 2


def _one_cycle(done: float) -> float:
    """Up from 1/25 in 30 % of the phase, then down to 1e-4, both along a cosine."""
    up, start, end = 0.3, 1 / 25, 1e-4
    if done < up:
        return start + (1 - start) * (1 - math.cos(math.pi * done / up)) / 2
    return end + (1 - end) * (1 + math.cos(math.pi * (done - up) / (1 - up))) / 2


def beta1(params: TrainParams, done: float) -> float:
    """Decay of the first moment, after a share `done` of the phase."""
    if not (params.beta1_cycle and params.schedule == "onecycle"):
        return 0.9
    up = 0.3
    towards = done / up if done < up else 1 - (done - up) / (1 - up)  # 0 -> 1 -> 0
    return 0.95 - 0.1 * (1 - math.cos(math.pi * towards)) / 2


def trained_parameters(phase: Phase, module: nn.Module) -> list[nn.Parameter]:
    """The parameters that a phase trains."""
    chosen = module.parameters() if phase.parameters is None else phase.parameters(module)
    return [weight for weight in chosen if weight.requires_grad]


def rate_groups(
    module: nn.Module, trained: Sequence[nn.Parameter], rates: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Trained parameters by their share of the learning rate, the largest share first."""

    def share_of(name: str) -> float:
        return next((share for start, share in rates.items() if name.startswith(start)), 1.0)

    shares = {id(weight): share_of(name) for name, weight in module.named_parameters()}
    return [
        {"params": [weight for weight in trained if shares[id(weight)] == share], "share": share}
        for share in sorted({shares[id(weight)] for weight in trained}, reverse=True)
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
