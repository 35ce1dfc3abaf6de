"""What a run cost (seconds, memory, parameters) and its environment (versions, hardware)."""

from __future__ import annotations

import platform
import resource
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

import gsnobench
from gsnobench.training.checkpoint import Clock


def costs_of(
    module: nn.Module, *, cold_s: float, warm_s: float, clock: Clock, device: torch.device
) -> dict[str, float]:
    """Seconds of setup, training and validation, peak memory, and the size of the module."""
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device) / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {
        "prepare_cold_s": cold_s,
        "prepare_warm_s": warm_s,
        "train_cpu_s": clock.train_cpu_s,
        "train_s": clock.train_s,
        "validate_cpu_s": clock.validate_cpu_s,
        "reference_step_s": clock.reference_step_s,
        "peak_mb": peak,
        "parameters": count_parameters(module),
    }


def count_parameters(module: nn.Module) -> int:
    """Trained real numbers; a complex parameter counts twice."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return sum(parameter.numel() * (2 if parameter.is_complex() else 1) for parameter in trained)


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions and hardware, as far as they can change a number."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    packages = {package: metadata.version(package) for package in ("torch", "numpy", "scipy")}
    return {
        "gsnobench": gsnobench.__version__,
        "python": platform.python_version(),
        **packages,
        "system": f"{platform.system()} {platform.machine()}",
        "device": device.type,
        "hardware": name,
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")
