"""RunSpec -> RunResult: data, preprocessing, training, scores, pictures, records; interrupted work is resumed, not repeated."""

from __future__ import annotations

import json
import math
import platform
import resource
import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import gsnobench
from gsnobench.cache import Cache, atomic, lock, write_text
from gsnobench.cases import draw_cases
from gsnobench.checkpoint import Progress, drop_checkpoint, has_checkpoint
from gsnobench.data import Samples, Split
from gsnobench.declare import Metric, Reference
from gsnobench.errors import GsnobenchError, PluginError, Prune, RunError
from gsnobench.evaluate import Evaluation, evaluate_split
from gsnobench.figures import curve
from gsnobench.home import Home, open_home
from gsnobench.loader import Loader, compute_geometry
from gsnobench.normalize import Normaliser, fit_normaliser
from gsnobench.plan import Plan, Request, make_plan
from gsnobench.plugins import listed, load, load_observers, notify, provenance
from gsnobench.prepare import ensure
from gsnobench.records import RunResult, Status, evidence_path
from gsnobench.store import Opened, open_file
from gsnobench.task_json import task_to_json
from gsnobench.train import Job, fit, mix

MOST_CURVE_POINTS = 60


@dataclass(frozen=True)
class Report:
    """Where progress goes; every call is cheap and may be ignored."""

    stage: Callable[[str], None] = lambda text: None
    data: Callable[[int, int], None] = lambda done, total: None
    step: Callable[[int, int, float], None] = lambda step, total, best: None
    warn: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Where:
    """The machine's side of a run: nothing here changes the question."""

    home: Home
    device: torch.device
    jobs: int = 0
    tags: Mapping[str, str] | None = None
    report: Report = Report()


def run(
    model: str, dataset: str, *, home: Path | None = None, device: str = "auto", force: bool = False, **wanted: Any
) -> RunResult:
    """Train and score one model on one task; a finished run is shown, an interrupted one resumed. See `plan.Request`."""
    plan = make_plan(Request(model=model, dataset=dataset, **wanted))
    return execute(plan, Where(open_home(home), choose_device(device)), force=force)


def choose_device(text: str) -> torch.device:
    """`auto` is CUDA if there is one, else the CPU."""
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
    except RuntimeError:
        raise RunError(f"device: {text!r} is not a device; expected auto, cpu, cuda or cuda:0") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RunError("device: no CUDA device is available here; use --device cpu")
    return device


def finished(plan: Plan, home: Home) -> RunResult | None:
    """The stored result of this very question, if there is one."""
    path = home.run_folder(plan.spec.key) / "result.json"
    return RunResult.load(path) if path.exists() else None


def execute(plan: Plan, where: Where, *, force: bool = False) -> RunResult:
    """Run the plan in its folder, one process at a time; the result is written before anybody is told."""
    folder = where.home.run_folder(plan.spec.key)
    with lock(where.home.runs / f".{plan.spec.key[:12]}.lock"):
        stored = finished(plan, where.home)
        if stored is not None and stored.status != "failed" and not force:
            return stored
        if (force or stored is not None) and folder.exists():
            shutil.rmtree(folder)
        write_text(folder / "spec.json", json.dumps(plan.spec.to_dict(), indent=1) + "\n")
        write_text(folder / "task.json", task_to_json(plan.task) + "\n")
        observed = Observed(plan, where, folder)
        try:
            result = _answer(plan, where, folder, observed)
        except GsnobenchError:
            if not has_checkpoint(folder):  # nothing was done that could be resumed
                shutil.rmtree(folder)
            raise
        if result.status == "done":
            result.save(evidence_path(where.home.results, plan.spec))
        result.save(folder / "result.json")
        drop_checkpoint(folder)
        observed.finished(result)
        return result


class Observed:
    """The observers of one run; their troubles become warnings, only `gb.Prune` gets through."""

    def __init__(self, plan: Plan, where: Where, folder: Path) -> None:
        self.plan, self.where, self.folder = plan, where, folder
        self.observers, problems = load_observers()
        self.has_started = False
        self._warn(problems)

    def started(self) -> None:
        """The run is about to train: its data and geometry are in order."""
        self.has_started = True
        tags = _tags(self.plan, self.where)
        self._notify("gsnobench_run_started", spec=self.plan.spec, folder=self.folder, tags=tags)

    def epoch(self, phase: str, epoch: int, scores: Mapping[str, float]) -> None:
        """An epoch ended."""
        self._notify("gsnobench_epoch_ended", spec=self.plan.spec, phase=phase, epoch=epoch, scores=scores)

    def finished(self, result: RunResult) -> None:
        """The result is final and written."""
        if not self.has_started:
            self.started()
        self._notify("gsnobench_run_finished", result=result, folder=self.folder)

    def _notify(self, hook: str, **details: Any) -> None:
        self._warn(notify(self.observers, hook, **details))

    def _warn(self, problems: list[str]) -> None:
        for problem in problems:
            self.where.report.warn(problem)


