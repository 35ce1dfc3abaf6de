"""`gsnobench data export`: a data file as a folder that others can read, and back without loss.

The folder holds `task.json` and `provenance.json` beside the data, so that `data import` makes the
same file of it again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsnobench.data import SPLITS, Samples, Split, Task
from gsnobench.datasets.interchange import exported_arrays, exported_meshes
from gsnobench.datasets.interchange.own_dataset import kept_attributes
from gsnobench.datasets.store import Opened, open_file
from gsnobench.datasets.task_json import task_from_json, task_to_json
from gsnobench.errors import DataError, ParamError, did_you_mean
from gsnobench.files import part_of, remove_abandoned
from gsnobench.reading import read_json, read_text

FORMATS = (*exported_meshes.FORMATS, *exported_arrays.FORMATS)
TASK, PROVENANCE = "task.json", "provenance.json"
UNITS = {"time_unit": "time", "length_unit": "node_x"}  # keyword of a writer -> variable


def export(
    path: Path,
    out: Path,
    kind: str,
    *,
    splits: Sequence[Split] = SPLITS,
    samples: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Write the folder whole or not at all; `samples` are numbers within each split."""
    if kind not in FORMATS:
        raise ParamError(f"format: {kind!r} is unknown; {did_you_mean(kind, FORMATS)}")
    with open_file(path) as opened, _whole_folder(out) as folder:
        parts = _chosen(opened, splits, samples)
        task = next(iter(parts.values())).task
        (folder / TASK).write_text(task_to_json(task) + "\n", encoding="utf-8")
        provenance = json.dumps(_provenance(opened), indent=1, sort_keys=True)
        (folder / PROVENANCE).write_text(provenance + "\n", encoding="utf-8")
        if kind in exported_meshes.FORMATS:
            exported_meshes.write_meshes(folder, parts, kind)
        elif kind == "npz":
            exported_arrays.write_npz(folder, parts)
        else:
            exported_arrays.write_npy(folder, parts)
    return {
        "folder": str(out),
        "format": kind,
        "samples": {split: len(part) for split, part in parts.items()},
        "read again": f"gsnobench data import FILE.nc --from {out}",
    }


@contextmanager
def _whole_folder(out: Path) -> Iterator[Path]:
    """A new folder that gets its name when it is complete."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out}: exists and is not an empty folder; name another one with --out")
    part = part_of(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(out)
        part.mkdir()
        yield part
        part.replace(out)
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{out}: cannot be written ({reason}); free some space") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _chosen(
    opened: Opened, splits: Sequence[Split], numbers: Sequence[int] | None
) -> dict[Split, Samples]:
    parts: dict[Split, Samples] = {}
    for split in SPLITS:
        if split in splits and split in opened.task.sizes:
            whole = opened.split(split)
            own = [number for number in numbers or () if number < len(whole)]
            if numbers is None or own:
                parts[split] = whole if numbers is None else whole.take(own)
    if not parts:
        sizes = ", ".join(f"{split} {size}" for split, size in opened.task.sizes.items())
        raise ParamError(f"{opened.path}: no sample is chosen; it has {sizes}")
    return parts


def _provenance(opened: Opened) -> dict[str, str]:
    variables = opened.handle.file.variables
    units = {
        keyword: str(variables[name].units)
        for keyword, name in UNITS.items()
        if name in variables and hasattr(variables[name], "units")
    }
    return kept_attributes(opened.attributes) | units


# ------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True)
class Foreign:
    """Samples from a folder or an archive, and what a writer of files needs beside them."""

    samples: Mapping[Split, Samples]
    provenance: Mapping[str, str]
    time_unit: str = "s"
    length_unit: str = "1"


def read_foreign(source: Path, task_file: Path | None, *, by_time: bool = False) -> Foreign:
    """NumPy files, or what `export` wrote; the task is beside them unless it is given.

    `by_time` cuts long trajectories of NumPy files into windows, early ones for training.
    """
    beside = source / TASK if source.is_dir() else source.parent / TASK
    if task_file is None and not beside.exists():
        raise ParamError(
            f"import: {source} has no {TASK} beside it; give --task FILE.json, see "
            "docs/data-format.md"
        )
    task = _task(task_file or beside)
    has_meshes = source.is_dir() and any((source / split).is_dir() for split in SPLITS)
    if has_meshes:
        samples = exported_meshes.read_meshes(source, task)
    else:
        samples = exported_arrays.read_arrays(source, task, by_time=by_time)
    stated = {"title": source.stem, "source": f"imported from {source.name}"}
    notes = beside.with_name(PROVENANCE)
    if notes.exists():
        stated = _notes(notes)
    units = {name: stated.pop(name) for name in UNITS if name in stated}
    return Foreign(samples, stated, **units)


def _task(path: Path) -> Task:
    return task_from_json(read_text(path, expected="the task as JSON"))


def _notes(path: Path) -> dict[str, str]:
    notes = read_json(path, expected="texts by name; remove or mend it")
    if not isinstance(notes, dict):
        raise DataError(f"{path}: is no table of texts; remove or mend it")
    return {str(name): str(text) for name, text in notes.items()}
