"""Names and knobs -> a Plan: the task, the model and every setting resolved, and the RunSpec that
identifies the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsnobench.data import Task
from gsnobench.datasets.store import open_file, verify
from gsnobench.datasets.tasks import resolve
from gsnobench.declare import Dataset, Horizon, Model, Phase, Preset
from gsnobench.errors import ParamError, RunError, did_you_mean
from gsnobench.params import Params
from gsnobench.plugins import dataset_named, load
from gsnobench.records import FEATURES, RunSpec
from gsnobench.registry import Registry, Track, read_registry
from gsnobench.training.offered import offered_preset, with_features
from gsnobench.training.optimisation import TrainParams, steps_per_epoch

SECTIONS = ("model", "train", "data")


@dataclass(frozen=True)
class Request:
    """What a person asks for; None means "as the track, the preset or the dataset says"."""

    model: str
    dataset: str  # task id, or the path of a NetCDF file
    track: str = "laptop"
    preset: str | None = None
    seed: int = 0
    data_seed: int = 0
    t_in: int | None = None
    t_out: int | None = None
    resolution: int | None = None
    samples: int | None = None  # training samples
    knobs: Mapping[str, str] | None = None  # dotted: model.k_s, train.lr, train.epochs, data.psi


@dataclass(frozen=True, eq=False)
class Plan:
    """A request with nothing left open."""

    task: Task
    model: Model
    preset: Preset
    params: Params
    train: TrainParams
    horizon: Horizon
    phases: tuple[Phase, ...]
    spec: RunSpec
    dataset: Dataset | None  # None: the data come from `file`
    file: Path | None
    is_calibrated: bool
    declined: str | None

    @property
    def model_task(self) -> Task:
        """The task as the model sees it: narrowed to the frames of one call."""
        return self.task.narrowed(self.horizon.window, self.horizon.steps)


def make_plan(request: Request, registry: Registry | None = None) -> Plan:
    """Resolve a request; every mistake in it is one clear line."""
    registry = registry or read_registry()
    track = registry.track(request.track)
    given = _sections(request.knobs or {})
    model, name = _model_and_preset(request, track)
    dataset, file, task, source = _data(request, given["data"])
    base = name.removesuffix(FEATURES)  # with features or without: the same knobs, the same steps
    preset = model.presets[base] if base == name else offered_preset(model.presets[base], task)
    layers = (
        _settings(model, task, base),
        _sections(registry.settings(task.id, f"{model.name}@{base}")),
    )
    params = model.params.make(
        preset.model, *(layer["model"] for layer in layers), given["model"], label="model"
    )
    budget: dict[str, Any] = {
        one: given["train"].pop(one) for one in ("epochs", "steps") if one in given["train"]
    }
    train = TrainParams.make(
        preset.train, *(layer["train"] for layer in layers), given["train"], label="train"
    )
    declined = model.declines(task)
    horizon = model.horizon(task, params) if declined is None else Horizon(task.t_in, task.t_out)
    phases = (
        model.phases(task.narrowed(horizon.window, horizon.steps), params)
        if declined is None
        else ()
    )
    calibrated = registry.calibrated(request.track, task.id, f"{model.name}@{base}")
    spec = RunSpec(
        task=task.id,
        version=task.version,
        track=request.track,
        resolution=task.resolution,
        sizes=dict(task.sizes),
        data=dict(task.data),
        data_seed=task.data_seed,
        model=model.name,
        preset=name,
        revision=model.revision,
        model_params=params.to_dict(),
        train_params=train.to_dict(),
        scaling={
            "inputs": preset.inputs,
            "outputs": preset.outputs,
            "points": preset.points,
            "impose_boundary": preset.impose_boundary,
        },
        steps=_steps(phases, task, train, registry, request.track, calibrated, budget),
        seed=request.seed,
        source=source,
    )
    closed = all(phase.solve is not None for phase in phases)
    is_calibrated = (
        calibrated is not None or bool(budget) or closed or registry.track(request.track).epochs > 0
    )
    return Plan(
        task,
        model,
        preset,
        params,
        train,
        horizon,
        phases,
        spec,
        dataset,
        file,
        is_calibrated,
        declined,
    )


def configured(name: str, preset: str) -> Model:
    """A model as a preset of that name takes it: as it is, or offered features."""
    model: Model = load("model", name)
    return with_features(model) if preset.endswith(FEATURES) else model


def plan_of(spec: RunSpec, registry: Registry | None = None) -> Plan:
    """The plan that answers a question asked elsewhere; refused if this installation would answer
    another one.
    """
    if spec.source:
        raise RunError(f"{spec.task}: a run on a file stays where the file is; use `gsnobench run`")
    knobs: dict[str, Any] = {}
    for section, values in (
        ("model", spec.model_params),
        ("train", spec.train_params),
        ("data", spec.data),
    ):
        knobs |= {f"{section}.{name}": value for name, value in values.items()}
    request = Request(
        model=spec.model,
        dataset=spec.task,
        track=spec.track,
        preset=spec.preset,
        seed=spec.seed,
        data_seed=spec.data_seed,
        resolution=spec.resolution,
        samples=spec.sizes["train"],
        knobs=knobs,
    )
    plan = make_plan(request, registry)
    plan = replace(plan, spec=replace(plan.spec, steps=dict(spec.steps)))
    odd = [name for name, value in spec.to_dict().items() if plan.spec.to_dict()[name] != value]
    if odd:
        raise RunError(
            f"{spec.row} on {spec.task}: {', '.join(odd)} differ here; install the versions that "
            "asked"
        )
    return plan


def with_seed(plan: Plan, seed: int) -> Plan:
    """The same plan under another training seed."""
    return replace(plan, spec=replace(plan.spec, seed=seed))


def _sections(knobs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Dotted knobs by section."""
    table: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for dotted, value in knobs.items():
        section, _, name = dotted.partition(".")
        if section not in table or not name:
            raise ParamError(
                f"--{dotted}: unknown option; knobs are written --model.NAME, --train.NAME or "
                "--data.NAME"
            )
        table[section][name] = value
    return table


