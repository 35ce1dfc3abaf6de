"""What a task id such as `swe@5-46` means: dataset, variant and window -> Task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gsnobench.data import Task
from gsnobench.declare import Dataset, Sizes
from gsnobench.errors import ParamError, did_you_mean
from gsnobench.params import Knob, Value
from gsnobench.plugins import dataset_named

TINY = "tiny"  # the track of `Dataset.tiny`, for checks


def resolve(
    dataset: Dataset,
    text: str,
    *,
    track: str,
    t_in: int | None = None,
    t_out: int | None = None,
    resolution: int | None = None,
    samples: int | None = None,
    knobs: Mapping[str, object] | None = None,
    data_seed: int = 0,
) -> Task:
    """The task of an id `dataset[_variant][@t_in-t_out]` and of options; a mistake is one line.

    `samples` is the number of training samples; the other splits stay those of the track, so that
    scores compare.
    """
    variant, window = _matched(dataset, text)
    declared = _track(dataset, track)
    given = dict(knobs or {})  # every dataset has the knob --data.resolution
    default = declared.resolution if resolution is None else resolution
    nodes = _resolution(dataset, given.pop("resolution", default))
    params = dataset.params.make(dataset.variants.get(variant, {}), given, label="data")
    variant = _named(dataset, params.to_dict(), variant)
    task = Task(
        id=f"{dataset.name}_{variant}" if variant else dataset.name,
        dataset=dataset.name,
        fields=dataset.fields,
        dim=dataset.dim,
        static=dataset.static,
        scalars=dataset.scalars,
        tags=dataset.tags,
        times=dataset.times,
        corresponds=dataset.corresponds,
        fixed_mesh=dataset.fixed_mesh,
        resolution=nodes,
        sizes=_sizes(declared, samples),
        version=dataset.revision,
        data=params.to_dict(),
        data_seed=int(Knob("seed", int, 0, "", low=0).check(data_seed, "data")),
    )
    chosen = _window(dataset, text, window, t_in, t_out)
    return with_window(dataset, dataset.adjust(task, params), chosen)


def with_window(dataset: Dataset, task: Task, window: tuple[int, int]) -> Task:
    """The task of a window, its id in canonical form: with the window if there is a choice."""
    base, frames, length = task.base, len(dataset.times), sum(window)
    return replace(
        task,
        id=f"{base}@{window[0]}-{window[1]}" if frames > 1 else base,
        t_in=window[0],
        t_out=window[1],
        starts=tuple(start for start in dataset.starts if start + length <= frames),
    )


def _track(dataset: Dataset, track: str) -> Sizes:
    tracks = {**dataset.sizes, TINY: dataset.tiny}
    if track not in tracks:
        raise ParamError(f"{dataset.name}: no track {track!r}; {did_you_mean(track, tracks)}")
    return tracks[track]


def _sizes(declared: Sizes, samples: int | None) -> dict[str, int]:
    if samples is not None and samples < 1:
        raise ParamError(
            f"samples: {samples!r} is out of range; expected at least 1 training sample"
        )
    sizes = {**declared.splits(), "train": declared.train if samples is None else samples}
    return {split: size for split, size in sizes.items() if size}


def _matched(dataset: Dataset, text: str) -> tuple[str, tuple[int, int] | None]:
    """(variant or "", window) of an id, matched against the declared names."""
    base, mark, tail = text.partition("@")
    declared = {dataset.name: ""}
    declared |= {f"{dataset.name}_{variant}": variant for variant in dataset.variants}
    if base not in declared:
        raise ParamError(
            f"{text}: {dataset.name} has no variant of this name; {did_you_mean(base, declared)}"
        )
    if not mark:
        return declared[base], None
    window = re.fullmatch(r"(\d{1,6})-(\d{1,6})", tail)
    if window is None:
        raise ParamError(
            f"{text}: {tail!r} is not a window; expected T_IN-T_OUT, such as {base}@5-46"
        )
    return declared[base], (int(window[1]), int(window[2]))


def _named(dataset: Dataset, values: Mapping[str, Value], variant: str) -> str:
    """The variant whose knobs (or whose defaults) equal these values, else the given name."""
    defaults = {"": {}, **dataset.variants}
    equal = [
        name
        for name, knobs in defaults.items()
        if dataset.params.make(knobs, label="data").to_dict() == values
    ]
    return variant if variant in equal or not equal else equal[0]


def _window(
    dataset: Dataset, text: str, window: tuple[int, int] | None, t_in: int | None, t_out: int | None
) -> tuple[int, int]:
    frames, last_start = len(dataset.times), max(dataset.starts)
    if window is not None:
        for name, given, stated in (("t_in", t_in, window[0]), ("t_out", t_out, window[1])):
            if given not in (None, stated):
                raise ParamError(
                    f"{text}: the id says {name} {stated}, the option {given}; give one of them"
                )
        t_in, t_out = window
    inputs = dataset.t_in if t_in is None else t_in
    outputs = frames - inputs - last_start if t_out is None else t_out
    if inputs < 0 or outputs < 1 or min(dataset.starts) + inputs + outputs > frames:
        raise ParamError(
            f"{text}: t_in {inputs} + t_out {outputs} does not fit; a trajectory of {dataset.name} "
            f"has {frames} frame{'s' if frames > 1 else ''}, and t_out is at least 1"
        )
    return inputs, outputs


def default_window(dataset: Dataset, text: str) -> tuple[int, int]:
    """The window that a task id without one means."""
    return _window(dataset, text, None, None, None)


def _resolution(dataset: Dataset, value: object) -> int:
    nodes = int(Knob("resolution", int, 0, "", low=0).check(value, "data"))
    if dataset.resolutions and nodes not in dataset.resolutions:
        known = ", ".join(str(count) for count in sorted(dataset.resolutions))
        raise ParamError(
            f"data.resolution: {dataset.name} has no mesh of {nodes!r} nodes; known: {known}"
        )
    return nodes


def named_task(text: str, *, knobs: Mapping[str, str], **options: Any) -> tuple[Dataset, Task]:
    """The installed dataset and the task of an id and of the command line's dotted data knobs."""
    dataset = dataset_named(text)
    for name in knobs:
        if not name.startswith("data."):
            raise ParamError(f"--{name}: data have only --data.NAME knobs")
    data_knobs = {name.removeprefix("data."): value for name, value in knobs.items()}
    return dataset, resolve(dataset, text, knobs=data_knobs, **options)
