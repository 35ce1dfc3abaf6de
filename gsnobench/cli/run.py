"""`gsnobench run` and `gsnobench predict`: train and score a model, and use a finished run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsnobench.api.progress import progress
from gsnobench.cli.console import knob_table, print_facts, print_result
from gsnobench.cli.options import (
    KNOBS,
    DatasetOption,
    DeviceOption,
    HomeOption,
    JobsOption,
    JsonOption,
    ModelOption,
    PresetOption,
    SamplesOption,
    ThreadsOption,
    TrackOption,
    check_names,
    knobs_of,
)
from gsnobench.cli.table import print_table
from gsnobench.errors import ParamError, RunError
from gsnobench.home import Home, open_tidy_home

if TYPE_CHECKING:
    from gsnobench.data import Samples, Split
    from gsnobench.records import RunResult
    from gsnobench.runs.machine import Machine
    from gsnobench.runs.plan import Plan
    from gsnobench.runs.stages import Run

app = typer.Typer()

FACTOR = "/ best floor"  # heading of the error divided by that of the best floor
MORE_COLUMNS = (FACTOR, "valid", "raw", "RMSE", "parameters", "train CPU-s", "ms per sample")
SPARE = ("raw", "RMSE", "ms per sample", "parameters", "valid")  # left out first, in this order


@app.command(context_settings=KNOBS, add_help_option=False)
def run(
    context: typer.Context,
    model: ModelOption = "",
    dataset: DatasetOption = "",
    track: TrackOption = "laptop",
    preset: PresetOption = None,
    seed: Annotated[int, typer.Option(help="Training seed.")] = 0,
    t_in: Annotated[int | None, typer.Option(help="Given frames.")] = None,
    t_out: Annotated[
        int | None, typer.Option(help="Frames to predict (default: all that follow).")
    ] = None,
    samples: SamplesOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    jobs: JobsOption = 0,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted run; refuse if there is none."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Repeat a finished run.")] = False,
    floors: Annotated[
        bool, typer.Option("--floors/--no-floors", help="Also run the floor models of the task.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would run: time, disk, memory.")
    ] = False,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Also write bundle.zip: weights and test predictions.")
    ] = False,
    gif: Annotated[
        bool, typer.Option("--gif", help="Also animate the median test sample.")
    ] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="All columns, also in a narrow terminal.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
    wants_help: Annotated[
        bool, typer.Option("--help", help="This text; with --model, also its knobs.")
    ] = False,
) -> int:
    """Train a model on a task and score it beside the floors, with a picture and a tracked run.

    Knobs are options too: --model.k_s 16 --train.lr 0.002 --train.epochs 100 --data.seed 1
    --data.resolution 1830.

    For example: gsnobench run --model gsno@paper --dataset darcy --model.k_s 16
    """
    if wants_help:
        print(context.get_help())
        _print_knobs(model, preset, dataset)
        return 0
    if not model or not dataset:
        example = "gsnobench run --model gsno --dataset swe"
        raise ParamError(f"run: needs --model and --dataset; for example: {example}")
    knobs = knobs_of(context.args)
    check_names(models=[model], datasets=[dataset], track=track)
    if not as_json:  # the imports below take seconds
        print(f"- {model} on {dataset}, track {track}", file=sys.stderr, flush=True)
    from gsnobench.api.running import run_floors
    from gsnobench.registry import read_registry
    from gsnobench.runs.animation import check_animable
    from gsnobench.runs.calibrate import counted_plan
    from gsnobench.runs.machine import Machine, choose_device
    from gsnobench.runs.plan import make_plan
    from gsnobench.runs.request import Request
    from gsnobench.runs.run import run_plan
    from gsnobench.runs.stages import Run

    request = Request(model, dataset, track=track, preset=preset, seed=seed, **knobs)
    request = replace(request, t_in=t_in, t_out=t_out, samples=samples)
    folders = open_tidy_home(home)
    plan = make_plan(request, read_registry(home=folders))
    if gif:
        check_animable(plan.task)
    if resume:
        _check_resumable(plan, folders)
    if dry_run:
        facts = _forecast(plan, folders)
        print_result(facts, lambda: print_facts(facts), as_json=as_json)
        return 0
    is_shown = not force and _state(plan, folders) == "finished"  # with force it may be damaged
    if not as_json:
        print(f"  {_plan_line(plan)}", file=sys.stderr, flush=True)
    with progress(quiet=as_json) as report:
        machine = Machine(
            folders, choose_device(device), jobs=jobs, threads=threads, report=report, gif=gif
        )
        plan = counted_plan(request, machine)
        result = run_plan(plan, machine, force=force)  # first: a mistake must not cost the floors
        floor_results = run_floors(request, machine) if floors else ()
        finished = Run.at_home(plan, machine)
        finished.draw_curve(_validation_errors(floor_results))
        extras = _write_extras(finished, result, bundle=bundle)
    document = {
        "folder": str(folders.run_folder(plan.spec.key).path),
        **{name: str(path) for name, path in extras.items()},
        "result": json.loads(result.to_json()),
        "floors": [json.loads(floor.to_json()) for floor in floor_results],
    }
    files = _picture(plan, folders) | extras

    def show() -> None:
        _print_run(plan, result, floor_results, wide=wide)
        _print_notes(plan, result, floor_results, home=folders, is_shown=is_shown)
        for name, path in files.items():
            print(f"{name:<8} {path}")
        print(f"run      {plan.spec.short}  (gsnobench show {plan.spec.short})")
        print("browse   gsnobench ui")

    print_result(document, show, as_json=as_json)
    return 0 if result.status in ("done", "declined", "pruned") else 3


def _print_knobs(model: str, preset_name: str | None, dataset: str) -> None:
    """The knobs of a model, of the training and of a dataset, where they are named."""
    if not model:
        return
    check_names(models=[model], datasets=[dataset] if dataset else [])
    from gsnobench.plugins import dataset_named
    from gsnobench.records import FEATURES
    from gsnobench.runs.plan import model_and_preset
    from gsnobench.training.optimisation import TrainParams

    declared, name = model_and_preset(model, preset_name)
    preset = declared.presets[name.removesuffix(FEATURES)]
    others = ", ".join(declared.presets)
    title = f"Knobs of {declared.name} in the preset {name} (presets: {others})"
    print_table(title, *knob_table(declared.params, "model", preset=name, settings=preset.model))
    title = "Training (also --train.epochs or --train.steps)"
    print_table(title, *knob_table(TrainParams, "train", preset=name, settings=preset.train))
    if dataset:
        data = dataset_named(dataset)
        title = f"Data of {data.name} (also --data.seed, --data.resolution)"
        print_table(title, *knob_table(data.params, "data"))


def _state(plan: Plan, home: Home) -> str:
    from gsnobench.runs.run import finished_result, is_interrupted

    if finished_result(plan, home):
        return "finished"
    return "interrupted" if is_interrupted(plan, home) else "new"


def _check_resumable(plan: Plan, home: Home) -> None:
    state = _state(plan, home)
    if state != "interrupted":
        reason = "it is finished" if state == "finished" else "it has not been started"
        raise RunError(f"run {plan.spec.short}: nothing to resume, {reason}; leave --resume out")


def _forecast(plan: Plan, home: Home) -> dict[str, Any]:
    """What `--dry-run` shows."""
    from gsnobench.datasets.ensure import estimate
    from gsnobench.registry import read_registry

    budget = read_registry().track(plan.spec.track).train_cpu_s
    needs = estimate(plan.dataset, plan.task) if plan.dataset is not None else None
    return {
        "task": plan.task.id,
        "row": plan.spec.row,
        "key": plan.spec.short,
        "state": _state(plan, home),
        "samples": dict(plan.task.sizes),
        "nodes": plan.task.resolution,
        "steps": "to be counted" if plan.is_uncounted else dict(plan.spec.steps),
        "train_cpu_s": budget if plan.is_counted and budget else None,
        "disk_mb": None if needs is None else round(needs.disk_bytes / 2**20, 1),
        "memory_mb": None if needs is None else round(needs.memory_bytes / 2**20, 1),
    }


def _validation_errors(results: Sequence[RunResult]) -> dict[str, float]:
    """Model -> headline on validation, of the results that have one."""
    done = [result for result in results if result.status == "done"]
    return {
        result.spec.model: result.scores["valid"]["headline"]["rel_l2"]
        for result in done
        if "valid" in result.scores
    }


def _write_extras(run: Run, result: RunResult, *, bundle: bool) -> dict[str, Path]:
    """The bundle and the animation, if requested; also of a run that was finished before."""
    from gsnobench.runs.bundle import write_bundle

    machine, written = run.machine, dict[str, Path]()
    if result.status != "done":
        if bundle or machine.gif:
            machine.report.warn(
                f"{result.spec.row}: ended {result.status}; there is nothing to bundle or animate"
            )
        return written
    if bundle:
        written["bundle"] = write_bundle(run)
    if machine.gif:
        written["gif"] = run.folder.gif
        if not written["gif"].exists():  # floors and runs finished before are not animated yet
            _animate_finished(run)
    return written


def _animate_finished(run: Run) -> None:
    from gsnobench.runs.trained import load as load_run

    machine = run.machine
    machine.report.stage("animating")
    trained = load_run(run.folder.path, home=machine.home.root, device=str(machine.device))
    with run.open_data() as data:
        test = data.split("test")
        loader, scores = trained.loader(test), trained.score(test)
        run.animate(trained.setup, loader, scores, data.time_unit)


def _picture(plan: Plan, home: Home) -> dict[str, Path]:
    path = home.run_folder(plan.spec.key).picture
    return {"picture": path} if path.exists() else {}


def _print_run(plan: Plan, result: RunResult, floors: Sequence[RunResult], *, wide: bool) -> None:
    """The table of a run and the floors, the best first."""
    task, spec = plan.task, plan.spec
    field = _scored_field(plan)
    results = sorted((result, *floors), key=_rank)
    best = min((_rank(floor) for floor in floors), default=math.nan)
    header, rows = _without_empty(
        [_error_heading(plan), *MORE_COLUMNS], [_row(entry, field, best) for entry in results]
    )
    title = f"{task.id}, {_nodes(plan)}, track {spec.track}, test errors (lower is better)"
    mark = results.index(result)
    print_table(title, ["model", *header], rows, mark=mark, spare=SPARE, wide=wide)


def _scored_field(plan: Plan) -> str:
    """The field that is scored, or the mean of all of them."""
    scored = list(plan.task.scored)
    return scored[0] if len(scored) == 1 else "headline"


def _error_heading(plan: Plan) -> str:
    field, reference = _scored_field(plan), plan.task.fields[0].reference
    if field == "headline":
        return "rel L2, mean of fields"
    return f"rel L2 of {field} - {reference:g}" if reference else f"rel L2 of {field}"


def _without_empty(
    header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Columns after the first, without those that hold nothing in any row."""
    kept = [at for at in range(len(header)) if any(row[at + 1] != "-" for row in rows)]
    return [header[at] for at in kept], [[row[0], *(row[at + 1] for at in kept)] for row in rows]


