"""`gb.samples`: the samples of a split as tensors, for a training loop of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

from gsnobench.data import Mesh, Samples, Split, Task, split_named
from gsnobench.datasets import store
from gsnobench.datasets.ensure import ensure
from gsnobench.datasets.imported import stored_file
from gsnobench.datasets.tasks import named_task
from gsnobench.errors import ParamError
from gsnobench.home import open_home
from gsnobench.shown import facts_html

Item = dict[str, torch.Tensor]


class TensorSamples:
    """Windows of samples as tensors in physical units; `torch.utils.data.DataLoader` takes it.

    An item is a dict, with N the nodes of the largest mesh of the file:
      window   (t_in, N, C)   given frames
      static   (N, F)         inputs per node
      scalars  (P,)           inputs per sample
      points   (N, d)         coordinates
      mask     (N,) bool      False where a smaller mesh is padded with zeros
      target   (t_out, N, C)  frames to predict
    `task` says what the channels are, `mesh(i)` is the mesh of an item with cells and tags.
    """

    def __init__(self, samples: Samples, split: Split) -> None:
        self.split = split
        self._samples = samples

    @property
    def task(self) -> Task:
        """Fields, inputs, window and units."""
        return self._samples.task

    def mesh(self, index: int) -> Mesh:
        """The mesh of an item."""
        return self._samples.mesh(index // len(self.task.starts))

    def __len__(self) -> int:
        return len(self._samples) * len(self.task.starts)

    def __iter__(self) -> Iterator[Item]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Item:
        if not -len(self) <= index < len(self):
            raise IndexError(f"{index} of {len(self)} items")
        sample, window = divmod(index % len(self), len(self.task.starts))
        start, mesh = self.task.starts[window], self._samples.mesh(sample)
        nodes = int(self._samples.frames.shape[2])
        points = np.zeros((nodes, self.task.dim), dtype=np.float32)
        points[: mesh.size] = mesh.points
        frames = torch.from_numpy(np.array(self._samples.frames[sample]))  # (T, N, C)
        end = start + self.task.t_in
        return {
            "window": frames[start:end],
            "static": torch.from_numpy(np.array(self._samples.static[sample])),
            "scalars": torch.from_numpy(np.array(self._samples.scalars[sample])),
            "points": torch.from_numpy(points),
            "mask": torch.arange(nodes) < mesh.size,
            "target": frames[end : end + self.task.t_out],
        }

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(part.shape)}" for name, part in self[0].items())
        return f"<{len(self)} {self.split} items of {self.task.id}: {shapes}>"

    def _repr_html_(self) -> str:
        shapes = {name: str(tuple(part.shape)) for name, part in self[0].items()}
        return facts_html(f"{len(self)} {self.split} items of {self.task.id}", shapes)


def samples(
    source: str | os.PathLike[str],
    split: str = "train",
    *,
    track: str = "laptop",
    knobs: Mapping[str, object] | None = None,
    jobs: int = 0,
    home: str | os.PathLike[str] | None = None,
) -> TensorSamples:
    """The samples of a split of a file or a task as tensors, read when they are indexed.

        for batch in torch.utils.data.DataLoader(gb.samples("mine.nc"), batch_size=8):
            loss = (net(batch["static"], batch["points"]) - batch["target"]).square().mean()

    `source` is a data file, an imported task, or a task such as "swe", whose missing data are made
    first; `track`, `knobs` and `jobs` are of the last alone, as in `gb.open_task`.
    """
    chosen, folders = split_named(split), open_home(None if home is None else Path(home))
    if (stored := stored_file(str(source), folders)) is not None:
        if knobs:
            raise ParamError(f"knobs: {source} is a file, which has none; drop them")
        return TensorSamples(store.open_file(stored).split(chosen), chosen)
    texts = {name: str(value) for name, value in (knobs or {}).items()}
    dataset, task = named_task(str(source), track=track, knobs=texts)
    opened = store.open_file(ensure(dataset, task, home=folders.root, jobs=jobs), task)
    return TensorSamples(opened.split(chosen), chosen)
