"""What the verbs of the command line do; each returns its exit code and prints either text or one
JSON document.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsnobench.cli.console import print_facts, print_table, progress
from gsnobench.data import Samples, Split, Task, split_named
from gsnobench.datasets.ensure import estimate
from gsnobench.datasets.store import open_file
from gsnobench.datasets.tasks import resolve
from gsnobench.declare import Dataset
from gsnobench.errors import DataError, ParamError, RunError
from gsnobench.home import Home, RunFolder, open_home
from gsnobench.plugins import dataset_named, kind_of, listed, load
from gsnobench.records import RunResult
from gsnobench.registry import read_registry
from gsnobench.runs.animation import check_animable
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import Plan, Request, make_plan
from gsnobench.runs.run import finished_result, is_interrupted, run_plan
from gsnobench.runs.stages import Run


@dataclass(frozen=True)
class RunOptions:
    """How `run` goes about it; nothing here changes the question."""

    device: str = "auto"
    jobs: int = 0
    resume: bool = False
    force: bool = False
    floors: bool = True
    dry_run: bool = False
    bundle: bool = False
    gif: bool = False


def run_model(
    model: str,
    dataset: str,
    wanted: Mapping[str, Any],
    options: RunOptions,
    *,
    home: Path | None,
    as_json: bool,
) -> int:
    """`run`: one model, beside the floors of its task."""
    plan = make_plan(Request(model=model, dataset=dataset, **wanted))
    if options.gif:
        check_animable(plan.task)
    place = open_home(home)
    if options.resume and not is_interrupted(plan, place):
        state = "is finished" if finished_result(plan, place) else "has not been started"
        raise RunError(f"run {plan.spec.short}: nothing to resume, it {state}; leave --resume out")
    if options.dry_run:
        return _dry_run(plan, place, as_json)
    with progress(quiet=as_json) as report:
        machine = Machine(
            place, choose_device(options.device), options.jobs, report=report, gif=options.gif
        )
        beside = _run_floors(model, dataset, wanted, machine) if options.floors else []
        result = run_plan(plan, machine, force=options.force)
        run = Run.at_home(plan, machine)
        extras = _extras(run, result, options)
    if as_json:
        body = {
            "folder": str(run.folder.path),
            **{name: str(path) for name, path in extras.items()},
            "result": json.loads(result.to_json()),
            "floors": [json.loads(one.to_json()) for one in beside],
        }
        print(json.dumps(body))
    else:
        _print_results(plan, result, beside, run.folder, extras)
    return 0 if result.status in ("done", "declined", "pruned") else 3


def _extras(run: Run, result: RunResult, options: RunOptions) -> dict[str, Path]:
    """The bundle and the animation, where they were asked for; also of a run that was finished
    before.
    """
    written: dict[str, Path] = {}
    if result.status != "done":
        if options.bundle or options.gif:
            ended = f"{result.spec.row}: ended {result.status}"
            run.machine.report.warn(f"{ended}; there is nothing to bundle or to animate")
        return written
    if options.bundle:
        from gsnobench.runs.bundle import write_bundle

        written["bundle"] = write_bundle(run)
    if options.gif:
        written["gif"] = run.folder.gif
        # a run that was finished before, or a floor: those are not drawn
        if not written["gif"].exists():
            _animate_finished(run)
    return written


def _animate_finished(run: Run) -> None:
    from gsnobench.runs.trained import load as load_run

    machine = run.machine
    machine.report.stage("animating")
    trained = load_run(run.folder.path, home=machine.home.root, device=str(machine.device))
    with run.open_data() as data:
        test = data.split("test")
        run.animate(trained.setup, trained.loader(test), trained.score(test))


def _run_floors(
    model: str, dataset: str, wanted: Mapping[str, Any], machine: Machine
) -> list[RunResult]:
    """The floor models of the same task beside `model`, each a result of its own."""
    data_knobs = {
        name: value
        for name, value in (wanted.get("knobs") or {}).items()
        if name.startswith("data.")
    }
    results = []
    known = {one.name for one in listed("model") if one.problem is None}
    for floor in read_registry().floors:
        if floor in known and floor != model:
            plan = make_plan(
                Request(
                    model=floor, dataset=dataset, **{**wanted, "preset": None, "knobs": data_knobs}
                )
            )
            if plan.declined is None:
                results.append(run_plan(plan, machine))
    return results


def _print_results(
    plan: Plan,
    result: RunResult,
    beside: Sequence[RunResult],
    folder: RunFolder,
    extras: Mapping[str, Path],
) -> None:
    rows = sorted(
        (result, *beside), key=lambda one: one.headline if math.isfinite(one.headline) else math.inf
    )
    names = list(plan.task.scored)
    field = names[0] if len(names) == 1 else "headline"
    reference = plan.task.fields[0].reference if len(names) == 1 else 0.0
    label = f"{field} - {reference:g}" if reference else field
    header = [
        "model",
        f"rel L2 of {label}",
        "valid",
        "raw",
        "RMSE",
        "parameters",
        "train CPU-s",
        "ms a sample",
    ]
    cells = [_row(one, field) for one in rows]
    title = f"{plan.task.id}, {plan.task.resolution} nodes, track {plan.spec.track}, test errors (lower is better)"
    print_table(title, header, cells, mark=rows.index(result))
    if result.status != "done":
        print(f"{result.spec.row}: {result.status}, {result.reason}")
    if not plan.is_calibrated:
        print(
            f"note: {plan.spec.row} has no calibrated step count on this track; it used the default"
        )
    if folder.picture.exists():
        print(f"picture  {folder.picture}")
    for name, path in extras.items():
        print(f"{name:<8} {path}")
    print(f"run      {plan.spec.short}  (gsnobench show {plan.spec.short})")
    print("browse   gsnobench ui")


def _row(result: RunResult, field: str) -> list[str]:
    test = result.scores.get("test", {}).get(field, {})
    valid = result.scores.get("valid", {}).get(field, {})
    numbers = (test.get("rel_l2"), valid.get("rel_l2"), test.get("rel_l2_raw"), test.get("rmse"))
    texts = ["-" if number is None else f"{number:.4g}" for number in numbers]
    costs = result.costs
    if result.status != "done":
        texts[0] = result.status
    counts = [
        f"{costs.get('parameters', 0):,.0f}",
        f"{costs.get('train_cpu_s', 0):.1f}",
        f"{1000 * costs.get('inference_s', 0):.2f}",
    ]
    return [result.spec.row, *texts, *counts]


def _dry_run(plan: Plan, place: Home, as_json: bool) -> int:
    budget = read_registry().track(plan.spec.track).train_cpu_s
    needs = estimate(plan.dataset, plan.task) if plan.dataset is not None else None
    facts: dict[str, Any] = {
        "task": plan.task.id,
        "row": plan.spec.row,
        "key": plan.spec.short,
        "state": "finished"
        if finished_result(plan, place)
        else "interrupted"
        if is_interrupted(plan, place)
        else "new",
        "samples": dict(plan.task.sizes),
        "nodes": plan.task.resolution,
        "steps": dict(plan.spec.steps),
        "train_cpu_s": budget if plan.is_calibrated and budget else None,
        "disk_mb": None if needs is None else round(needs.disk_bytes / 2**20, 1),
        "memory_mb": None if needs is None else round(needs.memory_bytes / 2**20, 1),
    }
    print_facts(facts, as_json)
    return 0


def run_help(model: str, dataset: str) -> None:
    """The knobs of a model, of the training and of a dataset, as the command line spells them."""
    from gsnobench.cli.show import KNOB_HEADER, knob_rows
    from gsnobench.training.optimisation import TrainParams

    declared = load("model", model)
    print_table(
        f"Knobs of {model} (presets: {', '.join(declared.presets)})",
        KNOB_HEADER,
        knob_rows(declared.params, "model"),
    )
    print_table(
        "Training (also --train.epochs or --train.steps)",
        KNOB_HEADER,
        knob_rows(TrainParams, "train"),
    )
    if dataset:
        data = dataset_named(dataset)
        print_table(
            f"Data of {data.name} (also --data.seed, --data.resolution)",
            KNOB_HEADER,
            knob_rows(data.params, "data"),
        )


# ------------------------------------------------------------------------------------------ predict


def predict_run(
    run: str,
    *,
    inputs: Path | None,
    mesh: int | None,
    out: Path | None,
    split: str,
    device: str,
    jobs: int,
    home: Path | None,
    as_json: bool,
) -> int:
    """`predict`: a finished run on other inputs, or its own test samples solved on another mesh of
    the domain.
    """
    from gsnobench.runs.predictions import write_predictions
    from gsnobench.runs.trained import load as load_run

    if (inputs is None) == (mesh is None):
        raise ParamError("predict: needs either --inputs FILE.nc or --mesh NODES")
    chosen = split_named(split)
    trained = load_run(run, home=home, device=device)
    facts: dict[str, Any] = {
        "run": trained.plan.spec.short,
        "row": trained.plan.spec.row,
        "task": trained.plan.task.id,
    }
    with progress(quiet=as_json) as report:
        machine = replace(trained.machine, jobs=jobs, report=report)
        samples = (
            _read(inputs, chosen)
            if inputs is not None
            else _solved_on(trained.plan, mesh or 0, chosen, machine)
        )
        evaluation = trained.score(samples)
        facts |= {
            "samples": len(samples),
            "nodes": samples.task.resolution,
            "rel_l2": evaluation.scores()["headline"]["rel_l2"],
        }
        if mesh is not None and trained.plan.task.fixed_mesh:
            own = _solved_on(trained.plan, trained.plan.task.resolution, chosen, machine)
            facts["rel_l2_own_mesh"] = trained.score(own).scores()["headline"]["rel_l2"]
            facts["rel_l2_interpolated"] = trained.interpolation_floor(own, samples)
    if out is not None:
        write_predictions(out, samples, trained.predict(samples), trained.plan)
        facts["written"] = str(out)
    print_facts(facts, as_json)
    return 0


def _read(path: Path, split: Split) -> Samples:
    if not path.exists():
        raise DataError(f"{path}: no such file; expected a NetCDF file with inputs")
    return _whole(path, split)


def _whole(path: Path, split: Split) -> Samples:
    with open_file(path) as opened:
        return opened.read(split)


def _solved_on(plan: Plan, nodes: int, split: Split, machine: Machine) -> Samples:
    """The run's samples of one split, solved (not interpolated) on the mesh of so many nodes."""
    dataset = load("dataset", plan.task.dataset)
    if dataset.resolutions and nodes not in dataset.resolutions:
        known = ", ".join(str(size) for size in dataset.resolutions)
        raise ParamError(f"mesh: {dataset.name} has no mesh of {nodes} nodes; known: {known}")
    spec = plan.spec
    task = replace(
        plan.task,
        resolution=nodes,
        sizes={split: spec.sizes[split]},
        data=spec.data,
        data_seed=spec.data_seed,
    )
    label = f"{task.id} on {nodes} nodes"
    return _whole(machine.ensure_data(dataset, task, label=label), split)


