"""The cost of tracking: milliseconds of the epoch hook, with a real store and a mirror at work.

    python benchmarks/tracking.py [--epochs 500]

The store is the default one (SQLite in a temporary home), or GSNOBENCH_TRACKING_URI. Limit: 20 ms
per epoch. Also printed: how long the mirror needs for the whole run afterwards; training does not
wait for it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from gsnobench.records import RunResult
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.tracking import observer
from gsnobench.tracking.spool import is_mirrored, spools

SCORES = {"loss": 0.1, "valid": 0.1, "lr": 1e-3}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=500)
    chosen = parser.parse_args()
    spec = make_plan(Request("gsno", "darcy", track="smoke")).spec
    os.environ["GSNOBENCH_TRACKING_WAIT"] = "0"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "runs" / spec.short
        folder.mkdir(parents=True)
        observer.gsnobench_run_started(spec, folder, {})
        costs = []
        for epoch in range(chosen.epochs):
            started = time.perf_counter()
            observer.gsnobench_epoch_ended(spec, "fit", epoch, SCORES)
            costs.append(1000 * (time.perf_counter() - started))
            time.sleep(0.01)  # an epoch, in which the mirror works
        finished = time.perf_counter()
        observer.gsnobench_run_finished(RunResult(spec, "failed", "nothing was trained"), folder)
        while not all(is_mirrored(path) for path in spools(Path(name))):
            time.sleep(0.1)
        table = {"median_ms": statistics.median(costs), "largest_ms": max(costs)}
        table["mirror_s"] = time.perf_counter() - finished
    print(json.dumps({key: round(value, 3) for key, value in table.items()}))


if __name__ == "__main__":
    main()
