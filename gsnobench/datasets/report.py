"""What is in a data file, in numbers: sizes, meshes, ranges, and samples unlike the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.data import SPLITS, Array, Samples
from gsnobench.datasets.store import open_file

OUTLIER = 10.0  # a sample is suspicious if its largest value is so many times the median one
SHOWN = 5  # suspicious samples that are named


def report(path: Path) -> dict[str, Any]:
    """Sizes, shapes, hashes, distinct meshes, ranges of the fields and suspicious samples."""
    ranges: dict[str, list[Array]] = {}
    suspicious: list[str] = []
    keys: set[str] = set()
    nodes: list[int] = []
    with open_file(path) as opened:
        task = opened.task
        parts = {split: opened.split(split) for split in SPLITS if split in task.sizes}
        for split, samples in parts.items():
            keys |= {mesh.key for mesh in samples.meshes}
            nodes += [mesh.size for mesh in samples.meshes]
            low, high = _extremes(samples)  # (S, C) each
            suspicious += _suspicious(split, samples, np.maximum(-low, high))
            for position, field in enumerate(task.fields):
                ranges.setdefault(field.name, []).extend([low[:, position], high[:, position]])
        return {
            "task": task.id,
            "samples": dict(task.sizes),
            "frames": len(task.times),
            "nodes": _span(nodes),
            "distinct meshes": len(keys),
            "ranges": {name: _range(columns) for name, columns in ranges.items()},
            "suspicious": suspicious or "none",
            "content hash": opened.content_hash,
        }


def _extremes(samples: Samples) -> tuple[Array, Array]:
    """Smallest and largest value of each field in each sample, (S, C) each."""
    lows, highs = [], []
    for index in range(len(samples)):
        frames = np.asarray(samples.frames[index])[:, : samples.mesh(index).size]  # (T, n, C)
        lows.append(frames.min(axis=(0, 1)))
        highs.append(frames.max(axis=(0, 1)))
    return np.stack(lows), np.stack(highs)


def _suspicious(split: str, samples: Samples, sizes: Array) -> list[str]:
    """Samples of a field with a far larger value than usual, or with none but zeros."""
    lines = []
    for position, field in enumerate(samples.task.fields):
        column = sizes[:, position]
        usual = float(np.median(column))
        for kind, rows in (
            (f"beyond {OUTLIER:g} times the median", np.flatnonzero(column > OUTLIER * usual)),
            ("zero everywhere", np.flatnonzero(column == 0)),
        ):
            if len(rows):
                shown = ", ".join(str(row) for row in rows[:SHOWN])
                more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
                lines.append(f"{field.name} is {kind} in {split} {shown}{more}")
    return lines


def _span(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _range(columns: list[Array]) -> str:
    whole = np.concatenate(columns)
    return f"{whole.min():.4g} to {whole.max():.4g}"
