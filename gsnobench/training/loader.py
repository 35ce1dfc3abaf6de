"""Samples -> batches on a device: encoded, padded, with the stacked geometry of their meshes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import psutil
import torch

from gsnobench.batch import Batch
from gsnobench.data import Array, ArrayLike, Field, Mesh, Samples, Task
from gsnobench.declare import Geometry
from gsnobench.meshes.operators import lumped_mass
from gsnobench.training.geometry import padded, stack_geometry
from gsnobench.training.metrics import ScoredNodes
from gsnobench.training.normaliser import Normaliser


class Loader:
    """Batches of a split; data stay on the device if they fit, targets are centred and physical."""

    def __init__(
        self,
        samples: Samples,
        *,
        task: Task,
        normaliser: Normaliser,
        geometries: Sequence[Geometry],
        device: torch.device | str,
        impose_boundary: bool,
        predicts_change: bool = False,
    ) -> None:
        self.samples, self.task, self.device = samples, task, torch.device(device)
        self.normaliser = normaliser.to(device)
        self.predicts_change = predicts_change
        self.shared = len(samples.meshes) == 1
        self.reference = _references(task.fields).to(device)  # (C,)
        self._static_reference = _references(task.static).to(device)  # (F,)
        nodes, meshes = int(samples.frames.shape[2]), samples.meshes

        def stacked(values: list[Array]) -> torch.Tensor:
            """One value per mesh, (n, ...) each, padded to all nodes: (1 or S, N, ...)."""
            shape = (nodes, *values[0].shape[1:])
            return torch.stack([padded(value, shape) for value in values]).to(device)

        self.geometry = stack_geometry(geometries, nodes, device)
        points = stacked([mesh.points for mesh in meshes])
        self.points = self.normaliser.points.encode(points)  # (1 or S, N, d)
        self.tags = stacked([mesh.tag_matrix(task.tags) for mesh in meshes])  # (1 or S, N, K)
        supports = [_support(mesh, task) for mesh in meshes]
        self.support = stacked(supports).to(torch.float32)  # (1 or S, N, C)
        self.area = stacked([_area(mesh) for mesh in meshes])  # (1 or S, N)
        is_node = stacked([np.ones(mesh.size, dtype=bool) for mesh in meshes])
        self.mask = None if bool(is_node.all()) else is_node  # (S, N)
        self.known = self._known_nodes(impose_boundary)  # (1 or S, N, C) bool or None
        self.frames = self._resident(samples.frames, samples)
        self.static = self._resident(samples.static, samples)
        self.scalars = self._resident(samples.scalars, samples)

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def starts(self) -> tuple[int, ...]:
        """Frames at which scored windows begin; a model with a shorter window sees its end."""
        unseen = self.samples.task.t_in - self.task.t_in
        return tuple(start + unseen for start in self.samples.task.starts)

    def _known_nodes(self, impose: bool) -> torch.Tensor | None:
        """Nodes with a known boundary value, per field."""
        task = self.task
        if not impose or not task.tags:
            return None
        conditions = [
            [field.boundary.get(tag) == "dirichlet" for field in task.fields] for tag in task.tags
        ]
        table = torch.tensor(conditions, device=self.device)  # (K, C)
        known = (self.tags[..., None] & table).any(-2)  # (1 or S, N, C)
        return known if bool(known.any()) else None

    def _resident(self, values: ArrayLike, samples: Samples) -> torch.Tensor | ArrayLike:
        """The array on the device if it needs at most a quarter of the free memory, else lazy."""
        bytes_needed = 4 * int(np.prod(values.shape, dtype=np.int64))
        if self.device.type == "cuda":
            bytes_free = torch.cuda.mem_get_info(self.device)[0]
        else:
            bytes_free = psutil.virtual_memory().available
        if bytes_needed > bytes_free / 4:
            return values
        return self._read(values, np.arange(len(samples)))

    def _read(self, values: ArrayLike, indices: Array) -> torch.Tensor:
        rows = np.asarray(values[indices], dtype=np.float32)
        return torch.from_numpy(rows).to(self.device)

    def _rows(self, values: torch.Tensor | ArrayLike, indices: torch.Tensor) -> torch.Tensor:
        """The rows of some samples, from the device or read now."""
        if isinstance(values, torch.Tensor):
            return values[indices]
        return self._read(values, indices.cpu().numpy())

    def _of(self, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """What belongs to the meshes of some samples: (1 or B, ...)."""
        return values if self.shared else values[indices]

    def batch(
        self, indices: torch.Tensor, starts: torch.Tensor, horizon: int
    ) -> tuple[Batch, torch.Tensor]:
        """Inputs of some samples whose windows begin at `starts`, and the next `horizon` frames.

        These are the target, (B, horizon, N, C), centred and physical.
        """
        indices = indices.to(self.device)
        span = starts[:, None] + torch.arange(self.task.t_in + horizon)  # (B, t_in + horizon)
        if isinstance(self.frames, torch.Tensor):
            frames = self.frames[indices[:, None], span.to(self.device)]
        else:
            rows = self._rows(self.frames, indices)  # (B, T, N, C)
            frames = rows[torch.arange(len(indices))[:, None], span]
        frames = frames - self.reference  # (B, t_in + horizon, N, C)
        window, target = frames[:, : self.task.t_in], frames[:, self.task.t_in :]
        static = self._rows(self.static, indices) - self._static_reference
        return self._encoded(indices, window, static, self._rows(self.scalars, indices)), target

    def given(self, static: torch.Tensor, window: torch.Tensor, scalars: torch.Tensor) -> Batch:
        """Physical inputs of any B samples on the one mesh, as a batch; it is differentiable."""
        indices = torch.zeros(len(static), dtype=torch.long, device=self.device)
        seen = window[:, window.shape[1] - self.task.t_in :]  # a shorter window sees its end
        centred = seen - self.reference, static - self._static_reference
        return self._encoded(indices, *centred, scalars)

    def _encoded(
        self,
        indices: torch.Tensor,
        window: torch.Tensor,
        static: torch.Tensor,
        scalars: torch.Tensor,
    ) -> Batch:
        """Centred inputs of samples in the units of the model."""
        return Batch(
            task=self.task,
            window=self.normaliser.window.encode(window),
            static=self.normaliser.static.encode(static),
            scalars=self.normaliser.scalars.encode(scalars),
            points=self._of(self.points, indices),
            tags=self._of(self.tags, indices),
            mask=None if self.mask is None else self.mask[indices],
            geometry=self.geometry.pick(indices),
        )

    def scored_nodes(self, indices: torch.Tensor) -> ScoredNodes:
        """Which nodes count for these samples."""
        indices = indices.to(self.device)
        return ScoredNodes(
            self._of(self.support, indices),
            self._of(self.area, indices),
            self._of(self.tags, indices),
        )

    def encode_target(self, target: torch.Tensor, batch: Batch) -> torch.Tensor:
        """A target (B, steps, N, C) in the units of what a module returns for this batch."""
        if self.predicts_change:
            target = target - self._last_frame(batch)
        return self.normaliser.output.encode(target)

    def _last_frame(self, batch: Batch) -> torch.Tensor:
        """The last given frame, centred and physical: (B, 1, N, C)."""
        return self.normaliser.window.decode(batch.window[:, -1:])

    def finish(self, encoded: torch.Tensor, batch: Batch, indices: torch.Tensor) -> torch.Tensor:
        """A module's output (B, steps, N, C) as centred physical values, known ones imposed."""
        centred = self.normaliser.output.decode(encoded)
        if self.predicts_change:
            centred = centred + self._last_frame(batch)
        if self.known is None:
            return centred
        known = self._of(self.known, indices.to(self.device))[:, None]  # (1 or B, 1, N, C)
        return torch.where(known, -self.reference, centred)


def _references(fields: Sequence[Field]) -> torch.Tensor:
    return torch.tensor([field.reference for field in fields])


def _support(mesh: Mesh, task: Task) -> Array:
    """Which nodes carry which field, (n, C) bool."""
    return np.stack([field.nodes(mesh) for field in task.fields], axis=1)


def _area(mesh: Mesh) -> Array:
    """Area or volume per node, (n,); all nodes of a point cloud without cells count the same."""
    return np.ones(mesh.size) if mesh.cells is None else lumped_mass(mesh)
