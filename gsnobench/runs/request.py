"""What a person requests of a run, and the data of it: those of a task, or of a NetCDF file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gsnobench.data import Family, Task
from gsnobench.datasets.imported import refuse_unimported
from gsnobench.datasets.store import open_file, verify
from gsnobench.datasets.tasks import resolve
from gsnobench.declare import Dataset
from gsnobench.errors import ParamError, RunError
from gsnobench.plugins import dataset_named
from gsnobench.reading import InputFile
from gsnobench.registry import Registry

SECTIONS = ("model", "train", "data")
Sections = dict[str, dict[str, Any]]  # section -> knob -> value


@dataclass(frozen=True)
class Request:
    """What a person requests; None means "as the track, the preset or the dataset says"."""

    model: str  # also MODEL@PRESET, as rows of boards are called
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


def sections(knobs: Mapping[str, Any]) -> Sections:
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


# --------------------------------------------------------------------------------------------- data


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


def data_of(request: Request, knobs: Mapping[str, Any], registry: Registry) -> Data:
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
