"""A request -> a Plan: task, model and every setting resolved, with the RunSpec that names the run.

Three ways lead to a Plan, and all end in the same RunSpec: `make_plan` resolves what a person
requests, `plan_of_spec` what another process requests, `plan_of_stored` what a finished run was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
BUDGETS = ("epochs", "steps")  # knobs of the section train that set the number of steps
Sections = dict[str, dict[str, Any]]  # section -> knob -> value


@dataclass(frozen=True)
class Request:
    """What a person requests; None means "as the track, the preset or the dataset says"."""

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

    @property
    def title(self) -> str:
        """What pictures and files of the run are headed with."""
        return f"{self.spec.row} on {self.task.id}"


def make_plan(request: Request, registry: Registry | None = None) -> Plan:
    """Resolve a request; every mistake in it is one clear line."""
    registry = registry or read_registry()
    track = registry.track(request.track)
    knobs = _sections(request.knobs or {})
    budget = {name: knobs["train"].pop(name) for name in BUDGETS if name in knobs["train"]}
    model, preset = _model_and_preset(request, track)
    data = _data(request, knobs["data"])
    task = data.task
    settings = _settings(model, preset, task, registry=registry, knobs=knobs)
    params = settings.params
    declined = model.declines(task)
    horizon = model.horizon(task, params) if declined is None else Horizon(task.t_in, task.t_out)
    phases = _phases(model, task, horizon, params) if declined is None else ()
    steps, is_calibrated = _budget(
        track,
        phases,
        epoch_steps=steps_per_epoch(task.sizes["train"], len(task.starts), settings.train),
        requested=budget,
        committed=registry.calibrated(track.name, task.id, settings.registry_row),
    )
    return Plan(
        task=task,
        model=model,
        preset=settings.preset,
        params=params,
        train=settings.train,
        horizon=horizon,
        phases=phases,
        spec=_spec(request, model, data, settings, steps),
        dataset=data.dataset,
        file=data.file,
        is_calibrated=is_calibrated,
        declined=declined,
    )


def plan_of_spec(spec: RunSpec, registry: Registry | None = None) -> Plan:
    """The plan of a spec that was made elsewhere.

    A spec is enough to repeat a run on any machine: it holds every knob with its value, so that
    neither preset nor registry decides anything, and the numbers of steps, which are copied. What
    it cannot hold is the code: if the plugins installed here resolve it to another spec, it is
    refused. That is why executors send a RunSpec and receive a RunResult, both as JSON.
    """
    if spec.source:
        raise RunError(f"{spec.task}: a run on a file stays where the file is; use `gsnobench run`")
    sections = {"model": spec.model_params, "train": spec.train_params, "data": spec.data}
    request = Request(
        model=spec.model,
        dataset=spec.task,
        track=spec.track,
        preset=spec.preset,
        seed=spec.seed,
        data_seed=spec.data_seed,
        resolution=spec.resolution,
        samples=spec.sizes["train"],
        knobs={
            f"{section}.{name}": value
            for section, values in sections.items()
            for name, value in values.items()
        },
    )
    plan = make_plan(request, registry)
    plan = replace(plan, spec=replace(plan.spec, steps=dict(spec.steps)))
    here = plan.spec.to_dict()
    differing = [name for name, value in spec.to_dict().items() if here[name] != value]
    if differing:
        raise RunError(
            f"{spec.row} on {spec.task}: {', '.join(differing)} differ here; install the versions "
            "of the machine that requested it"
        )
    return plan


def plan_of_stored(spec: RunSpec, task: Task) -> Plan:
    """The plan of a finished run from its spec and task: all that predicting needs.

    The settings are final, so no preset, registry or dataset is read. The plan has no data.
    """
    model = configured(load("model", spec.model), spec.preset)
    if model.revision != spec.revision:
        raise RunError(
            f"{spec.model}: the run has revision {spec.revision}, installed is {model.revision}; "
            "repeat the run"
        )
    params = model.params.make(spec.model_params)
    horizon = model.horizon(task, params)
    return Plan(
        task=task,
        model=model,
        preset=Preset(**spec.scaling),
        params=params,
        train=TrainParams.make(spec.train_params, label="train"),
        horizon=horizon,
        phases=_phases(model, task, horizon, params),
        spec=spec,
        dataset=None,
        file=None,
        is_calibrated=True,
        declined=None,
    )


def with_seed(plan: Plan, seed: int) -> Plan:
    """The same plan under another training seed."""
    return replace(plan, spec=replace(plan.spec, seed=seed))


def configured(model: Model, preset: str) -> Model:
    """A model as a preset of that name uses it: as it is, or with computed inputs."""
    return with_features(model) if preset.endswith(FEATURES) else model


def _sections(knobs: Mapping[str, Any]) -> Sections:
    """Dotted knobs by section."""
    table: Sections = {section: {} for section in SECTIONS}
    for dotted, value in knobs.items():
        section, _, name = dotted.partition(".")
        if section not in table or not name:
            raise ParamError(
                f"--{dotted}: unknown option; knobs are written --model.NAME, --train.NAME or "
                "--data.NAME"
            )
        table[section][name] = value
    return table


# ------------------------------------------------------------------------- step 1: model and preset


def _model_and_preset(request: Request, track: Track) -> tuple[Model, str]:
    """The model and the name of its preset."""
    declared: Model = load("model", request.model)
    name = request.preset or declared.default_preset(track)
    model = configured(declared, name)
    if name.removesuffix(FEATURES) not in model.presets:
        known = [*model.presets, *(f"{preset}{FEATURES}" for preset in model.presets)]
        raise ParamError(f"{model.name}: no preset {name!r}; {did_you_mean(name, known)}")
    return model, name


# ------------------------------------------------------------------------------------- step 2: data


@dataclass(frozen=True, eq=False)
class Data:
    """The data of a plan: a task of a dataset plugin, or of a NetCDF file with this content."""

    task: Task
    dataset: Dataset | None = None
    file: Path | None = None
    content_hash: str = ""  # of the file


def _data(request: Request, knobs: Mapping[str, Any]) -> Data:
    path = Path(request.dataset)
    if path.suffix == ".nc":
        return _data_of_file(path, request, knobs)
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
    return Data(task, dataset=dataset)


def _data_of_file(path: Path, request: Request, knobs: Mapping[str, Any]) -> Data:
    if not path.exists():
        raise RunError(f"{path}: no such file; expected a NetCDF file or a task such as 'swe'")
    if knobs:
        raise ParamError(f"data.{next(iter(knobs))}: a file has no data knobs; drop the option")
    verify(path)  # the key of the run holds the content hash: the file must be what it says
    with open_file(path) as opened:
        task, content_hash = opened.task, opened.content_hash
    return Data(_rewindowed(task, request), file=path, content_hash=content_hash)


def _rewindowed(task: Task, request: Request) -> Task:
    """Another division of a file's trajectory into given and predicted frames."""
    frames = len(task.times)
    t_in = task.t_in if request.t_in is None else request.t_in
    t_out = request.t_out or (task.t_out if request.t_in is None else frames - t_in)
    if t_in < 0 or t_out < 1 or t_in + t_out > frames:
        raise ParamError(
            f"{task.id}: t_in {t_in} + t_out {t_out} does not fit {frames} frames; choose fewer"
        )
    if (t_in, t_out) == (task.t_in, task.t_out):
        return task
    # the id is part of the key: another window, another run
    return replace(task.narrowed(t_in, t_out), id=f"{task.base}@{t_in}-{t_out}")


