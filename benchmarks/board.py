"""Time and memory of `leaderboard build` with many results, and of a second build.

    python benchmarks/board.py [--files 20000] [--json FILE]

Made-up results of about 20 kB each: 12 tasks, 14 rows, as many seeds as are needed. Each build is a
process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from gsnobench.records import RunResult, RunSpec, evidence_path

TASKS, ROWS, SAMPLES, FRAMES = 12, 14, 200, 46


def result(task: int, row: int, seed: int) -> RunResult:
    """One finished run; its curve fills it up to the size of a real one."""
    draw = np.random.default_rng([task, row, seed])
    sizes = {"train": 128, "valid": 32, "test": SAMPLES, "test_ood": 0}
    spec = RunSpec(
        task=f"task{task}@5-{FRAMES}",
        track="laptop",
        model=f"model{row}",
        preset="compact",
        version=1,
        resolution=450,
        sizes=sizes,
        data={},
        data_seed=0,
        revision=1,
        model_params={"width": 64},
        train_params={"lr": 1e-3},
        steps={"fit": 1000},
        seed=seed,
    )
    errors = np.round(0.02 * (1 + row) * np.exp(0.3 * draw.normal(size=SAMPLES)), 6)
    mean = errors.mean()
    scores = {"u": {"rel_l2": mean, "rel_l2_raw": mean}, "headline": {"rel_l2": mean}}
    curve = [
        {"phase": "fit", "epoch": n, "step": 32 * n, "loss": draw.random(), "valid": draw.random()}
        for n in range(150)
    ]
    costs = {
        "parameters": 1e4 * (1 + row),
        "prepare_cold_s": 0.1,
        "prepare_warm_s": 0.1,
        "train_cpu_s": 100.0,
        "train_s": 100.0,
        "validate_cpu_s": 1.0,
    }
    return RunResult(
        spec,
        "done",
        scores={"valid": scores, "test": scores},
        samples={"test": {"u": {"rel_l2": errors.tolist(), "rel_l2_raw": errors.tolist()}}},
        frames={"u": {f"q{q}": draw.random(FRAMES).round(4).tolist() for q in (10, 50, 90)}},
        curve=curve,
        costs={**costs, "peak_mb": 500.0, "inference_s": 0.002},
        data={"hash": "0" * 64, "fingerprint": "{}", "origin": "generated"},
        bands={"u": {part: draw.random(8).round(4).tolist() for part in ("truth", "error")}},
    )


def write_results(root: Path, files: int) -> None:
    for number in range(files):
        seed, cell = divmod(number, TASKS * ROWS)
        made = result(cell // ROWS, cell % ROWS, seed)
        path = evidence_path(root, made.spec)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made.to_json())  # not `save`: its sync to disk is not what is measured


def measure(root: Path, out: Path) -> dict[str, float]:
    """Wall and CPU seconds of one build, and the peak memory of all its processes together."""
    command = [sys.executable, "-m", "gsnobench", "leaderboard", "build"]
    command += ["--results", str(root), "--out", str(out)]
    before, started, peak = os.times(), time.perf_counter(), 0
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, _resident(process))
        time.sleep(0.05)
    assert process.returncode == 0, f"the build ended with {process.returncode}"
    wall, after = time.perf_counter() - started, os.times()
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    return {"wall_s": wall, "cpu_s": user + system, "peak_mb": peak / 2**20}


def _resident(process: psutil.Popen) -> int:
    """Memory of a process and of all that it started, pages that they share counted in each."""
    total = 0
    with suppress(psutil.NoSuchProcess):  # one may end while we look
        for member in (process, *process.children(recursive=True)):
            total += member.memory_info().rss
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root, out = Path(name) / "results", Path(name) / "boards"
        write_results(root, chosen.files)
        size = sum(path.stat().st_size for path in root.rglob("*.json")) / chosen.files
        table = {"files": chosen.files, "bytes_per_file": size}
        table |= {"first": measure(root, out), "second": measure(root, out)}
    print(json.dumps(table, indent=1))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
