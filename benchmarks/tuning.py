"""Equal tuning of all rows: the same number of validation trials of the same CPU-seconds for each.

    python benchmarks/tuning.py [--rows gsno@plus,...] [--families steady,...] [--home HOME]
    python benchmarks/tuning.py --settings     what the presets take from the finished searches
    python benchmarks/tuning.py --page         write the page of all searches again

One `gsnobench sweep` per row and family, on one task that stands for the family, with a training
seed that no board uses. Rate, width, batch and one structural knob are searched; for the row
`gsno@compact`, whose architecture is the printed one, the optimisation alone. The test split is
never opened (`--refit-top 0`). The first trial is the preset as it is. Finished searches are kept
in `leaderboards/tuning/` and not repeated; an interrupted one goes on where it stopped, on another
machine from its `.study` file. Whether a preset keeps what was found is then decided on all tasks
of the family (`benchmarks/tuning_families.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "leaderboards" / "tuning"
PAGE = FOLDER / "README.md"
CHECKS = FOLDER / "families"
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
HEADER = "| row | the preset was | validation | found | validation | over the family | it holds |"
ROWS = (PRINTED, *WIDTHS)


def axes_of(row: str) -> list[str]:
    """What is searched for a row, as `--over` reads it."""
    if row == PRINTED:
        return [RATES, BATCHES, "train.warmup=0.0:0.1:0.2", "train.weight_decay=0.0:0.001:0.1"]
    return [RATES, BATCHES, f"model.width={WIDTHS[row]}", STRUCTURES[row]]


def tune(row: str, family: str, study: Path, home: Path | None) -> dict[str, Any]:
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


def records() -> dict[tuple[str, str], dict[str, Any]]:
    """The finished searches by row and family, in the order of the page."""
    paths = {
        (row, family): FOLDER / f"{task}--{row}.json"
        for row in ROWS
        for family, task in FAMILIES.items()
    }
    return {
        pair: json.loads(path.read_text(encoding="utf-8"))
        for pair, path in paths.items()
        if path.exists()
    }


def checks() -> dict[tuple[str, str], dict[str, Any]]:
    """The finished checks of what was found, on all tasks of a family, by row and family."""
    read = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(CHECKS.glob("*.json")))
    return {(check["row"], check["family"]): check for check in read if "times" in check}


def held(row: str, family: str) -> dict[str, Any]:
    """What a preset should hold: what was found, unless it is worse over the family."""
    search, check = records()[row, family], checks().get((row, family))
    if check is not None and check["times"] >= 1:
        return dict(check["before"])
    return settings_of(search["best"]["point"])


def settings_of(point: Mapping[str, Any]) -> dict[str, Any]:
    """What a preset takes from the best point; three digits of a rate are enough."""
    return {
        name: float(f"{value:.3g}") if isinstance(value, float) else value
        for name, value in sorted(point.items())
    }


def print_settings() -> None:
    """Row, family and settings of every finished search, as plugins declare them."""
    for row, family in records():
        print(f'{row}    "{family}": {json.dumps(held(row, family))},')


def page() -> str:
    """What every preset was and became, with its validation errors."""
    found = records()
    lines = [
        "<!-- generated by `python benchmarks/tuning.py --page` -->",
        "",
        "# Equal tuning",
        "",
        f"Every row had the same allowance: {TRIALS} trials of {CPU_S} normalised CPU-seconds for",
        "each family of tasks, scored on validation only, with a training seed that no board uses.",
        "The first trial is the preset as it was; where both columns of settings agree, the",
        "search found nothing better. The task in brackets stands for its family. Every JSON file",
        "here holds all trials of one search.",
        "",
        "A search sees one task of a family and a third of the track's budget. So the settings of",
        "before and those that were found were then trained with the whole budget on all tasks of",
        "the family, once each, and compared by validation errors. *Over the family* is the",
        "geometric mean of error found / error before. The preset holds what has less error by",
        "that mean, even where the difference is within the scatter of a repeat. The folder",
        "`families` has the errors.",
        "",
        "The seconds are those for which steps were counted; on a busy machine a trial took more",
        "or less, and each JSON file has what it took. Of `coral@compact` on nse the first four",
        "trials were counted without the time to encode its codes, the other eight with it.",
        "",
        "`gsno@plus` came to this search with a past: 31 trials of its first revision and about 80",
        "of its second, on all tasks ([the trials](../../docs/models/gsno-trials.md)). The presets",
        "of the other models had a few trials each.",
        "",
        f"{len(found)} of {len(ROWS) * len(FAMILIES)} searches are on record.",
    ]
    for family, task in FAMILIES.items():
        lines += ["", f"## {family.capitalize()} ({task})", ""]
        lines += [HEADER, "| --- | --- | --: | --- | --: | --: | --- |"]
        lines += [
            _line(row, found[row, family], checks().get((row, family)))
            for row in ROWS
            if (row, family) in found
        ]
    return "\n".join(lines) + "\n"


def _line(row: str, record: Mapping[str, Any], check: Mapping[str, Any] | None) -> str:
    first, best = record["tried"][0], record["best"]
    cells = [row, _spelt(first["point"]), f"{first['valid']:.4f}"]
    cells += [_spelt(best["point"]), f"{best['valid']:.4f}", *_verdict(check)]
    return "| " + " | ".join(cells) + " |"


def _verdict(check: Mapping[str, Any] | None) -> tuple[str, str]:
    if check is None:
        return "–", "the same"
    return f"{check['times']:.3f}", "what was found" if check["times"] < 1 else "what it was"


def _spelt(point: Mapping[str, Any]) -> str:
    settings = settings_of(point)
    return ", ".join(f"{name.partition('.')[2]} {settings[name]:g}" for name in settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--home", type=Path)
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    if args.settings:
        return print_settings()
    if args.page:
        PAGE.write_text(page(), encoding="utf-8")
        return None
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
            own, best = result["tried"][0], result["best"]
            print(f"{row} on {FAMILIES[family]}: {own['valid']} -> {best['valid']}", flush=True)


if __name__ == "__main__":
    main()
