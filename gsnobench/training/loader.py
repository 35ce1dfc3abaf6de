"""Samples -> batches on a device: encoding, padding, and the geometry of every mesh stacked by its
declared axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import psutil
import torch

from gsnobench.batch import Batch
from gsnobench.data import Array, ArrayLike, Mesh, Samples, Task
from gsnobench.declare import Geometry
from gsnobench.meshes.operators import lumped_mass
from gsnobench.training.geometry import padded, stack_geometry
from gsnobench.training.metrics import ScoredNodes
from gsnobench.training.normaliser import Normaliser


class Loader:
    """Batches of one split. Data lie on the device once when they fit; targets are centred physical
    values.
    """

    def __init__(
        self,
        samples: Samples,
        *,
        task: Task,
        normaliser: Normaliser,
        geometries: Sequence[Geometry],
        device: torch.device | str,
        impose_boundary: bool,
    ) -> None:
        self.samples, self.task, self.device = samples, task, torch.device(device)
        self.normaliser = normaliser.to(device)
        self.shared = len(samples.meshes) == 1
        self.reference = torch.tensor([one.reference for one in task.fields], device=device)  # (C,)
        self._static_reference = torch.tensor([one.reference for one in task.static], device=device)
        nodes = int(samples.frames.shape[2])
        self.geometry = stack_geometry(geometries, nodes, device)
        meshes = samples.meshes
        points = torch.stack([padded(mesh.points, (nodes, mesh.dim)) for mesh in meshes]).to(device)
        self.points = self.normaliser.points.encode(points)  # (1 or S, N, d)
        self.tags = torch.stack(
            [padded(mesh.tag_matrix(task.tags), (nodes, len(task.tags))) for mesh in meshes]
        ).to(device)
        supports = [np.stack([one.nodes(mesh) for one in task.fields], axis=1) for mesh in meshes]
        shape = (nodes, len(task.fields))
        # (1 or S, N, C)
        self.support = torch.stack([padded(value, shape) for value in supports]).to(
            device, torch.float32
        )
        # (1 or S, N)
        self.area = torch.stack([padded(_area(mesh), (nodes,)) for mesh in meshes]).to(device)
        real = torch.stack(
            [padded(np.ones(mesh.size, dtype=bool), (nodes,)) for mesh in meshes]
        ).to(device)
        self.mask = None if bool(real.all()) else real  # (S, N)
        self.known = self._known_nodes(impose_boundary)  # (1 or S, N, C) bool or None
        self.frames = self._resident(samples.frames, samples)
        self.static = self._resident(samples.static, samples)
        self.scalars = self._resident(samples.scalars, samples)

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def starts(self) -> tuple[int, ...]:
        """First frames of the evaluated windows: a model that sees less than the task gives sees
        the end of it.
        """
        unseen = self.samples.task.t_in - self.task.t_in
        return tuple(start + unseen for start in self.samples.task.starts)

    def _known_nodes(self, impose: bool) -> torch.Tensor | None:
        if not impose or not self.task.tags:
            return None
        conditions = [
            [one.boundary.get(tag) == "dirichlet" for one in self.task.fields]
            for tag in self.task.tags
        ]
        table = torch.tensor(conditions, device=self.device)  # (K, C)
        known = (self.tags[..., None] & table).any(-2)  # (1 or S, N, C)
        return known if bool(known.any()) else None

    def _resident(self, values: ArrayLike, samples: Samples) -> torch.Tensor | ArrayLike:
        """The whole array on the device if it takes at most a quarter of the free memory, else as
        it is (lazy).
        """
        size = 4 * int(np.prod(values.shape, dtype=np.int64))
        free = (
            torch.cuda.mem_get_info(self.device)[0]
            if self.device.type == "cuda"
            else psutil.virtual_memory().available
        )
        if size > free / 4:
            return values
        return torch.from_numpy(np.asarray(values[np.arange(len(samples))], dtype=np.float32)).to(
            self.device
        )

    def _rows(self, values: torch.Tensor | ArrayLike, indices: torch.Tensor) -> torch.Tensor:
        if isinstance(values, torch.Tensor):
            return values[indices]
        return torch.from_numpy(np.asarray(values[indices.cpu().numpy()], dtype=np.float32)).to(
            self.device
        )

    def _of(self, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return values if self.shared else values[indices]

    def batch(
        self, indices: torch.Tensor, starts: torch.Tensor, horizon: int
    ) -> tuple[Batch, torch.Tensor]:
        """Inputs of some samples whose windows begin at `starts`, and the next `horizon` frames,
        centred: (B, horizon, N, C).
        """
        indices = indices.to(self.device)
        span = starts[:, None] + torch.arange(self.task.t_in + horizon)  # (B, t_in + horizon)
        if isinstance(self.frames, torch.Tensor):
            # (B, t_in + horizon, N, C)
            frames = self.frames[indices[:, None], span.to(self.device)]
        else:
            rows = self._rows(self.frames, indices)
            frames = rows[torch.arange(len(indices))[:, None], span]
        frames = frames - self.reference
        window, target = frames[:, : self.task.t_in], frames[:, self.task.t_in :]
        batch = Batch(
            task=self.task,
            window=self.normaliser.window.encode(window),
            static=self.normaliser.static.encode(
                self._rows(self.static, indices) - self._static_reference
            ),
            scalars=self.normaliser.scalars.encode(self._rows(self.scalars, indices)),
            points=self._of(self.points, indices),
            tags=self._of(self.tags, indices),
            mask=None if self.mask is None else self.mask[indices],
            geometry=self.geometry.pick(indices),
        )
        return batch, target

    def scored_nodes(self, indices: torch.Tensor) -> ScoredNodes:
        """Which nodes count for these samples."""
        indices = indices.to(self.device)
        return ScoredNodes(
            self._of(self.support, indices),
            self._of(self.area, indices),
            self._of(self.tags, indices),
        )

    def finish(self, encoded: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """Encoded prediction -> centred physical values, known boundary values set: (B, steps, N,
        C).
        """
        centred = self.normaliser.output.decode(encoded)
        if self.known is None:
            return centred
        return torch.where(
            self._of(self.known, indices.to(self.device))[:, None], -self.reference, centred
        )


def _area(mesh: Mesh) -> Array:
    """Lumped mass where there are cells; every node alike in a bare point cloud."""
    return np.ones(mesh.size) if mesh.cells is None else lumped_mass(mesh)
