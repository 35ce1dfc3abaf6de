"""One flipped bit in anything that is kept: noticed, or without effect; never another number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from campaign import COUNTS, SIZES, drawer, flipped, how_many
from fake_results import made_result
from torch import nn
from toy_samples import write_toy

from gsnobench.datasets.store import open_file, verify
from gsnobench.errors import GsnobenchError
from gsnobench.files import Cache, Damaged, read_arrays, write_arrays
from gsnobench.records import RunResult
from gsnobench.training.checkpoint import Checkpoint, read_checkpoint

WHOLE = 2000  # flips of all kinds together
Kept = tuple[Path, Callable[[], object]]  # a file, and what is read from it


def data_file(folder: Path) -> Kept:
    path = write_toy(folder)

    def read() -> object:
        verify(path)
        with open_file(path) as opened:
            parts = [opened.read(split) for split in opened.task.sizes]
        arrays = [np.asarray(part.frames).tobytes() for part in parts]
        return arrays, [part.mesh(0).points.tobytes() for part in parts]

    return path, read


def cache_entry(folder: Path) -> Kept:
    cache = Cache(folder / "cache")

    def read() -> object:
        made = cache.arrays("modes-v1", {"a": 1}, lambda: {"x": np.linspace(0, 1, 400)})
        return made["x"].tobytes()

    read()
    (path,) = (folder / "cache").rglob("*.safetensors")
    return path, read


def weights(folder: Path) -> Kept:
    path = folder / "weights.safetensors"
    write_arrays(path, {"w": np.arange(300, dtype=np.float32), "b": np.arange(7)})
    return path, lambda: [
        (name, str(value.dtype), value.shape, value.tobytes())
        for name, value in sorted(read_arrays(path).items())
    ]


def checkpoint(folder: Path) -> Kept:
    module = nn.Linear(8, 8)
    Checkpoint(best=dict(module.state_dict())).write(folder, module)

    def read() -> object:
        other = nn.Linear(8, 8)
        stored = read_checkpoint(folder, other, torch.device("cpu"))
        state = {**other.state_dict(), **{f"best {k}": v for k, v in (stored.best or {}).items()}}
        return [(name, value.numpy().tobytes()) for name, value in state.items()]

    return folder / "checkpoint.pt", read


def result(folder: Path) -> Kept:
    path = folder / "result.json"
    made_result().save(path)
    return path, lambda: RunResult.load(path).to_json()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", [data_file, cache_entry, weights, checkpoint, result])
def test_no_flipped_bit_changes_a_number_in_silence(
    make: Callable[[Path], Kept], size: float, tmp_path: Path
) -> None:
    path, read = make(tmp_path)
    content, expected, draw = path.read_bytes(), read(), drawer("flips", make.__name__)
    for _ in range(how_many(size, WHOLE // 5)):
        bit = draw.randrange(8 * len(content))
        # a file of its own: HDF5 may keep one open that it could not read, and refuse its content
        path.unlink()
        path.write_bytes(flipped(content, bit))
        try:
            is_same = read() == expected
        except (GsnobenchError, Damaged) as error:
            assert "\n" not in str(error)
            COUNTS[f"flips: {make.__name__}", "noticed"] += 1
        else:
            assert is_same, f"bit {bit} changed what is read"
            COUNTS[f"flips: {make.__name__}", "same content"] += 1
        path.unlink()
        path.write_bytes(content)
        assert read() == expected, "what is in order is refused"
