"""A request -> a Plan: task, model and every setting resolved, with the RunSpec that names the run.

Three ways lead to a Plan, and all end in the same RunSpec: `make_plan` resolves what a person
requests, `plan_of_spec` what another process requests, `plan_of_stored` what a finished run was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gsnobench.data import Family, Task
from gsnobench.datasets.imported import refuse_unimported
from gsnobench.datasets.store import open_file, verify
from gsnobench.datasets.tasks import resolve
from gsnobench.declare import Dataset, Horizon, Model, Phase, Preset
from gsnobench.errors import ParamError, RunError, did_you_mean
from gsnobench.params import Params, is_whole
from gsnobench.plugins import dataset_named, load
from gsnobench.reading import InputFile
from gsnobench.records import FEATURES, RunSpec, StepsFrom
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
    origin: str = ""  # who chose the knobs, if not a person: "tuned, 12 trials"
    knobs: Mapping[str, str] | None = None  # dotted: model.k_s, train.lr, train.epochs, data.psi


@dataclass(frozen=True, eq=False)
class Plan:
    """A request with nothing left open."""

    task: Task
    model: Model
    params: Params
    train: TrainParams
    horizon: Horizon
    phases: tuple[Phase, ...]
    spec: RunSpec
    dataset: Dataset | None  # None: the data come from `file`
    file: Path | None
    declined: str | None
    # the settings of the unmodified preset at its committed steps, and who counted those
    committed: Mapping[str, Any]
    steps_from: StepsFrom
    is_uncounted: bool  # the steps are a guess: nobody counted or requested them
    count_name: str  # the task's name among the step counts of a home
    # nodes and training samples that a study changed: its runs are no rows of any board
    studied: Mapping[str, int]

    @property
    def changed(self) -> dict[str, Any]:
        """Settings that differ from the preset at its committed steps; none: the row itself."""
        chosen = self.spec.settings
        names = sorted({*chosen, *self.committed})
        differing = {
            name: chosen.get(name) for name in names if chosen.get(name) != self.committed.get(name)
        }
        return {**differing, **self.studied}

    @property
    def is_counted(self) -> bool:
        """Whether the steps were measured for this pair, so that its cost is about the budget."""
        return self.steps_from != "track"

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
    data = _data(request, knobs["data"], registry)
    task = data.task
    settings = _settings(model, preset, data, registry=registry, knobs=knobs)
    committed = _settings(model, preset, data, registry=registry, knobs=_sections({}))
    declined = model.declines(task)
    counts, steps_from = _committed_steps(registry, track, model, data, settings.registry_row)

    def steps(of: Settings, requested: Mapping[str, Any]) -> dict[str, int]:
        if declined is not None:
            return {}
        phases = _phases(model, task, model.horizon(task, of.params), of.params)
        epoch_steps = steps_per_epoch(task.sizes["train"], len(task.starts), of.train)
        return _steps(track, phases, epoch_steps, requested=requested, committed=counts)

    params = settings.params
    horizon = model.horizon(task, params) if declined is None else Horizon(task.t_in, task.t_out)
    row = _spec(request, model, data, committed, steps(committed, {}))
    return Plan(
        task=task,
        model=model,
        params=params,
        train=settings.train,
        horizon=horizon,
        phases=_phases(model, task, horizon, params) if declined is None else (),
        spec=_spec(request, model, data, settings, steps(settings, budget)),
        dataset=data.dataset,
        file=data.file,
        declined=declined,
        committed=row.settings,
        steps_from=steps_from,
        is_uncounted=track.counts_steps
        and steps_from == "track"
        and not budget
        and any(row.steps.values()),
        count_name=data.count_name,
        studied=data.unusual if request.origin else {},
    )


def plan_of_spec(spec: RunSpec, registry: Registry | None = None) -> Plan:
    """The plan of a spec that was made elsewhere.

    A spec is enough to repeat a run on any machine: it holds every knob with its value, so that
    neither preset nor registry decides anything, and the numbers of steps, which are copied. What
    it cannot hold is the code: if the plugins installed here resolve it to another spec, it is
    refused. That is why executors send a RunSpec and receive a RunResult, both as JSON.
    """
    registry = registry or read_registry()
    window: dict[str, int] = {}
    if spec.source:
        t_in, mark, t_out = spec.task.partition("@")[2].partition("-")
        window = {"t_in": int(t_in), "t_out": int(t_out)} if mark else {}
    sections = {"model": spec.model_params, "train": spec.train_params, "data": spec.data}
    request = Request(
        model=spec.model,
        dataset=str(known_file(spec, registry)) if spec.source else spec.task,
        **window,
        track=spec.track,
        preset=spec.preset,
        seed=spec.seed,
        origin=spec.origin,
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
    if plan.spec.key != spec.key:
        here = plan.spec.to_dict()
        differing = [name for name, value in spec.to_dict().items() if here[name] != value]
        raise RunError(
            f"{spec.row} on {spec.task}: {', '.join(differing)} differ here; install the versions "
            "of the machine that requested it"
        )
    return plan


def known_file(spec: RunSpec, registry: Registry) -> Path:
    """The data file of a run on a file, where this home last saw it."""
    path = registry.files.get(spec.source)
    if path is None or not Path(path).is_file():
        last = f"; it was {path}" if path else ""
        raise RunError(
            f"{spec.task}: its data file {spec.source[:12]} is not known here{last}; name it with "
            "--data FILE.nc, or run once with --dataset FILE.nc"
        )
    return Path(path)


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
        params=params,
        train=TrainParams.make(spec.train_params, label="train"),
        horizon=horizon,
        phases=_phases(model, task, horizon, params),
        spec=spec,
        dataset=None,
        file=None,
        declined=None,
        committed=spec.settings,
        steps_from="track",
        is_uncounted=False,
        count_name=task.id,
        studied={},
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
    # nodes and training samples where nobody chooses others, as settings
    usual: Mapping[str, int] = field(default_factory=dict)

    @property
    def family(self) -> Family:
        """The family whose settings apply."""
        declared = None if self.dataset is None else self.dataset.family
        return declared or self.task.family

    @property
    def unusual(self) -> dict[str, int]:
        """Nodes and training samples, where they are not those of the track or of the file."""
        chosen = _sizes(self.task.resolution, self.task.sizes["train"])
        return {name: value for name, value in chosen.items() if value != self.usual[name]}

    @property
    def count_name(self) -> str:
        """The task's name among the step counts of a home: a count is of one file and one size."""
        file = f"#{self.content_hash[:12]}" if self.content_hash else ""
        sizes = ", ".join(f"{name}={value}" for name, value in self.unusual.items())
        return f"{self.task.id}{file}" + (f" [{sizes}]" if sizes else "")


