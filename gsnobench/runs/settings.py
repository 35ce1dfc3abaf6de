"""What a run is made with: a preset and its knobs, and the optimiser steps of every phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gsnobench.data import Task
from gsnobench.declare import Model, Phase, Preset
from gsnobench.errors import ParamError
from gsnobench.params import Params, is_whole
from gsnobench.records import FEATURES, StepsFrom
from gsnobench.registry import Registry, Track
from gsnobench.runs.request import Data, Sections, sections
from gsnobench.training.offered import offered_preset
from gsnobench.training.optimisation import TrainParams

BUDGETS = ("epochs", "steps")  # knobs of the section train that set the number of steps


@dataclass(frozen=True, eq=False)
class Settings:
    """A preset by name, and the knobs of the model and of its training."""

    preset_name: str
    registry_row: str  # with computed inputs or without: the same knobs and steps in registry.toml
    params: Params
    train: TrainParams


def settings_of(
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
        sections(of_family.get(base, {})),
        sections(of_task.get(base, {})),
        sections(registry.settings(task.id, row)),
    ]
    held = model.params.make(preset.model, *(layer["model"] for layer in layers), label="model")
    layers += [sections(_fitted(held, task)), knobs]
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


# -------------------------------------------------------------------------------------------- steps


def committed_steps(
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


def steps_of(
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