def is_interrupted(plan: Plan, home: Home) -> bool:
    """Whether an earlier attempt at this run left something to go on from."""
    folder = home.run_folder(plan.spec.key)
    return has_checkpoint(folder) or ((folder / "spec.json").exists() and not (folder / "result.json").exists())


def _tags(plan: Plan, where: Where) -> dict[str, str]:
    packages = {"model": provenance("model", plan.model.name)}
    if plan.dataset is not None:
        packages["dataset"] = provenance("dataset", plan.dataset.name)
    texts = {f"{kind}_package": f"{one['package']} {one['version']}" for kind, one in packages.items()}
    return {**texts, **(where.tags or {})}


def _answer(plan: Plan, where: Where, folder: Path, observed: Observed) -> RunResult:
    """The result in every case: declined, pruned, failed, diverged or done. A user's mistake is raised, not recorded."""
    environment = describe_environment(where.device)
    if plan.declined is not None:
        return RunResult(plan.spec, "declined", plan.declined, environment=environment)
    try:
        return _train_and_score(plan, where, folder, observed, environment)
    except GsnobenchError:
        raise
    except Prune as pruned:
        return RunResult(plan.spec, "pruned", str(pruned), environment=environment)
    except Exception as error:
        write_text(folder / "traceback.txt", traceback.format_exc())
        reason = "memory" if isinstance(error, (MemoryError, torch.OutOfMemoryError)) else f"{type(error).__name__}: {error}"
        return RunResult(plan.spec, "failed", reason.splitlines()[0][:300], environment=environment)


# ------------------------------------------------------------------------------------------------------ the run itself


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything between the data and the training: module, statistics, reference."""

    module: nn.Module
    normaliser: Normaliser
    reference: Reference
    prepare_cpu_s: float


def _train_and_score(plan: Plan, where: Where, folder: Path, observed: Observed, environment: dict[str, Any]) -> RunResult:
    report = where.report
    path = data_path(plan, where)
    with open_file(path, plan.task) as opened:
        data = {
            "hash": opened.content_hash,
            "fingerprint": opened.fingerprint,
            "origin": "file" if plan.dataset is None else "generated",
        }
        report.stage("preparing geometry")
        setup = prepare(plan, where, opened.split("train"))
        train, valid = (make_loader(plan, where, setup, opened.split(split)) for split in ("train", "valid"))
        observed.started()
        report.stage(f"training {plan.spec.row} on {plan.task.id}")
        job = Job(
            module=setup.module,
            train=train,
            valid=valid,
            phases=plan.phases,
            steps=plan.spec.steps,
            horizon=plan.horizon,
            frames=plan.task.t_out,
            params=plan.train,
            seed=plan.spec.seed,
            folder=folder,
            on_epoch=observed.epoch,
            on_step=report.step,
        )
        outcome = fit(job)
        costs = _costs(setup, outcome.progress, where.device)
        thinned = _thin(outcome.progress.curve)
        lines = "".join(json.dumps(point) + "\n" for point in outcome.progress.curve)
        write_text(folder / "curve.jsonl", lines)
        if outcome.reason:
            return RunResult(
                plan.spec, "diverged", outcome.reason, curve=thinned, costs=costs, data=data, environment=environment
            )
        save_weights(folder, setup)
        report.stage("scoring")
        tables = {split: _score(plan, where, setup, opened, split) for split in scored_splits(opened)}
        test = tables["test"]
        status: Status = "done" if math.isfinite(test.scores()["headline"]["rel_l2"]) else "diverged"
        if not plan.model.is_floor:
            _draw(
                plan,
                where,
                folder,
                setup.module,
                make_loader(plan, where, setup, opened.split("test")),
                test,
                outcome.progress.curve,
            )
        return RunResult(
            spec=plan.spec,
            status=status,
            reason="" if status == "done" else "the test error is not finite",
            scores={split: table.scores() for split, table in tables.items()},
            samples=test.sample_table(plan.task),
            frames=test.frame_table() if plan.task.t_out > 1 else {},
            curve=thinned,
            costs={**costs, "inference_s": test.inference_s},
            data=data,
            environment=environment,
        )


def data_path(plan: Plan, where: Where) -> Path:
    """The NetCDF file of the plan's data, generated if it is not there."""
    if plan.dataset is None:
        assert plan.file is not None
        return plan.file
    where.report.stage(f"data of {plan.task.id}")
    return ensure(plan.dataset, plan.task, home=where.home.root, jobs=where.jobs, progress=where.report.data)


