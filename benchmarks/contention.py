"""What a training costs beside busy processes: CPU and wall seconds per step, relative to idle.

    python benchmarks/contention.py --data HOME/data [--steps 150] [--json FILE]

The same short training on the track laptop, each time in a process of its own: with the machine as
it is, and beside one busy process per core; with the threads that the rule chooses, and with all
cores. On a machine with two idle cores the first should cost at most 1.3 times the CPU-seconds and
2.5 times the wall seconds of the idle run. The last line is the same without the passive wait
policy that `import gsnobench` sets: what threads that spin would cost.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUSY = "x = 0\nwhile True:\n    x += 1\n"
TRAIN = """
import gsnobench  # before torch: it sets the wait policy
import json, sys, torch
from pathlib import Path
from gsnobench.home import open_home
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.run import validate_plan

model, dataset, steps, threads, home = sys.argv[1:]
plan = make_plan(Request(model, dataset, knobs={"train.steps": steps}))
machine = Machine(open_home(Path(home)), torch.device("cpu"), threads=int(threads))
result = validate_plan(plan, machine)
facts = {"cpu_s": result.costs["train_cpu_s"], "wall_s": result.costs["train_s"]}
print(json.dumps({**facts, "threads": result.environment["threads"]}))
"""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    children = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def measure(
    args: argparse.Namespace, *, threads: int, beside: int, environment: Mapping[str, str]
) -> dict[str, Any]:
    """One training in a fresh home that shares the data of the usual one."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "data").symlink_to(args.data, target_is_directory=True)
        words = [args.model, args.dataset, str(args.steps), str(threads), str(home)]
        command = [sys.executable, "-c", TRAIN, *words]
        with busy(beside):
            ended = subprocess.run(
                command,
                env={**os.environ, **environment, "GSNOBENCH_PLUGINS_DENY": "mlflow"},
                check=True,
                capture_output=True,
                text=True,
            )
    facts = json.loads(ended.stdout)
    return {
        "threads": facts["threads"],
        "busy": beside,
        "cpu_ms_per_step": 1000 * facts["cpu_s"] / args.steps,
        "wall_ms_per_step": 1000 * facts["wall_s"] / args.steps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--model", default="gsno")
    parser.add_argument("--dataset", default="swe")
    parser.add_argument("--data", type=Path, required=True, help="the folder `data` of a home")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.data = args.data.absolute()
    cores = os.cpu_count() or 1
    spinning = {"OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "200"}
    cases = {
        "by the rule, idle": (0, 0, {}),
        "by the rule, busy": (0, cores, {}),
        "all cores, idle": (cores, 0, {}),
        "all cores, busy": (cores, cores, {}),
        "all cores, busy, spinning": (cores, cores, spinning),
    }
    table: dict[str, dict[str, Any]] = {}
    for name, (threads, beside, environment) in cases.items():
        table[name] = measure(args, threads=threads, beside=beside, environment=environment)
        own, idle = table[name], table["by the rule, idle"]
        ratios = [own[key] / idle[key] for key in ("cpu_ms_per_step", "wall_ms_per_step")]
        print(
            f"{name:28s} {own['threads']} threads  {own['cpu_ms_per_step']:7.1f} CPU-ms per step"
            f" ({ratios[0]:.2f} x)  {own['wall_ms_per_step']:7.1f} ms per step ({ratios[1]:.2f} x)",
            flush=True,
        )
    if args.json is not None:
        args.json.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
