"""A request -> a Plan: task, model and every setting resolved, with the RunSpec that names the run.

Three ways lead to a Plan, and all end in the same RunSpec: `make_plan` resolves what a person
requests, `plan_of_spec` what another process requests, `plan_of_stored` what a finished run was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsnobench.data import Task
from gsnobench.declare import Dataset, Horizon, Model, Phase
from gsnobench.errors import ParamError, RunError, did_you_mean
from gsnobench.params import Params
from gsnobench.plugins import load
from gsnobench.records import FEATURES, RunSpec, StepsFrom
from gsnobench.registry import Registry, Track, read_registry
from gsnobench.runs.request import Data, Request, data_of, sections
from gsnobench.runs.settings import BUDGETS, Settings, committed_steps, settings_of, steps_of
from gsnobench.training.offered import with_features
from gsnobench.training.optimisation import TrainParams, steps_per_epoch


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
    knobs = sections(request.knobs or {})
    budget = {name: knobs["train"].pop(name) for name in BUDGETS if name in knobs["train"]}
    model, preset = model_and_preset(request.model, request.preset, track)
    data = data_of(request, knobs["data"], registry)
    task = data.task
    settings = settings_of(model, preset, data, registry=registry, knobs=knobs)
    committed = settings_of(model, preset, data, registry=registry, knobs=sections({}))
    declined = model.declines(task)
    counts, steps_from = committed_steps(registry, track, model, data, settings.registry_row)

    def steps(of: Settings, requested: Mapping[str, Any]) -> dict[str, int]:
        if declined is not None:
            return {}
        phases = _phases(model, task, model.horizon(task, of.params), of.params)
        epoch_steps = steps_per_epoch(task.sizes["train"], len(task.starts), of.train)
        return steps_of(track, phases, epoch_steps, requested=requested, committed=counts)

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
    tables = {"model": spec.model_params, "train": spec.train_params, "data": spec.data}
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
            for section, values in tables.items()
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


def model_and_preset(
    model: str, preset: str | None, track: Track | None = None
) -> tuple[Model, str]:
    """A model and the name of its preset; `gsno@paper` names both, as boards do."""
    named, _, of_row = model.partition("@")
    if of_row and preset not in (None, of_row):
        raise ParamError(f"{model}: is another preset than --preset {preset}; name one of them")
    declared: Model = load("model", named)
    name = of_row or preset or declared.default_preset(track)
    if name.removesuffix(FEATURES) not in declared.presets:
        known = [*declared.presets, *(f"{known}{FEATURES}" for known in declared.presets)]
        raise ParamError(f"{named}: no preset {name!r}; {did_you_mean(name, known)}")
    return configured(declared, name), name


def _phases(model: Model, task: Task, horizon: Horizon, params: Params) -> tuple[Phase, ...]:
    return model.phases(task.narrowed(horizon.window, horizon.steps), params)


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