# ------------------------------------------------------------------------------------------- others


def check_plugin(name: str, *, as_json: bool) -> int:
    """`check`: the contract, rule by rule."""
    from gsnobench.check import check, failed, to_json

    findings = check(kind_of(name), name)
    if as_json:
        print(to_json(findings))
    else:
        rows = [
            [
                one.code,
                "skip" if one.skipped else "ok" if one.passed else "FAIL",
                one.rule,
                one.skipped or one.detail,
            ]
            for one in findings
        ]
        print_table(f"Contract of {name}", ["code", "state", "rule", "detail"], rows)
    return 1 if failed(findings) else 0


def examine(
    *, gpu: bool, replay: bool, clean: bool, device: str, home: Path | None, as_json: bool
) -> int:
    """`doctor`: a report, or one of its treatments."""
    from gsnobench.cli import doctor

    place = open_home(home).root
    if gpu:
        print(json.dumps(doctor.gpu(device), indent=None if as_json else 2))
        return 0
    found = (
        doctor.replay(place) if replay else doctor.clean(place) if clean else doctor.report(place)
    )
    print_facts(found, as_json)
    return 0


def serve_ui(port: int, *, opens_browser: bool, home: Path | None) -> int:
    """`ui`: the MLflow UI on 127.0.0.1, with the leaderboards in it."""
    from gsnobench.boards.evidence import evidence_folders
    from gsnobench.cli.ui import serve

    place = open_home(home)
    folders = evidence_folders(place)
    return serve(
        place.root,
        port,
        lambda text: print(text, flush=True),
        evidence=folders,
        opens_browser=opens_browser,
    )


