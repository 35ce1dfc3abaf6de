"""Is the installation, the home folder and the tracking store in order, and what can be mended
without touching results.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import gsnobench
from gsnobench.plugins import listed
from gsnobench.tracking import mirror
from gsnobench.tracking.address import Address
from gsnobench.tracking.spool import is_live, is_mirrored, read, spools

PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "mlflow",
    "optuna",
    "xarray",
    "netCDF4",
    "safetensors",
    "matplotlib",
    "numba",
)
STALE_S = 3600.0  # a temporary file untouched for so long belongs to nobody


def report(home: Path) -> dict[str, Any]:
    """Everything that a person asks first when something does not work; `problems` is empty if all
    is well.
    """
    found = {
        "gsnobench": gsnobench.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        **_compute(),
        "home": str(home),
        "home_writable": os.access(home, os.W_OK),
        "disk_free_gb": round(shutil.disk_usage(home).free / 1e9, 1),
        "plugins": {
            f"{one.kind} {one.name}": one.origin for one in listed() if one.problem is None
        },
        "tracking": _store(home),
        "unmirrored": [
            path.name for path in spools(home) if not is_mirrored(path) and not is_live(path)
        ],
        "interrupted": sorted(folder.name for folder in _interrupted(home)),
        "left_over": sorted(str(path.relative_to(home)) for path in _left_over(home)),
    }
    return {**found, "problems": _problems(found)}


def replay(home: Path) -> dict[str, Any]:
    """Bring to the tracking store what it missed."""
    return mirror.replay(home)


def clean(home: Path) -> dict[str, Any]:
    """Remove temporary files that nobody works on, and spools that are finished and mirrored; never
    results or data.
    """
    done = [path for path in spools(home) if _is_spent(path)]
    removed = [*_left_over(home), *done, *(path.with_suffix(".done") for path in done)]
    size = sum(path.stat().st_size for path in removed)
    for path in removed:
        path.unlink(missing_ok=True)
    return {"removed": sorted(str(path.relative_to(home)) for path in removed), "bytes": size}


def gpu(device: str) -> dict[str, Any]:
    """CPU/GPU parity, autocast, compilation, throughput and memory of a training step."""
    from gsnobench.cli.gpu import measure

    return measure(device)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _compute() -> dict[str, Any]:
    import torch

    has_cuda = torch.cuda.is_available()
    names = (
        [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        if has_cuda
        else []
    )
    return {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "gpus": names}


def _store(home: Path) -> dict[str, Any]:
    address = Address.of(home)
    if address is None:
        return {"address": "none", "state": "turned off"}
    trouble = mirror.trouble_of(address)
    return {
        "address": address.label,
        "state": "answers" if trouble is None else f"does not answer: {trouble}",
    }


def _interrupted(home: Path) -> list[Path]:
    """Run folders with a question and no answer, not even a trial's, on which no process works."""
    folders = [spec.parent for spec in (home / "runs").glob("*/spec.json")]
    cut = [
        folder
        for folder in folders
        if not any((folder / name).exists() for name in ("result.json", "trial.json"))
    ]
    return [folder for folder in cut if not _is_running(home, folder)]


def _is_running(home: Path, folder: Path) -> bool:
    spool = home / "spool" / f"{folder.name}.jsonl"
    lock = home / "runs" / f".{folder.name}.lock"
    return any(path.exists() and is_live(path) for path in (spool, lock))


def _left_over(home: Path) -> list[Path]:
    """Half-written files of processes that were killed, lock files that nobody holds, checkpoints
    of finished trials.
    """
    oldest = time.time() - STALE_S
    parts = [
        path for path in home.rglob(".*.part") if path.is_file() and path.stat().st_mtime < oldest
    ]
    locks = [
        path
        for path in home.rglob("*.lock")
        if path.is_file() and path.stat().st_mtime < oldest and not is_live(path)
    ]
    trials = [
        path.parent / "checkpoint.pt"
        for path in (home / "runs").glob("*/trial.json")
        if path.stat().st_mtime < oldest
    ]
    return (
        parts
        + locks
        + [path for path in trials if path.exists() and not _is_running(home, path.parent)]
    )


def _is_spent(path: Path) -> bool:
    if not is_mirrored(path) or is_live(path):
        return False
    spool = read(path)
    return spool is not None and spool.finished is not None


def _problems(found: dict[str, Any]) -> list[str]:
    """One line each, with what to do."""
    lines = [
        f"{one.kind} {one.name} ({one.origin}): {one.problem}"
        for one in listed()
        if one.problem is not None
    ]
    lines += [
        f"{name}: is not installed; reinstall gsnobench"
        for name, text in found["packages"].items()
        if text == "not installed"
    ]
    if not found["home_writable"]:
        lines.append(f"{found['home']}: cannot be written; choose another --home")
    if found["disk_free_gb"] < 2:
        lines.append(
            f"disk: only {found['disk_free_gb']} GB are free; data of a paper track take several"
        )
    if "does not answer" in found["tracking"]["state"]:
        lines.append(
            f"tracking: {found['tracking']['address']} {found['tracking']['state']}; runs go on "
            "and are kept in the spool"
        )
    if found["unmirrored"]:
        lines.append(
            f"spool: {len(found['unmirrored'])} runs are not fully in MLflow; `gsnobench doctor "
            "--replay` brings them"
        )
    if found["interrupted"]:
        lines.append(
            f"runs: {len(found['interrupted'])} were cut; the same `gsnobench run` command resumes "
            "one"
        )
    if found["left_over"]:
        lines.append(
            f"home: {len(found['left_over'])} left-over files; `gsnobench doctor --clean` removes "
            "them"
        )
    return lines