def _model_and_preset(request: Request, track: Track) -> tuple[Model, str]:
    """The model and the name of its preset."""
    name = request.preset or load("model", request.model).default_preset(track)
    model = configured(request.model, name)
    if name.removesuffix(FEATURES) not in model.presets:
        known = [*model.presets, *(f"{one}{FEATURES}" for one in model.presets)]
        raise ParamError(f"{model.name}: no preset {name!r}; {did_you_mean(name, known)}")
    return model, name


def _settings(model: Model, task: Task, preset: str) -> dict[str, dict[str, Any]]:
    """The plugin's own settings for this task: by its whole id, else without the window."""
    by_preset = model.settings.get(task.id) or model.settings.get(task.base) or {}
    return _sections(by_preset.get(preset, {}))


def _data(
    request: Request, knobs: Mapping[str, Any]
) -> tuple[Dataset | None, Path | None, Task, str]:
    path = Path(request.dataset)
    if path.suffix == ".nc":
        if not path.exists():
            raise RunError(f"{path}: no such file; expected a NetCDF file or a task such as 'swe'")
        if knobs:
            raise ParamError(f"data.{next(iter(knobs))}: a file has no data knobs; drop the option")
        verify(path)  # the key of the run holds the content hash: the file must be what it says
        with open_file(path) as opened:
            task = opened.task
            source = opened.content_hash
        return None, path, _rewindowed(task, request), source
    dataset = dataset_named(request.dataset)
    task = resolve(
        dataset,
        request.dataset,
        track=request.track,
        t_in=request.t_in,
        t_out=request.t_out,
        resolution=request.resolution,
        samples=request.samples,
        knobs=knobs,
        data_seed=request.data_seed,
    )
    return dataset, None, task, ""


def _rewindowed(task: Task, request: Request) -> Task:
    """Another split of a file's trajectory into given and wanted frames."""
    frames = len(task.times)
    t_in = task.t_in if request.t_in is None else request.t_in
    t_out = request.t_out or (task.t_out if request.t_in is None else frames - t_in)
    if t_in < 0 or t_out < 1 or t_in + t_out > frames:
        raise ParamError(
            f"{task.id}: t_in {t_in} + t_out {t_out} does not fit {frames} frames; choose fewer"
        )
    if (t_in, t_out) == (task.t_in, task.t_out):
        return task
    # another question, another key
    return replace(task.narrowed(t_in, t_out), id=f"{task.base}@{t_in}-{t_out}")


def _steps(
    phases: tuple[Phase, ...],
    task: Task,
    train: TrainParams,
    registry: Registry,
    track: str,
    calibrated: dict[str, int] | None,
    budget: Mapping[str, Any],
) -> dict[str, int]:
    """Optimiser steps per phase: the command line, else the committed count, else the track's
    default.
    """
    an_epoch = steps_per_epoch(task.sizes["train"], len(task.starts), train)
    settled = registry.track(track)
    if budget:
        name, text = next(iter(budget.items()))
        if not str(text).isdigit() or int(text) < 1:
            raise ParamError(
                f"train.{name}: {text!r} is not a whole number above 0; expected for example 100"
            )
        total = int(text) * (an_epoch if name == "epochs" else 1)
    elif calibrated is not None:
        return {phase.name: calibrated.get(phase.name, 0) for phase in phases}
    else:
        total = settled.epochs * an_epoch if settled.epochs else settled.default_steps
    share = sum(phase.share for phase in phases if phase.solve is None) or 1.0
    return {
        phase.name: 0 if phase.solve else max(1, round(total * phase.share / share))
        for phase in phases
    }