def _nodes(plan: Plan) -> str:
    """The size of the mesh; where a dataset makes any size, a mesh only comes near it."""
    is_exact = plan.dataset is None or bool(plan.dataset.resolutions)
    return f"{'' if is_exact else 'about '}{plan.task.resolution} nodes"


def _plan_line(plan: Plan) -> str:
    """What is about to run, in a line."""
    task, steps = plan.task, sum(plan.spec.steps.values())
    words = [f"{plan.spec.row} on {task.id}", _nodes(plan)]
    words += [f"{task.sizes['train']} training samples"]
    words += ["steps to be counted" if plan.is_uncounted else f"{steps} steps"] if steps else []
    return ", ".join(words)


def _print_notes(
    plan: Plan, result: RunResult, floors: Sequence[RunResult], *, home: Home, is_shown: bool
) -> None:
    """What a reader of the table must know."""
    from gsnobench.api.boards import rivals_of
    from gsnobench.api.result import against, best_of
    from gsnobench.registry import read_registry

    spec, track = plan.spec, read_registry().track(plan.spec.track)
    if result.status != "done":
        print(f"{spec.row}: {result.status}, {result.reason}")
        if (log := home.run_folder(spec.key).traceback).exists():
            print(f"traceback  {log}")
    elif (floor := best_of(floors)) is not None:
        print(f"{spec.row}: {result.headline:.4g}, {against(result, floor)}")
    if result.status == "done" and (rivals := rivals_of(result, home)) is not None:
        better, others = rivals
        words = f"--track {spec.track} --task {spec.task}"
        verb = "has" if better == 1 else "have"
        print(
            f"{better} of {others} other rows {verb} a lower error; places need more than one seed:"
        )
        print(f"  gsnobench leaderboard show {words}")
    if result.changed:
        settings = ", ".join(f"{name}={value}" for name, value in result.changed.items())
        print(f"note: a variant of {spec.row}, not ranked as it: {settings}")
    if plan.steps_from == "home" and not result.changed and any(spec.steps.values()):
        print(f"note: the steps were counted on this machine and are kept in {home.steps}; only")
        print("      the boards of this home rank them")
    if track.train_cpu_s and not track.counts_steps and any(spec.steps.values()):
        steps = sum(spec.steps.values())
        print(f"note: {steps} steps on track {track.name} test the machinery; they are no result")
    if is_shown:
        print("note: finished before, shown from its record; --force repeats it")