def _data(request: Request, knobs: Mapping[str, Any], registry: Registry) -> Data:
    path = registry.file(request.dataset)
    if path is not None:
        return _data_of_file(path, request, knobs)
    refuse_unimported(request.dataset)
    dataset = dataset_named(request.dataset)
    knobs = {**knobs, **_known_inputs(dataset, knobs, registry)}
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
    declared = dataset.sizes.get(request.track, dataset.tiny)
    return Data(task, dataset=dataset, usual=_sizes(declared.resolution, declared.train))


def _known_inputs(
    dataset: Dataset, knobs: Mapping[str, Any], registry: Registry
) -> dict[str, InputFile]:
    """Files that a spec names by their content, with the path where this home last saw them."""
    named = {knob.name for knob in dataset.params.knobs() if knob.type is InputFile}
    known = {name: registry.files.get(knobs[name]) for name in named.intersection(knobs)}
    return {name: InputFile(knobs[name], Path(path)) for name, path in known.items() if path}


def _sizes(nodes: int, samples: int) -> dict[str, int]:
    return {"data.resolution": nodes, "data.samples": samples}


def _data_of_file(path: Path, request: Request, knobs: Mapping[str, Any]) -> Data:
    task, content_hash = task_of_file(path)
    if knobs:
        raise ParamError(f"data.{next(iter(knobs))}: a file has no data knobs; drop the option")
    if request.resolution not in (None, task.resolution):
        raise ParamError(
            f"data.resolution: {path.name} has one mesh size, {task.resolution} nodes; drop the "
            "option"
        )
    return Data(
        _rewindowed(_with_samples(task, request.samples), request),
        file=path,
        content_hash=content_hash,
        usual=_sizes(task.resolution, task.sizes.get("train", 0)),
    )


def _with_samples(task: Task, samples: int | None) -> Task:
    """The task with the first training samples of its file alone."""
    own = task.sizes.get("train", 0)
    if samples is None or samples == own:
        return task
    if not 1 <= samples < own:
        raise ParamError(
            f"samples: {samples} of the {own} training samples of {task.id}; choose fewer"
        )
    return replace(task, sizes={**task.sizes, "train": samples})


def task_of_file(path: Path) -> tuple[Task, str]:
    """Task and content hash of a data file; a mistake in it is one line."""
    if not path.exists():
        raise RunError(f"{path}: no such file; expected a NetCDF file or a task such as 'swe'")
    state = path.stat()
    return _verified(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=16)  # a matrix plans many runs on one file; a changed one has another time
def _verified(path: Path, size: int, changed: int) -> tuple[Task, str]:
    """Task and content hash of a file that is what it says: the key of a run holds the hash."""
    verify(path)
    with open_file(path) as opened:
        return opened.task, opened.content_hash


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
    params: Params
    train: TrainParams


