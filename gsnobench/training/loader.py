"""Samples -> batches on a device: encoding, padding, and the geometry of every mesh stacked by its
declared axes.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import scipy.sparse
import torch

from gsnobench.data import Array, ArrayLike, Batch, Mesh, Samples, Task
from gsnobench.declare import Geometry, Model, Part, Reference
from gsnobench.files import Cache
from gsnobench.meshes.operators import lumped_mass
from gsnobench.params import Params
from gsnobench.training.metrics import Where
from gsnobench.training.normaliser import Normaliser, support_nodes

# ----------------------------------------------------------------------------- geometry of one mesh


def compute_geometry(
    model: Model, params: Params, task: Task, mesh: Mesh, *, reference: Reference, cache: Cache
) -> Geometry:
    """What the model precomputes on a mesh, from the cache if it was computed before."""
    if model.geometry is None:
        return {}
    compute = model.geometry
    identity = {
        "model": model.name,
        "revision": model.revision,
        "params": params.geometry_dict(),
        "task": [task.id, task.t_in, task.t_out],
        "mesh": mesh.key,
        "reference": {name: _array_key(value) for name, value in sorted(reference.items())},
    }
    arrays = cache.arrays(
        "geometry-v1", identity, lambda: _to_arrays(compute(mesh, task, params, reference))
    )
    return _from_arrays(arrays)


def _array_key(value: Array) -> str:
    import hashlib

    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]


def _to_arrays(geometry: Geometry) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    about: dict[str, Any] = {}
    for name, part in geometry.items():
        about[name] = {"axes": part.axes, "index": part.index, "shape": None}
        if scipy.sparse.issparse(part.value):
            matrix = scipy.sparse.csr_array(part.value)
            about[name]["shape"] = matrix.shape
            arrays |= {
                f"{name}/data": matrix.data,
                f"{name}/indices": matrix.indices,
                f"{name}/indptr": matrix.indptr,
            }
        else:
            arrays[name] = np.asarray(part.value)
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    return arrays


def _from_arrays(arrays: Mapping[str, Array]) -> Geometry:
    geometry: Geometry = {}
    for name, one in json.loads(arrays["about"].tobytes()).items():
        value: Any
        if one["shape"] is None:
            value = arrays[name]
        else:
            triple = (arrays[f"{name}/data"], arrays[f"{name}/indices"], arrays[f"{name}/indptr"])
            value = scipy.sparse.csr_array(triple, shape=tuple(one["shape"]))
        geometry[name] = Part(value=value, axes=tuple(one["axes"]), index=one["index"])
    return geometry


# ------------------------------------------------------------------------ geometry of many, stacked


@dataclass(frozen=True, eq=False)
class GeometryStack:
    """The geometry of all meshes of a split: shared ones held once, others padded by axis and
    picked per batch.
    """

    dense: Mapping[str, torch.Tensor]  # (1 or S, ...)
    sparse: Mapping[str, tuple[torch.Tensor, ...]]  # one CSR matrix a mesh, padded shape
    shift: Mapping[str, int]  # index tensors: size of the node set they point into
    shared: bool

    def pick(self, indices: torch.Tensor) -> dict[str, torch.Tensor]:
        """Geometry of a batch; index tensors are shifted to count as `Batch.flat` does."""
        if self.shared:
            return {**self.dense, **{name: matrices[0] for name, matrices in self.sparse.items()}}
        picked = {name: value[indices] for name, value in self.dense.items()}
        for name, size in self.shift.items():
            offset = torch.arange(len(indices), device=indices.device) * size
            picked[name] = picked[name] + offset.reshape(-1, *[1] * (picked[name].dim() - 1))
        chosen = indices.tolist()
        return picked | {
            name: _block_diagonal([matrices[i] for i in chosen])
            for name, matrices in self.sparse.items()
        }


def stack_geometry(
    geometries: Sequence[Geometry], nodes: int, device: torch.device | str
) -> GeometryStack:
    """Pad every declared axis to its largest size (the axis "node" to `nodes`) and stack."""
    sizes: dict[str, int] = {"node": nodes}
    for geometry in geometries:
        for part in geometry.values():
            for axis, size in zip(part.axes, part.value.shape, strict=True):
                sizes[axis] = max(sizes.get(axis, 0), size)
    dense, sparse, shift = {}, {}, {}
    for name, first in geometries[0].items() if geometries else ():
        shape = tuple(sizes[axis] for axis in first.axes)
        values = [geometry[name].value for geometry in geometries]
        if scipy.sparse.issparse(first.value):
            sparse[name] = tuple(_csr(value, shape, device) for value in values)
            sparse[f"{name}^T"] = tuple(
                _csr(scipy.sparse.csr_array(value.T), shape[::-1], device) for value in values
            )
        else:
            dense[name] = torch.stack([_padded(value, shape) for value in values]).to(device)
        if first.index is not None:
            shift[name] = sizes[first.index]
    return GeometryStack(dense=dense, sparse=sparse, shift=shift, shared=len(geometries) <= 1)


def _padded(value: Array, shape: tuple[int, ...]) -> torch.Tensor:
    kind = (
        torch.float32
        if np.issubdtype(value.dtype, np.floating)
        else torch.bool
        if value.dtype == bool
        else torch.int64
    )
    full = torch.zeros(shape, dtype=kind)
    full[tuple(slice(size) for size in value.shape)] = torch.from_numpy(
        np.ascontiguousarray(value)
    ).to(kind)
    return full


def _csr(
    value: scipy.sparse.csr_array, shape: tuple[int, ...], device: torch.device | str
) -> torch.Tensor:
    value = value.copy()
    # a product of two matrices leaves its columns unsorted, which torch refuses
    value.sum_duplicates()
    # padding rows are empty
    rows = np.concatenate([value.indptr, np.full(shape[0] - value.shape[0], value.indptr[-1])])
    starts, columns = (
        torch.from_numpy(np.asarray(array, dtype=np.int64)) for array in (rows, value.indices)
    )
    data = torch.from_numpy(np.asarray(value.data, dtype=np.float32))
    with torch.sparse.check_sparse_tensor_invariants(True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns, data, size=shape).to(device)


def _block_diagonal(matrices: Sequence[torch.Tensor]) -> torch.Tensor:
    height, width = matrices[0].shape
    filled = (
        torch.tensor([0, *[matrix.values().shape[0] for matrix in matrices]]).cumsum(0).tolist()
    )
    rows = torch.cat([m.crow_indices()[int(b > 0) :] + filled[b] for b, m in enumerate(matrices)])
    columns = torch.cat([m.col_indices() + b * width for b, m in enumerate(matrices)])
    values = torch.cat([m.values() for m in matrices])
    # the blocks were checked when they were made
    with torch.sparse.check_sparse_tensor_invariants(False):
        return torch.sparse_csr_tensor(
            rows, columns, values, size=(height * len(matrices), width * len(matrices))
        )


# ------------------------------------------------------------------------------------------ batches


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
        points = torch.stack([_padded(mesh.points, (nodes, mesh.dim)) for mesh in meshes]).to(
            device
        )
        self.points = self.normaliser.points.encode(points)  # (1 or S, N, d)
        self.tags = torch.stack(
            [_padded(mesh.tag_matrix(task.tags), (nodes, len(task.tags))) for mesh in meshes]
        ).to(device)
        supports = [
            np.stack([support_nodes(mesh, one) for one in task.fields], axis=1) for mesh in meshes
        ]
        shape = (nodes, len(task.fields))
        # (1 or S, N, C)
        self.support = torch.stack([_padded(value, shape) for value in supports]).to(
            device, torch.float32
        )
        # (1 or S, N)
        self.area = torch.stack([_padded(_area(mesh), (nodes,)) for mesh in meshes]).to(device)
        real = torch.stack(
            [_padded(np.ones(mesh.size, dtype=bool), (nodes,)) for mesh in meshes]
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

    def where(self, indices: torch.Tensor) -> Where:
        """Which nodes count for these samples."""
        indices = indices.to(self.device)
        return Where(
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
