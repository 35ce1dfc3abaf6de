"""Equal tuning of all rows: the same number of validation trials of the same CPU-seconds for each.

    python benchmarks/tuning.py [--rows gsno@plus,...] [--families steady,...] [--home HOME]
    python benchmarks/tuning.py --settings     what the presets take from the finished searches

One `gsnobench sweep` per row and family, on one task that stands for the family, with a training
seed that no board uses. Rate, width, batch and one structural knob are searched; for the row
`gsno@compact`, whose architecture is the printed one, the optimisation alone. The test split is
never opened (`--refit-top 0`). The first trial is the preset as it is. Finished searches are kept
in `leaderboards/tuning/` and not repeated; an interrupted one goes on where it stopped, on another
machine from its `.study` file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "leaderboards" / "tuning"
FAMILIES = {"steady": "darcy_threshold", "unsteady": "nse", "varying": "elasticity"}
TRIALS, CPU_S, SEED = 12, 40, 100
RATES = "train.lr=0.002..0.05"
BATCHES = "train.batch=2:4:8:12:16"
WIDTHS = {  # about half, once, and twice that of the preset
    "gsno@plus": "32:48:64",
    "deeponet@compact": "64:128:256",
    "mgkn@compact": "16:32:48",
    "coral@compact": "32:64:128",
    "geofno@compact": "8:16:32",
    "gnot@compact": "16:32:64",
    "transolver@compact": "32:64:96",
    "amg@compact": "16:32:64",
    "sp2gno@compact": "16:32:48",
}
STRUCTURES = {  # the one knob that is central to how a model represents a field
    "gsno@plus": "model.k_s=48:64:96:128",
    "deeponet@compact": "model.basis=64:128:256",
    "mgkn@compact": "model.cycles=1:2:3",
    "coral@compact": "model.latent=64:128:256",
    "geofno@compact": "model.modes=4:6:8:12",
    "gnot@compact": "model.layers=1:2:3",
    "transolver@compact": "model.slices=8:16:32:64",
    "amg@compact": "model.layers=1:2:3",
    "sp2gno@compact": "model.modes=32:48:64:96",
}
PRINTED = "gsno@compact"
ROWS = (PRINTED, *WIDTHS)


def axes_of(row: str) -> list[str]:
    """What is searched for a row, as `--over` reads it."""
    if row == PRINTED:
        return [RATES, BATCHES, "train.warmup=0:0.1:0.2", "train.weight_decay=0:0.001:0.1"]
    return [RATES, BATCHES, f"model.width={WIDTHS[row]}", STRUCTURES[row]]


def tune(row: str, family: str, study: Path, home: Path | None) -> dict[str, object]:
    """The result of one search, as `sweep --json` prints it."""
    model, _, preset = row.partition("@")
    command = [sys.executable, "-m", "gsnobench", "sweep", "--json"]
    command += ["--model", model, "--preset", preset, "--dataset", FAMILIES[family]]
    command += ["--over", ",".join(axes_of(row)), "--trials", str(TRIALS), "--seed", str(SEED)]
    command += ["--trial-cpu-s", str(CPU_S), "--refit-top", "0", "--study", str(study)]
    command += [] if home is None else ["--home", str(home)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode not in (0, 3):
        raise SystemExit(f"{row} on {FAMILIES[family]}: the sweep ended with {ended.returncode}")
    return json.loads(ended.stdout)


def settings_of(record: dict[str, object]) -> dict[str, object]:
    """What a preset takes from a finished search; three digits of a rate are enough."""
    point = record["best"]["point"]  # type: ignore[index]
    return {
        name: float(f"{value:.3g}") if isinstance(value, float) else value
        for name, value in sorted(point.items())
    }


def print_settings() -> None:
    """Row, family and settings of every finished search, as plugins declare them."""
    for row in ROWS:
        print(row)
        for family, task in FAMILIES.items():
            path = FOLDER / f"{task}--{row}.json"
            if path.exists():
                record = json.loads(path.read_text(encoding="utf-8"))
                print(f'    "{family}": {json.dumps(settings_of(record))},')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--home", type=Path)
    parser.add_argument("--settings", action="store_true")
    args = parser.parse_args()
    if args.settings:
        return print_settings()
    for family in args.families.split(","):
        for row in args.rows.split(","):
            path = FOLDER / f"{FAMILIES[family]}--{row}.json"
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            study = path.with_suffix(".study")
            result = tune(row, family, study, args.home)
            del result["folder"]  # of this machine
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            study.unlink(missing_ok=True)
            own = result["tried"][0]  # type: ignore[index]
            best = result["best"]  # type: ignore[index]
            print(f"{row} on {FAMILIES[family]}: {own['valid']} -> {best['valid']}", flush=True)


if __name__ == "__main__":
    main()