def _settings(
    model: Model, preset_name: str, data: Data, *, registry: Registry, knobs: Sections
) -> Settings:
    """Preset, plugin's settings, registry, request: a later one overrides an earlier one."""
    task = data.task
    base = preset_name.removesuffix(FEATURES)
    row = f"{model.name}@{base}"
    preset = model.presets[base]
    if base != preset_name:
        preset = offered_preset(preset, task)
    of_family = model.settings.get(data.family, {})
    # a plugin's settings for a task: by its whole id, else without the window
    of_task = model.settings.get(task.id) or model.settings.get(task.base) or {}
    layers = [
        _sections(of_family.get(base, {})),
        _sections(of_task.get(base, {})),
        _sections(registry.settings(task.id, row)),
    ]
    held = model.params.make(preset.model, *(layer["model"] for layer in layers), label="model")
    layers += [_sections(_fitted(held, task)), knobs]
    return Settings(
        preset_name=preset_name,
        registry_row=row,
        params=model.params.make(
            preset.model, *(layer["model"] for layer in layers), label="model"
        ),
        train=_train_params(task, preset, *(layer["train"] for layer in layers)),
    )


def _fitted(params: Params, task: Task) -> dict[str, Any]:
    """Knobs of a preset that a small mesh cannot carry, lowered to a third of its nodes.

    A mesh of so few nodes has about as many inside as on its boundary.
    """
    most = task.resolution // 3
    return {
        f"model.{knob.name}": max(most, int(knob.low or 1))
        for knob in params.knobs()
        if knob.fits_mesh and 0 < most < getattr(params, knob.name)
    }


def _train_params(task: Task, preset: Preset, *layers: Mapping[str, Any]) -> TrainParams:
    params = TrainParams.make(preset.train, *layers, label="train")
    if params.predict == "change" and not task.t_in:
        raise ParamError(
            f"train.predict: {task.id} gives no frame that a change could start from; "
            "leave it at 'field'"
        )
    return params


def _phases(model: Model, task: Task, horizon: Horizon, params: Params) -> tuple[Phase, ...]:
    return model.phases(task.narrowed(horizon.window, horizon.steps), params)


# ----------------------------------------------------------------------------------- step 4: budget


def _committed_steps(
    registry: Registry, track: Track, model: Model, data: Data, row: str
) -> tuple[dict[str, int] | None, StepsFrom]:
    """Steps per phase that somebody counted for this pair, and who: None if nobody did.

    The registry decides, else the plugin, else this home; else the track has a rule.
    """
    if track.epochs:
        return None, "track"
    name = data.task.id
    # a person's file may have the name of a task of the benchmark
    is_its_own = data.file is not None and name.partition("@")[0] in registry.board_tasks
    committed = None if is_its_own else registry.calibrated(track.name, name, row)
    if committed is not None:
        return committed, "registry"
    shipped = model.steps.get(track.name, {}).get(name, {}).get(row.partition("@")[2])
    if shipped is not None:
        return dict(shipped), "plugin"
    counted = registry.counted_at_home(track.name, data.count_name, row)
    return (counted, "home") if counted is not None else (None, "track")


def _steps(
    track: Track,
    phases: Sequence[Phase],
    epoch_steps: int,
    *,
    requested: Mapping[str, Any],
    committed: Mapping[str, int] | None,
) -> dict[str, int]:
    """Optimiser steps per phase: as requested, else as counted, else by the track's rule."""
    if requested:
        total = _requested_steps(requested, epoch_steps)
    elif committed is not None:
        return {phase.name: committed.get(phase.name, 0) for phase in phases}
    else:
        total = track.epochs * epoch_steps if track.epochs else track.default_steps
    share = sum(phase.share for phase in phases if phase.solve is None) or 1.0
    return {
        phase.name: 0 if phase.solve else max(1, round(total * phase.share / share))
        for phase in phases
    }


def _requested_steps(requested: Mapping[str, Any], epoch_steps: int) -> int:
    name, text = next(iter(requested.items()))
    if not is_whole(str(text)) or int(text) < 1:
        raise ParamError(
            f"train.{name}: {text!r} is not a whole number above 0; expected for example 100"
        )
    return int(text) * (epoch_steps if name == "epochs" else 1)


# --------------------------------------------------------------------------------------------- spec


def _spec(
    request: Request, model: Model, data: Data, settings: Settings, steps: dict[str, int]
) -> RunSpec:
    task, dataset = data.task, data.dataset
    defaults = {"model": settings.params.at_default(), "train": settings.train.at_default()}
    if dataset is not None:
        defaults["data"] = dataset.params.make(task.data, label="data").at_default()
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
        steps=steps,
        seed=request.seed,
        source=data.content_hash,
        defaults=tuple(
            sorted(f"{section}.{name}" for section in defaults for name in defaults[section])
        ),
        origin=request.origin,
    )
