"""What the verbs about results do: score, verify, export; each returns its exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gsnobench.cli.console import print_table, progress
from gsnobench.cli.verbs import resolved_task
from gsnobench.data import split_named
from gsnobench.datasets.store import Opened, open_file
from gsnobench.datasets.store import verify as verify_file
from gsnobench.datasets.task_json import task_from_json
from gsnobench.errors import DataError, ParamError
from gsnobench.home import open_home
from gsnobench.records import RunResult, plain
from gsnobench.runs.bundle import opened_run, predictions_of
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.predictions import open_truth, read_predictions, score_predictions
from gsnobench.runs.verify import TIERS, verify
from gsnobench.runs.verify_file import Check
from gsnobench.training.evaluate import Evaluation

METRICS = ("rel_l2", "rel_l2_raw", "rel_l2_area", "rmse", "mae", "max")
PASSED, IMPOSSIBLE, FAILED = 0, 2, 3


def score_file(
    path: Path,
    dataset: str,
    wanted: Mapping[str, Any],
    *,
    split: str,
    jobs: int,
    home: Path | None,
    as_json: bool,
) -> int:
    """`score`: anybody's predictions by the metrics of every run."""
    chosen = split_named(split)
    if not path.is_file():  # before any data are made
        raise DataError(f"{path}: no such file; expected predictions as .nc, .npz or .npy")
    with progress(quiet=as_json) as report:
        machine = Machine(open_home(home), choose_device("cpu"), jobs, report=report)
        with _named_truth(dataset, wanted, machine) as opened:
            truth = opened.read(chosen)
            evaluation = score_predictions(read_predictions(path, truth), truth, str(path))
            facts = {
                "task": truth.task.id,
                "split": split,
                "samples": len(truth),
                "truth": opened.content_hash,
            }
    if as_json:
        print(
            json.dumps(
                plain(
                    {
                        **facts,
                        "scores": evaluation.scores(),
                        "per_sample": evaluation.sample_table(truth.task),
                    }
                )
            )
        )
        return PASSED
    _print_scores(
        evaluation,
        f"{path.name} on {truth.task.id}, {len(truth)} {split} samples (lower is better)",
    )
    print(f"truth    content hash {opened.content_hash}")
    return PASSED


def _named_truth(dataset: str, wanted: Mapping[str, Any], machine: Machine) -> Opened:
    if dataset.endswith(".nc"):
        if not Path(dataset).is_file():
            raise DataError(
                f"{dataset}: no such file; expected a NetCDF file or a task such as 'swe'"
            )
        if wanted["knobs"]:
            raise ParamError(
                f"--{next(iter(wanted['knobs']))}: a file has no data knobs; drop the option"
            )
        verify_file(Path(dataset))
        return open_file(Path(dataset))
    declared, task = resolved_task(dataset, wanted)
    return open_file(machine.ensure_data(declared, task), task)


def _print_scores(evaluation: Evaluation, title: str) -> None:
    scores = evaluation.scores()
    headline = scores.pop("headline")["rel_l2"]
    boundaries = sorted(
        {metric for table in scores.values() for metric in table if metric.startswith("boundary_")}
    )
    columns = (*METRICS, *boundaries)
    rows = [["headline", f"{headline:.4g}", *["-"] * (len(columns) - 1)]]
    for name, table in scores.items():
        rows.append(
            [name, *(f"{table[metric]:.4g}" if metric in table else "-" for metric in columns)]
        )
    print_table(title, ["field", *columns], rows, mark=0)


def verify_result(
    subject: str,
    tier: int,
    *,
    data: Path | None,
    device: str,
    jobs: int,
    home: Path | None,
    as_json: bool,
) -> int:
    """`verify`: every check up to a tier, line by line."""
    with progress(quiet=as_json) as report:
        machine = Machine(open_home(home), choose_device(device), jobs, report=report)
        checks = verify(subject, tier, machine, data=data)
    code = _verdict(checks, tier)
    if as_json:
        print(
            json.dumps(
                {
                    "subject": subject,
                    "tier": tier,
                    "passed": code == PASSED,
                    "checks": [asdict(one) for one in checks],
                }
            )
        )
        return code
    for number in sorted({one.tier for one in checks}):
        own = [one for one in checks if one.tier == number]
        print_table(
            f"tier {number}: {TIERS[number]}",
            ["check", "state", "detail"],
            [[c.what, c.state, c.detail] for c in own],
        )
    count = {
        state: sum(one.state == state for one in checks)
        for state in ("pass", "FAIL", "not possible")
    }
    print(f"{subject}: " + ", ".join(f"{number} {state}" for state, number in count.items()))
    return code


def _verdict(checks: Sequence[Check], tier: int) -> int:
    """A failure counts before all; a lower tier may be impossible (a result alone has no weights),
    the asked one not.
    """
    if any(one.state == "FAIL" for one in checks):
        return FAILED
    is_done = any(one.tier == tier and one.state == "pass" for one in checks)
    is_open = any(one.tier == tier and one.state == "not possible" for one in checks)
    return PASSED if is_done and not is_open else IMPOSSIBLE


def export_run(
    run: str,
    samples: Sequence[int],
    *,
    out: Path | None,
    data: Path | None,
    device: str,
    jobs: int,
    home: Path | None,
    as_json: bool,
) -> int:
    """`export`: a run or a bundle for ParaView."""
    from gsnobench.runs.vtu import export_vtu  # meshio is needed here only

    place = open_home(home)
    with progress(quiet=as_json) as report, opened_run(run, place) as folder:
        machine = Machine(place, choose_device(device), jobs, report=report)
        result = RunResult.load(folder.result)
        task = task_from_json(folder.task.read_text(encoding="utf-8"))
        with open_truth(result.spec, machine, data=data, task=task) as opened:
            truth = opened.read("test")
        chosen = out or Path(f"{result.spec.short}-vtu")
        predicted = predictions_of(folder, truth, home=place, device=device)
        report.stage(f"writing {chosen}")
        written = export_vtu(chosen, truth, predicted, samples)
    if as_json:
        print(json.dumps({"folder": str(chosen), "files": [str(path) for path in written]}))
    else:
        print("\n".join(f"open in ParaView: {path}" for path in written))
    return PASSED
