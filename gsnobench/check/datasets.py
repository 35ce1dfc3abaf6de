"""The contract of a dataset: a complete declaration, and a solver whose samples agree with it."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsnobench.check.findings import Finding, Rule, complaints, judge, require
from gsnobench.data import SPLITS, Array, Field, Mesh, Split
from gsnobench.declare import Dataset, Sample
from gsnobench.errors import describe_error
from gsnobench.files import Cache
from gsnobench.meshes.operators import elements
from gsnobench.registry import read_registry

TINY_CPU_S = 20.0
SEED = 0


@dataclass(frozen=True, eq=False)
class Made:
    """The tiny version of a dataset, as its plugin made it."""

    dataset: Dataset
    setup: Any
    shared: Mesh | None
    samples: dict[Split, list[Sample]]
    cpu_s: float

    def mesh_of(self, sample: Sample) -> Mesh:
        """The sample's own mesh, else the shared one."""
        mesh = sample.mesh if sample.mesh is not None else self.shared
        require(mesh is not None, "mesh(setup) gives None, so every sample must carry its mesh")
        assert mesh is not None
        return mesh

    def labelled(self) -> Iterator[tuple[str, Sample]]:
        """Every sample with its split and index."""
        for split, samples in self.samples.items():
            yield from ((f"{split} {index}", sample) for index, sample in enumerate(samples))

    def meshes(self) -> Iterator[tuple[str, Mesh]]:
        """The shared mesh, and every sample's own with its split and index."""
        if self.shared is not None:
            yield "shared mesh", self.shared
        for label, sample in self.labelled():
            if sample.mesh is not None:
                yield label, sample.mesh


def check_dataset(dataset: Dataset) -> list[Finding]:
    """All rules, in the order of their codes."""
    declared = [judge(rule, {"": dataset}) for rule in DECLARATION]
    sentence = f"the tiny version is made within {TINY_CPU_S:g} CPU-seconds"
    try:
        made = make_tiny(dataset)
    except Exception as error:
        return [*declared, Finding("D004", sentence, False, describe_error(error))]
    generated = Finding("D004", sentence, made.cpu_s <= TINY_CPU_S, f"{made.cpu_s:.1f} CPU-s")
    return [*declared, generated, *(judge(rule, {"": made}) for rule in GENERATED)]


def make_tiny(dataset: Dataset) -> Made:
    """Let the plugin make the tiny version, without a cache."""
    started = time.process_time()
    setup = dataset.setup(dataset.params.make(label="data"), dataset.tiny.resolution, Cache())
    counts = dataset.tiny.splits()
    samples = {
        split: list(dataset.generate(setup, SEED, split, range(counts[split])))
        for split in SPLITS
        if counts[split]
    }
    return Made(dataset, setup, dataset.mesh(setup), samples, time.process_time() - started)


# -------------------------------------------------------------------------------------- declaration


def _is_complete(dataset: Dataset) -> None:
    missing = [track for track in read_registry().tracks if track not in dataset.sizes]
    empty = [name for name in ("title", "solver", "licence", "cites") if not getattr(dataset, name)]
    smallest = min(dataset.tiny.train, dataset.tiny.valid, dataset.tiny.test)
    complaints(
        [
            *_name_checks(dataset),
            (not missing, f"sizes lack the tracks {', '.join(missing)}"),
            (not empty, "; ".join(f"{name} is empty" for name in empty)),
            (smallest >= 1, "tiny needs a sample in train, valid and test"),
            (dataset.dim in (1, 2, 3), f"dim is {dataset.dim}"),
            (all(knob.help for knob in dataset.params.knobs()), "a knob has no help"),
            (dataset.revision >= 1, f"revision is {dataset.revision}; count from 1"),
        ]
    )
    for variant, values in dataset.variants.items():
        is_valid = bool(re.fullmatch("[a-z0-9]+", variant))
        require(is_valid, f"variant {variant!r}; expected lower-case letters and digits")
        dataset.params.make(values, label=f"variant {variant}")


def _name_checks(dataset: Dataset) -> list[tuple[bool, str]]:
    fields = (*dataset.fields, *dataset.static, *dataset.scalars)
    names = [field.name for field in fields]
    is_valid = bool(re.fullmatch("[a-z][a-z0-9]*", dataset.name))
    are_unique = all(names) and len(set(names)) == len(names)
    have_units = all(field.unit for field in fields)
    return [
        (is_valid, f"name {dataset.name!r}; expected lower-case letters and digits"),
        (bool(dataset.fields), "fields are empty"),
        (are_unique, f"names of fields, static and scalars are not unique: {names}"),
        (have_units, "a field has no unit; write '1' for a pure number"),
    ]


def _tags_are_known(dataset: Dataset) -> None:
    def unknown(field: Field) -> list[str]:
        used = set(field.boundary) | ({field.support.removeprefix("not ")} - {"all"})
        return sorted(used - set(dataset.tags))

    fields = (*dataset.fields, *dataset.static)
    complaints(
        (not unknown(field), f"{field.name} names unknown tags {unknown(field)}")
        for field in fields
    )


def _times_are_consistent(dataset: Dataset) -> None:
    frames, t_in, starts = len(dataset.times), dataset.t_in, dataset.starts
    increase = frames >= 1 and list(dataset.times) == sorted(set(dataset.times))
    last = frames - 1
    are_inside = bool(starts) and all(0 <= start < frames - t_in for start in starts)
    complaints(
        [
            (increase, "times are not strictly increasing"),
            (0 <= t_in <= last, f"t_in is {t_in}; expected 0..{last} of {frames} frames"),
            (are_inside, "a start leaves no frame to predict"),
        ]
    )