def generate_data(
    task: str, wanted: Mapping[str, Any], *, jobs: int, home: Path | None, as_json: bool
) -> int:
    """`data generate`: the file of a task."""
    dataset, resolved = resolved_task(task, wanted)
    with progress(quiet=as_json) as report:
        machine = Machine(open_home(home), choose_device("cpu"), jobs, report=report)
        path = machine.ensure_data(dataset, resolved)
    with open_file(path, resolved) as opened:
        facts = {
            "task": resolved.id,
            "file": str(path),
            "samples": dict(resolved.sizes),
            "content_hash": opened.content_hash,
        }
    print_facts(facts, as_json)
    return 0


def resolved_task(task: str, wanted: Mapping[str, Any]) -> tuple[Dataset, Task]:
    """A dataset and the task that an id and data options mean."""
    dataset: Dataset = dataset_named(task)
    knobs = {name.removeprefix("data."): value for name, value in wanted["knobs"].items()}
    odd = next((name for name in wanted["knobs"] if not name.startswith("data.")), None)
    if odd is not None:
        raise ParamError(f"--{odd}: data have only --data.NAME knobs")
    rest = {name: value for name, value in wanted.items() if name != "knobs"}
    return dataset, resolve(dataset, task, knobs=knobs, **rest)


def verify_data(file: Path, *, as_json: bool) -> int:
    """`data verify`: the checksum of a file."""
    from gsnobench.datasets.store import verify

    verify(file)
    print_facts({"file": str(file), "state": "whole"}, as_json)
    return 0


def import_data(source: Path, out: Path, task_file: Path, *, as_json: bool) -> int:
    """`data import`: plain arrays -> NetCDF."""
    from gsnobench.datasets.from_numpy import import_npz
    from gsnobench.datasets.store import write
    from gsnobench.datasets.task_json import task_from_json

    try:
        text = task_file.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{task_file}: cannot be read ({error.strerror}); expected the task as JSON"
        ) from error
    splits = import_npz(source, task_from_json(text))
    write(out, splits, provenance={"title": source.stem, "source": f"imported from {source.name}"})
    print_facts(
        {"file": str(out), "samples": {split: len(samples) for split, samples in splits.items()}},
        as_json,
    )
    return 0