def _rank(result: RunResult) -> float:
    return result.headline if math.isfinite(result.headline) else math.inf


def _row(result: RunResult, field: str, best_floor: float) -> list[str]:
    test = result.scores.get("test", {}).get(field, {})
    valid = result.scores.get("valid", {}).get(field, {})
    numbers = (test.get("rel_l2"), valid.get("rel_l2"), test.get("rel_l2_raw"), test.get("rmse"))
    errors = ["-" if number is None else f"{number:.4g}" for number in numbers]
    if result.status != "done":
        errors[0] = result.status
    costs = result.costs
    parameters, cpu_s = costs.get("parameters", 0), costs.get("train_cpu_s", 0)
    milliseconds = 1000 * costs.get("inference_s", 0)
    efforts = [f"{parameters:,.0f}", f"{cpu_s:.1f}", f"{milliseconds:.2f}"]
    factor = result.headline / best_floor
    return [
        *(result.spec.row, errors[0], f"{factor:#.3g}" if math.isfinite(factor) else "-"),
        *(*errors[1:], *efforts),
    ]


# ------------------------------------------------------------------------------------------ predict


@app.command()
def predict(
    run: Annotated[str, typer.Argument(help="A run: its folder, or the first letters of its key.")],
    inputs: Annotated[
        Path | None, typer.Option(help="NetCDF file with inputs; the truth may be absent.")
    ] = None,
    mesh: Annotated[
        int | None,
        typer.Option(
            help="In place of --inputs: the run's own samples, solved on a mesh of N nodes."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the predictions to this NetCDF file.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to predict.")] = "test",
    device: DeviceOption = "auto",
    jobs: JobsOption = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Predict with a finished run on new inputs or on another mesh; score where truth is known."""
    if (inputs is None) == (mesh is None):
        raise ParamError("predict: needs either --inputs FILE.nc or --mesh NODES")
    from gsnobench.data import split_named

    chosen = split_named(split)
    from gsnobench.datasets.inputs import read_inputs
    from gsnobench.runs.predictions import write_predictions
    from gsnobench.runs.trained import load as load_run

    trained = load_run(run, home=home, device=device)
    plan = trained.plan
    facts: dict[str, Any] = {"run": plan.spec.short, "row": plan.spec.row, "task": plan.task.id}
    with progress(quiet=as_json) as report:
        machine = replace(trained.machine, jobs=jobs, report=report)
        if inputs is not None:
            given = read_inputs(inputs, chosen, plan.task)
            samples, has_truth = given.samples, given.has_truth
        else:
            samples, has_truth = _solved_on(plan, mesh or 0, chosen, machine), True
        facts |= {"samples": len(samples), "nodes": samples.task.resolution}
        if has_truth:
            facts["rel_l2"] = trained.score(samples).scores()["headline"]["rel_l2"]
        elif out is None:
            raise ParamError(f"predict: {inputs} has no truth to compare with; add --out FILE.nc")
        if mesh is not None and plan.task.fixed_mesh:
            own = _solved_on(plan, plan.task.resolution, chosen, machine)
            facts["rel_l2_own_mesh"] = trained.score(own).scores()["headline"]["rel_l2"]
            facts["rel_l2_interpolated"] = trained.interpolation_floor(own, samples)
    if out is not None:
        write_predictions(out, samples, trained.predict(samples), plan)
        facts["written"] = str(out)
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


def _solved_on(plan: Plan, nodes: int, split: Split, machine: Machine) -> Samples:
    """The run's samples of one split, solved (not interpolated) on the mesh with `nodes` nodes."""
    from gsnobench.datasets.store import open_file
    from gsnobench.plugins import load

    dataset = load("dataset", plan.task.dataset)
    if dataset.resolutions and nodes not in dataset.resolutions:
        known = ", ".join(str(size) for size in dataset.resolutions)
        raise ParamError(f"mesh: {dataset.name} has no mesh of {nodes} nodes; known: {known}")
    spec = plan.spec
    sizes: dict[str, int] = {split: spec.sizes[split]}
    task = replace(
        plan.task, resolution=nodes, sizes=sizes, data=spec.data, data_seed=spec.data_seed
    )
    label = f"{task.id} on {nodes} nodes"
    with open_file(machine.ensure_data(dataset, task, label=label)) as opened:
        return opened.read(split)
