"""Inputs without truth for a trained model: what they lack is filled with zeros, and it is said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray

from gsnobench.data import SPLITS, Samples, Split, Task
from gsnobench.datasets.store import open_file
from gsnobench.datasets.task_json import task_to_json
from gsnobench.errors import DataError

FORGOTTEN = ("content_hash", "split_hashes", "fingerprint")  # of a file that is completed


@dataclass(frozen=True)
class Inputs:
    """Samples to predict; without truth the frames to predict are zeros."""

    samples: Samples
    has_truth: bool


def read_inputs(path: Path, split: Split, task: Task) -> Inputs:
    """The samples of a split, with truth where the file holds it.

    Without truth a file needs the inputs of the task and its given frames only; a file without
    `split` is all about the asked one.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file; expected a NetCDF file with inputs")
    with _labelled(path) as data:
        if _is_complete(data, task):
            with open_file(path) as opened:
                return Inputs(opened.read(split), has_truth=True)
        with TemporaryDirectory() as folder:
            whole = Path(folder) / path.name
            _completed(data, path, split, task).to_netcdf(whole)
            try:
                with open_file(whole) as opened:
                    return Inputs(opened.read(split), has_truth=False)
            except DataError as error:
                raise DataError(str(error).replace(str(whole), str(path))) from error


def _labelled(path: Path) -> xarray.Dataset:
    try:
        return xarray.open_dataset(path, engine="netcdf4", mask_and_scale=False, decode_times=False)
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"{path}: not a readable NetCDF file ({reason}); make it again") from error


def _is_complete(data: xarray.Dataset, task: Task) -> bool:
    has_fields = all(f"field_{field.name}" in data for field in task.fields)
    frames = data.sizes.get("frame", 0)
    is_whole = has_fields and frames >= max(task.starts) + task.t_in + task.t_out
    return is_whole and "split" in data and "gsnobench_task" in data.attrs


def _completed(data: xarray.Dataset, path: Path, split: Split, task: Task) -> xarray.Dataset:
    """The file as one with truth: zeros at the frames that are to be predicted."""
    given, needed = max(task.starts) + task.t_in, max(task.starts) + task.t_in + task.t_out
    for name in ("sample", "node"):
        if name not in data.sizes:
            raise DataError(f"{path}: has no dimension {name}; see docs/data-format.md")
    names = [f"field_{field.name}" for field in task.fields]
    frames = data.sizes.get("frame", 0)
    missing = [name for name in names if name not in data]
    if task.t_in and (missing or frames < given):
        held = f"no variable {missing[0]}" if missing else f"{frames} frames"
        raise DataError(f"{path}: holds {held}; the run needs the first {given} frames as inputs")
    shape = (data.sizes["sample"], needed, data.sizes["node"])
    blank = data.drop_dims("frame") if "frame" in data.sizes else data
    blank = blank.drop_vars("time", errors="ignore")
    for name in names:
        values = np.zeros(shape, dtype=np.float32)
        if given:
            values[:, :given] = data[name].transpose("sample", "frame", "node")[:, :given]
        blank[name] = (("sample", "frame", "node"), values)
    blank["time"] = ("frame", np.asarray(task.times[:needed], dtype=np.float64))
    if "split" not in blank:
        code = SPLITS.index(split)
        blank["split"] = ("sample", np.full(shape[0], code, dtype=np.int8))
    kept = {name: value for name, value in data.attrs.items() if name not in FORGOTTEN}
    blank.attrs = {**kept, "gsnobench_task": task_to_json(task)}
    return blank
