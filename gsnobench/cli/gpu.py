"""What the owner of a GPU runs first: does a training step there give the CPU's numbers, and what
does it cost.
"""

from __future__ import annotations

import copy
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from gsnobench import plugins
from gsnobench.batch import Batch
from gsnobench.check.fixture import ModelOnTask, set_up
from gsnobench.check.toy_tasks import ToyTask, box_mesh, make_toy_tasks
from gsnobench.data import Samples
from gsnobench.errors import RunError
from gsnobench.files import Cache
from gsnobench.registry import read_registry
from gsnobench.training.loader import Loader

CASES = ("steady", "unsteady")
# largest relative difference from float64: single precision, bfloat16
PARITY, HALF_PARITY = 1e-4, 5e-2
SIDE, SAMPLES, WARM_UP, STEPS = 45, 8, 2, 5  # of the throughput measurement: 45 x 45 nodes
Answer = tuple[torch.Tensor, torch.Tensor]  # output, gradient


@dataclass(frozen=True, eq=False)
class Bout:
    """One batch with its target, and a module for it."""

    module: nn.Module
    batch: Batch
    target: torch.Tensor  # (B, steps, N, C), encoded

    def placed(self, device: torch.device, kind: torch.dtype) -> Bout:
        """The same on a device, floating-point numbers of this kind."""

        def move(value: torch.Tensor) -> torch.Tensor:
            return value.to(device, kind if value.is_floating_point() else value.dtype)

        batch = self.batch
        moved = replace(
            batch,
            window=move(batch.window),
            static=move(batch.static),
            scalars=move(batch.scalars),
            points=move(batch.points),
            tags=move(batch.tags),
            mask=None if batch.mask is None else move(batch.mask),
            geometry={name: move(value) for name, value in batch.geometry.items()},
        )
        module = copy.deepcopy(self.module).to(device)
        return Bout(
            module.double() if kind == torch.float64 else module.float(), moved, move(self.target)
        )

    def step(self) -> Answer:
        """Output and gradient of one training step, on the CPU in double precision."""
        self.module.zero_grad(set_to_none=True)
        output = self.module(self.batch)
        (output.float() - self.target).square().mean().backward()
        gradients = [
            one.grad.reshape(-1) for one in self.module.parameters() if one.grad is not None
        ]
        return output.detach().double().cpu(), torch.cat(gradients).double().cpu()


def measure(device_name: str, *, compiled: bool = True) -> dict[str, Any]:
    """Parity in single precision, in bfloat16 and compiled, then throughput and memory; `ok` and
    `amp_ok` sum it up.
    """
    device = _device(device_name)
    model = plugins.load("model", read_registry().checked_model)
    cases = {toy.name: toy for toy in make_toy_tasks()}
    parity = {}
    for name in CASES:
        for preset in model.presets:
            bout = _bout(set_up(model, preset, cases[name], Cache()), cases[name].train, 2)
            parity[f"{model.name}@{preset} {name}"] = _parity(bout, device)
    best = model.default_preset()
    bout = _bout(set_up(model, best, cases["unsteady"], Cache()), cases["unsteady"].train, 2)
    compilation = _compilation(bout, device) if compiled else {}
    trial = set_up(model, best, _large(cases["unsteady"]), Cache())
    speed = _throughput(
        _bout(trial, trial.toy.train, SAMPLES).placed(device, torch.float32), device
    )
    return {
        "ok": all(one["single"] < PARITY for one in parity.values()),
        "amp_ok": all(
            isinstance(one["half"], float) and one["half"] < HALF_PARITY for one in parity.values()
        ),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "parity": parity,
        "compiled": compilation,
        "throughput": speed,
    }


def _device(name: str) -> torch.device:
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise RunError(
            "device: this machine has no CUDA device that torch can use; run it where there is "
            "one, or use --device cpu"
        )
    try:
        return torch.empty(0, device=name).device
    except RuntimeError as error:
        raise RunError(
            f"device: {name!r} cannot be used ({str(error).splitlines()[0]}); expected cuda, "
            "cuda:0 or cpu"
        ) from error


def _bout(trial: ModelOnTask, samples: Samples, size: int) -> Bout:
    loader: Loader = trial.loader(samples)
    chosen = torch.arange(size)
    batch, target = loader.batch(chosen, torch.zeros_like(chosen), trial.horizon.steps)
    return Bout(trial.build(seed=0), batch, loader.normaliser.output.encode(target))


def _parity(bout: Bout, device: torch.device) -> dict[str, Any]:
    """Relative differences from double precision on the CPU; the larger of output and gradient."""
    exact = bout.placed(torch.device("cpu"), torch.float64).step()
    here = bout.placed(device, torch.float32)
    found: dict[str, Any] = {"single": _difference(here.step(), exact)}
    # oneDNN's bfloat16 dies where AMX is named but barred
    plain = torch.backends.mkldnn.flags(enabled=device.type != "cpu")
    with plain, torch.autocast(device.type, dtype=torch.bfloat16):
        found["half"] = _tried(here.step, exact)
    return found


def _compilation(bout: Bout, device: torch.device) -> dict[str, Any]:
    """The same for torch.compile, once: it takes minutes on a slow CPU."""
    exact = bout.placed(torch.device("cpu"), torch.float64).step()
    here = bout.placed(device, torch.float32)
    started = time.perf_counter()
    faster: Any = torch.compile(here.module)
    difference = _tried(Bout(faster, here.batch, here.target).step, exact)
    return {"single": difference, "seconds": round(time.perf_counter() - started, 1)}


def _tried(step: Callable[[], Answer], exact: Answer) -> float | str:
    """The difference, or why this device cannot do it: not every one has bfloat16 kernels or a
    compiler.
    """
    try:
        return _difference(step(), exact)
    except Exception as error:
        return f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"


def _difference(found: Answer, exact: Answer) -> float:
    ratios = [
        float((mine - right).norm() / right.norm())
        for mine, right in zip(found, exact, strict=True)
    ]
    return float(f"{max(ratios):.3g}")


def _large(case: ToyTask) -> ToyTask:
    """The case on a mesh of the size that the workstation track uses; its fields are noise, only
    their cost counts.
    """
    draw = np.random.default_rng(0)
    mesh = box_mesh((SIDE, SIDE), draw)
    frames = draw.normal(
        size=(SAMPLES, case.task.t_in + case.task.t_out, mesh.size, len(case.task.fields))
    )
    static = draw.normal(size=(SAMPLES, mesh.size, len(case.task.static)))
    scalars = draw.normal(size=(SAMPLES, len(case.task.scalars)))
    samples = Samples(case.task, (mesh,), frames, static, scalars)
    return replace(case, train=samples, valid=samples)


def _throughput(bout: Bout, device: torch.device) -> dict[str, float]:
    """Training steps of a batch: samples a second, and the memory at its peak."""
    is_cuda = device.type == "cuda"
    if is_cuda:
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(WARM_UP):
        bout.step()
    started = time.perf_counter()
    for _ in range(STEPS):
        bout.step()  # copies its gradient to the CPU, so the clock sees the device's work
    seconds = (time.perf_counter() - started) / STEPS
    peak = (
        torch.cuda.max_memory_allocated(device) / 2**20
        if is_cuda
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    )
    numbers = {"samples_per_s": SAMPLES / seconds, "step_ms": 1000 * seconds, "peak_mb": peak}
    return {
        "nodes": SIDE**2,
        "batch": SAMPLES,
        **{name: float(f"{value:.4g}") for name, value in numbers.items()},
    }