def scored_splits(opened: Opened) -> list[Split]:
    """Splits that are scored after training; out-of-distribution samples only where there are any."""
    wanted: tuple[Split, ...] = ("valid", "test", "test_ood")
    return [split for split in wanted if opened.task.sizes.get(split, 0) > 0]


def prepare(plan: Plan, where: Where, train: Samples) -> Setup:
    """Statistics and reference of the training split, and the module with its initial weights."""
    cpu = time.process_time()
    reference = plan.model.reference(train, plan.params) if plan.model.reference is not None else {}
    normaliser = fit_normaliser(train, plan.preset)
    torch.manual_seed(mix(plan.spec.seed, "weights"))
    with torch.device("cpu"):  # the same initial weights whatever the device
        module = plan.model.build(plan.task.narrowed(plan.horizon.window, plan.horizon.steps), plan.params)
    for mesh in train.meshes:  # counted here, so that loaders find everything in the cache
        compute_geometry(plan.model, plan.params, train.task, mesh, reference=reference, cache=Cache(where.home.cache))
    return Setup(module.to(where.device), normaliser, reference, time.process_time() - cpu)


def make_loader(plan: Plan, where: Where, setup: Setup, samples: Samples) -> Loader:
    """Batches of a split as this plan's model sees them."""
    task = samples.task.narrowed(plan.horizon.window, plan.horizon.steps)
    cache = Cache(where.home.cache)
    geometries = [
        compute_geometry(plan.model, plan.params, samples.task, mesh, reference=setup.reference, cache=cache)
        for mesh in samples.meshes
    ]
    return Loader(
        samples,
        task=task,
        normaliser=setup.normaliser,
        geometries=geometries,
        device=where.device,
        impose_boundary=plan.preset.impose_boundary,
    )


def save_weights(folder: Path, setup: Setup) -> None:
    """Weights, statistics and reference, as safetensors."""
    state = {name: value.detach().cpu().contiguous() for name, value in setup.module.state_dict().items()}
    statistics = {name: value.cpu().contiguous() for name, value in setup.normaliser.state().items()}
    reference = {f"reference.{name}": torch.from_numpy(np.ascontiguousarray(value)) for name, value in setup.reference.items()}
    for name, tensors in (("weights", state), ("reference", statistics | reference)):
        with atomic(folder / f"{name}.safetensors") as part:
            save_file(tensors, part)


def _score(plan: Plan, where: Where, setup: Setup, opened: Opened, split: Split) -> Evaluation:
    loader = make_loader(plan, where, setup, opened.split(split))
    return evaluate_split(setup.module, loader, plan.task.t_out, plan.train.batch, _metrics())


def _metrics() -> tuple[Metric, ...]:
    """The metric plugins that are installed; a broken one is shown by `list` and hurts nobody here."""
    found = []
    for entry in listed("metric"):
        with suppress(PluginError):
            found.append(load("metric", entry.name))
    return tuple(found)


def _draw(
    plan: Plan, where: Where, folder: Path, module: nn.Module, loader: Loader, test: Evaluation, history: list[dict[str, Any]]
) -> None:
    """The picture of the run; a picture that fails must not cost the run."""
    where.report.stage("drawing")
    try:
        draw_cases(folder, plan, module, loader, test)
        curve(folder / "figures" / "curve.png", history, title=f"{plan.spec.row} on {plan.task.id}")
    except Exception as error:
        where.report.warn(f"{plan.spec.row}: no picture ({type(error).__name__}: {error}); the scores are not affected")


def _thin(curve: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    """At most so many points, the last one always among them."""
    if len(curve) <= MOST_CURVE_POINTS:
        return list(curve)
    chosen = sorted({round(i * (len(curve) - 1) / (MOST_CURVE_POINTS - 1)) for i in range(MOST_CURVE_POINTS)})
    return [curve[i] for i in chosen]


# ------------------------------------------------------------------------------------------------------ costs and context


def _costs(setup: Setup, progress: Progress, device: torch.device) -> dict[str, float]:
    clock = progress.clock
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device) / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {
        "prepare_s": setup.prepare_cpu_s,
        "train_cpu_s": clock.train_cpu_s,
        "train_s": clock.train_s,
        "validate_cpu_s": clock.validate_cpu_s,
        "peak_mb": peak,
        "parameters": count_parameters(setup.module),
    }


def count_parameters(module: nn.Module) -> int:
    """Trained real numbers; a complex parameter counts twice."""
    return sum(one.numel() * (2 if one.is_complex() else 1) for one in module.parameters() if one.requires_grad)


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions and hardware, as far as they can matter for a number."""
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
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
