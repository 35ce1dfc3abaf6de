"""`gsnobench doctor --gpu`: CPU/GPU parity, AMP, compilation, throughput and memory."""

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
OutputAndGradient = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """A module, one batch and its target."""

    module: nn.Module
    batch: Batch
    target: torch.Tensor  # (B, steps, N, C), encoded

    def on(self, device: torch.device, dtype: torch.dtype) -> TrainingStep:
        """The same on a device, with floating-point numbers of this type."""

        def move(value: torch.Tensor) -> torch.Tensor:
            return value.to(device, dtype if value.is_floating_point() else value.dtype)

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
        module = module.double() if dtype == torch.float64 else module.float()
        return TrainingStep(module, moved, move(self.target))

    def run(self) -> OutputAndGradient:
        """Output and gradient of the step, copied to the CPU in double precision."""
        self.module.zero_grad(set_to_none=True)
        output = self.module(self.batch)
        (output.float() - self.target).square().mean().backward()
        gradients = [
            parameter.grad.reshape(-1)
            for parameter in self.module.parameters()
            if parameter.grad is not None
        ]
        return output.detach().double().cpu(), torch.cat(gradients).double().cpu()


def measure(device_name: str, *, compiled: bool = True) -> dict[str, Any]:
    """All measurements on a device with the registry's checked model.

    `ok` says that single precision agrees with the CPU, `amp_ok` that bfloat16 does.
    """
    device = _device(device_name)
    model = plugins.load("model", read_registry().checked_model)
    cases = {case.name: case for case in make_toy_tasks()}
    parity = {}
    for name in CASES:
        for preset in model.presets:
            step = _step(set_up(model, preset, cases[name], Cache()), cases[name].train, 2)
            parity[f"{model.name}@{preset} {name}"] = _parity(step, device)
    best, case = model.default_preset(), cases["unsteady"]
    step = _step(set_up(model, best, case, Cache()), case.train, 2)
    compilation = _compilation(step, device) if compiled else {}
    trial = set_up(model, best, _large(case), Cache())
    step = _step(trial, trial.toy.train, SAMPLES).on(device, torch.float32)
    halves = [entry["half"] for entry in parity.values()]
    return {
        "ok": all(entry["single"] < PARITY for entry in parity.values()),
        "amp_ok": all(isinstance(half, float) and half < HALF_PARITY for half in halves),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "parity": parity,
        "compiled": compilation,
        "throughput": _throughput(step, device),
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
        reason = str(error).splitlines()[0]
        raise RunError(
            f"device: {name!r} cannot be used ({reason}); expected cuda, cuda:0 or cpu"
        ) from error


def _step(trial: ModelOnTask, samples: Samples, size: int) -> TrainingStep:
    loader: Loader = trial.loader(samples)
    chosen = torch.arange(size)
    batch, target = loader.batch(chosen, torch.zeros_like(chosen), trial.horizon.steps)
    return TrainingStep(trial.build(seed=0), batch, loader.encode_target(target, batch))


def _parity(step: TrainingStep, device: torch.device) -> dict[str, Any]:
    """Relative differences from double precision on the CPU; the larger of output and gradient."""
    exact = step.on(torch.device("cpu"), torch.float64).run()
    single = step.on(device, torch.float32)
    differences: dict[str, Any] = {"single": _difference(single.run(), exact)}
    # oneDNN's bfloat16 crashes on processors that announce AMX but do not allow it
    without_onednn = torch.backends.mkldnn.flags(enabled=device.type != "cpu")
    with without_onednn, torch.autocast(device.type, dtype=torch.bfloat16):
        differences["half"] = _attempt(single.run, exact)
    return differences


def _compilation(step: TrainingStep, device: torch.device) -> dict[str, Any]:
    """The difference for torch.compile, once: it takes minutes on a slow CPU."""
    exact = step.on(torch.device("cpu"), torch.float64).run()
    single = step.on(device, torch.float32)
    started = time.perf_counter()
    compiled: Any = torch.compile(single.module)
    difference = _attempt(replace(single, module=compiled).run, exact)
    return {"single": difference, "seconds": round(time.perf_counter() - started, 1)}


def _attempt(run: Callable[[], OutputAndGradient], exact: OutputAndGradient) -> float | str:
    """The difference, or why there is none: some devices lack bfloat16 kernels or a compiler."""
    try:
        return _difference(run(), exact)
    except Exception as error:
        return f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"


def _difference(result: OutputAndGradient, exact: OutputAndGradient) -> float:
    ratios = [
        float((mine - right).norm() / right.norm())
        for mine, right in zip(result, exact, strict=True)
    ]
    return float(f"{max(ratios):.3g}")


def _large(case: ToyTask) -> ToyTask:
    """The case on a mesh as large as the workstation track's; its fields are noise."""
    task = case.task
    draw = np.random.default_rng(0)
    mesh = box_mesh((SIDE, SIDE), draw)
    frames = draw.normal(size=(SAMPLES, task.t_in + task.t_out, mesh.size, len(task.fields)))
    static = draw.normal(size=(SAMPLES, mesh.size, len(task.static)))
    scalars = draw.normal(size=(SAMPLES, len(task.scalars)))
    samples = Samples(task, (mesh,), frames, static, scalars)
    return replace(case, train=samples, valid=samples)


def _throughput(step: TrainingStep, device: torch.device) -> dict[str, float]:
    """Training steps of a batch: samples per second, and the peak of the memory."""
    is_cuda = device.type == "cuda"
    if is_cuda:
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(WARM_UP):
        step.run()
    started = time.perf_counter()
    for _ in range(STEPS):
        step.run()  # copies its gradient to the CPU, so the clock sees the device's work
    seconds = (time.perf_counter() - started) / STEPS
    if is_cuda:
        peak = torch.cuda.max_memory_allocated(device) / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    numbers = {"samples_per_s": SAMPLES / seconds, "step_ms": 1000 * seconds, "peak_mb": peak}
    rounded = {name: float(f"{value:.4g}") for name, value in numbers.items()}
    return {"nodes": SIDE**2, "batch": SAMPLES, **rounded}