# ----------------------------------------------------------------------------------- step 3: params


@dataclass(frozen=True, eq=False)
class Settings:
    """A preset by name, and the knobs of the model and of its training."""

    preset_name: str
    registry_row: str  # with computed inputs or without: the same knobs and steps in registry.toml
    preset: Preset
    params: Params
    train: TrainParams


def _settings(
    model: Model, preset_name: str, task: Task, *, registry: Registry, knobs: Sections
) -> Settings:
    """Preset, plugin's settings, registry, request: a later one overrides an earlier one."""
    base = preset_name.removesuffix(FEATURES)
    row = f"{model.name}@{base}"
    preset = model.presets[base]
    if base != preset_name:
        preset = offered_preset(preset, task)
    # a plugin's settings for a task: by its whole id, else without the window
    by_preset = model.settings.get(task.id) or model.settings.get(task.base) or {}
    layers = (
        _sections(by_preset.get(base, {})),
        _sections(registry.settings(task.id, row)),
        knobs,
    )
    return Settings(
        preset_name=preset_name,
        registry_row=row,
        preset=preset,
        params=model.params.make(
            preset.model, *(layer["model"] for layer in layers), label="model"
        ),
        train=TrainParams.make(preset.train, *(layer["train"] for layer in layers), label="train"),
    )


def _phases(model: Model, task: Task, horizon: Horizon, params: Params) -> tuple[Phase, ...]:
    return model.phases(task.narrowed(horizon.window, horizon.steps), params)


# ----------------------------------------------------------------------------------- step 4: budget


def _budget(
    track: Track,
    phases: Sequence[Phase],
    *,
    epoch_steps: int,
    requested: Mapping[str, Any],
    committed: Mapping[str, int] | None,
) -> tuple[dict[str, int], bool]:
    """Optimiser steps per phase, and whether somebody chose them for this pair.

    The command line decides, else the committed count, else the track's default.
    """
    if requested:
        name, text = next(iter(requested.items()))
        if not str(text).isdigit() or int(text) < 1:
            raise ParamError(
                f"train.{name}: {text!r} is not a whole number above 0; expected for example 100"
            )
        total = int(text) * (epoch_steps if name == "epochs" else 1)
    elif committed is not None:
        return {phase.name: committed.get(phase.name, 0) for phase in phases}, True
    else:
        total = track.epochs * epoch_steps if track.epochs else track.default_steps
    share = sum(phase.share for phase in phases if phase.solve is None) or 1.0
    steps = {
        phase.name: 0 if phase.solve else max(1, round(total * phase.share / share))
        for phase in phases
    }
    is_closed_form = all(phase.solve is not None for phase in phases)
    is_chosen = bool(requested) or committed is not None or is_closed_form or track.epochs > 0
    return steps, is_chosen


# --------------------------------------------------------------------------------------------- spec


def _spec(
    request: Request, model: Model, data: Data, settings: Settings, steps: dict[str, int]
) -> RunSpec:
    task, preset = data.task, settings.preset
    return RunSpec(
        task=task.id,
        version=task.version,
        track=request.track,
        resolution=task.resolution,
        sizes=dict(task.sizes),
        data=dict(task.data),
        data_seed=task.data_seed,
        model=model.name,
        preset=settings.preset_name,
        revision=model.revision,
        model_params=settings.params.to_dict(),
        train_params=settings.train.to_dict(),
        scaling={
            "inputs": preset.inputs,
            "outputs": preset.outputs,
            "points": preset.points,
            "impose_boundary": preset.impose_boundary,
        },
        steps=steps,
        seed=request.seed,
        source=data.content_hash,
    )