# ---------------------------------------------------------------------------------------- generated


def _shapes_are_declared(made: Made) -> None:
    dataset = made.dataset
    requested = {split: count for split, count in dataset.tiny.splits().items() if count}
    counts = {split: len(samples) for split, samples in made.samples.items()}
    require(counts == requested, f"generate() gave {counts} samples; requested {requested}")
    for label, sample in made.labelled():
        nodes = made.mesh_of(sample).size
        expected = {
            "frames": (len(dataset.times), nodes, len(dataset.fields)),
            "static": (nodes, len(dataset.static)),
            "scalars": (len(dataset.scalars),),
        }
        for name, shape in expected.items():
            got = np.shape(getattr(sample, name))
            require(got == shape, f"{label}: {name} is {got}; expected {shape}")
    for label, mesh in made.meshes():
        complaint = f"{label}: the mesh has {mesh.dim} dimensions; declared {dataset.dim}"
        require(mesh.dim == dataset.dim, complaint)


def _values_are_finite(made: Made) -> None:
    for label, sample in made.labelled():
        for name in ("frames", "static", "scalars"):
            are_finite = bool(np.all(np.isfinite(getattr(sample, name))))
            require(are_finite, f"{label}: {name} are not finite")


def _fields_vary(made: Made) -> None:
    frames = [np.asarray(sample.frames) for _, sample in made.labelled()]
    for channel, field in enumerate(made.dataset.fields):
        values = np.concatenate([frame[..., channel].ravel() for frame in frames])
        require(float(values.std()) > 0, f"{field.name} is {values[0]:.3g} everywhere")


def _hash(sample: Sample) -> str:
    digest = hashlib.sha256()
    for value in (sample.frames, sample.static, sample.scalars):
        digest.update(np.ascontiguousarray(value, dtype="<f8").tobytes())
    digest.update((sample.mesh.key if sample.mesh is not None else "").encode())
    return digest.hexdigest()


def _splits_are_disjoint(made: Made) -> None:
    seen: dict[str, str] = {}  # hash -> label
    for label, sample in made.labelled():
        key = _hash(sample)
        require(key not in seen, f"{label} equals {seen.get(key)}")
        seen[key] = label


def _samples_are_pure(made: Made) -> None:
    for split, samples in made.samples.items():
        last = len(samples) - 1
        backwards = list(made.dataset.generate(made.setup, SEED, split, [last, 0]))
        for index, sample in zip((last, 0), backwards, strict=True):
            is_same = _hash(sample) == _hash(samples[index])
            require(is_same, f"{split} {index} differs when it is made in another order or chunk")
    (other,) = made.dataset.generate(made.setup, SEED + 1, "train", [0])
    is_other = _hash(other) != _hash(made.samples["train"][0])
    require(is_other, "another data seed gives the same sample")


def _tags_exist(made: Made) -> None:
    for tag in made.dataset.tags:
        for label, mesh in made.meshes():
            missing = f"the declared tag {tag!r} is missing; the mesh has {sorted(mesh.tags)}"
            require(tag in mesh.tags, f"{label}: {missing}")
            shape = np.shape(mesh.tags[tag])
            require(shape == (mesh.size,), f"{label}: tag {tag!r} has the shape {shape}")
        is_used = any(bool(np.any(mesh.tags[tag])) for _, mesh in made.meshes())
        require(is_used, f"no node of any mesh has the tag {tag!r}")


def _meshes_are_sound(made: Made) -> None:
    for label, mesh in made.meshes():
        unique = len(np.unique(mesh.points, axis=0))
        require(unique == mesh.size, f"{label}: {mesh.size - unique} nodes are duplicates")
        if mesh.cells is not None:
            unused = mesh.size - len(np.unique(mesh.cells))
            require(unused == 0, f"{label}: {unused} nodes belong to no cell")
            elements(mesh)  # refuses flat cells and wrong numbers


def _known_values_hold(made: Made) -> None:
    """The core imposes the value 0 where a field is declared `dirichlet`."""
    for label, sample in made.labelled():
        mesh = made.mesh_of(sample)
        for channel, field in enumerate(made.dataset.fields):
            values: Array = np.asarray(sample.frames)[made.dataset.t_in :, :, channel]  # (t_out, N)
            limit = 1e-5 * float(np.abs(values).max(initial=0.0))
            for tag in (tag for tag, kind in field.boundary.items() if kind == "dirichlet"):
                on_tag = values[:, np.asarray(mesh.tags[tag], dtype=bool)]
                worst = float(np.abs(on_tag).max(initial=0.0))
                complaint = f"{field.name} reaches {worst:.3g} on the dirichlet tag {tag!r}"
                require(worst <= limit, f"{label}: {complaint}; expected 0")


DECLARATION = (
    Rule("D001", "the declaration is complete", _is_complete),
    Rule("D002", "boundaries and supports name declared tags", _tags_are_known),
    Rule("D003", "frames, window and starts fit together", _times_are_consistent),
)
GENERATED = (
    Rule("D005", "samples have the declared shapes", _shapes_are_declared),
    Rule("D006", "values are finite", _values_are_finite),
    Rule("D007", "every field varies", _fields_vary),
    Rule("D008", "no sample occurs twice, in one split or in two", _splits_are_disjoint),
    Rule("D009", "a sample is a function of seed, split and index alone", _samples_are_pure),
    Rule("D010", "declared tags exist on the meshes", _tags_exist),
    Rule("D011", "meshes have no unused or double nodes and no flat cells", _meshes_are_sound),
    Rule("D012", "known boundary values hold in the data", _known_values_hold),
)
