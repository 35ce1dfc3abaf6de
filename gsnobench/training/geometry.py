"""What a model precomputes on meshes: computed once, cached, stacked by its declared axes."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch

from gsnobench.data import Array, Mesh, Task
from gsnobench.declare import Geometry, Model, Part, Summary
from gsnobench.files import Cache
from gsnobench.params import Params

# ----------------------------------------------------------------------------- geometry of one mesh


def compute_geometry(
    model: Model, params: Params, task: Task, mesh: Mesh, *, summary: Summary, cache: Cache
) -> Geometry:
    """What a model precomputes on a mesh, from the cache if it was computed before."""
    return timed_geometry(model, params, task, mesh, summary=summary, cache=cache)[0]


def timed_geometry(
    model: Model, params: Params, task: Task, mesh: Mesh, *, summary: Summary, cache: Cache
) -> tuple[Geometry, float]:
    """The same, and the CPU-seconds it took when it was computed, now or earlier."""
    if model.geometry is None:
        return {}, 0.0
    compute = model.geometry
    identity = {
        "model": model.name,
        "revision": model.revision,
        "params": params.geometry_dict(),
        "task": [task.id, task.t_in, task.t_out],
        "mesh": mesh.key,
        "reference": {name: _array_key(value) for name, value in sorted(summary.items())},
    }

    def timed() -> dict[str, Array]:
        begun = time.process_time()
        geometry = compute(mesh, task, params, summary)
        return {**_to_arrays(geometry), "cpu_s": np.array(time.process_time() - begun)}

    arrays = cache.arrays("geometry-v2", identity, timed)
    return _from_arrays(arrays), float(arrays["cpu_s"].item())


def _array_key(value: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]


def _to_arrays(geometry: Geometry) -> dict[str, Array]:
    """A geometry as plain arrays; the array `about` holds axes and shapes as JSON."""
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
    for name, entry in json.loads(arrays["about"].tobytes()).items():
        value: Any
        if entry["shape"] is None:
            value = arrays[name]
        else:
            triple = (arrays[f"{name}/data"], arrays[f"{name}/indices"], arrays[f"{name}/indptr"])
            value = scipy.sparse.csr_array(triple, shape=tuple(entry["shape"]))
        geometry[name] = Part(value=value, axes=tuple(entry["axes"]), index=entry["index"])
    return geometry


# ------------------------------------------------------------------------- geometry of all meshes


@dataclass(frozen=True, eq=False)
class GeometryStack:
    """The geometry of all meshes of a split, padded by axis; a shared mesh is stored once."""

    dense: dict[str, torch.Tensor]  # (1 or S, ...)
    sparse: Mapping[str, tuple[torch.Tensor, ...]]  # one CSR matrix per mesh, padded shape
    shift: Mapping[str, int]  # index tensor -> size of the node set it points into
    shared: bool  # all samples hold the same mesh

    def pick(self, indices: torch.Tensor) -> dict[str, torch.Tensor]:
        """Geometry of a batch; index tensors are shifted to the numbering of `Batch.flat`."""
        if self.shared:
            return self.dense | {name: matrices[0] for name, matrices in self.sparse.items()}
        picked = {name: value[indices] for name, value in self.dense.items()}
        for name, size in self.shift.items():
            offset = torch.arange(len(indices), device=indices.device) * size
            picked[name] = picked[name] + offset.reshape(-1, *[1] * (picked[name].dim() - 1))
        samples = indices.tolist()
        for name, matrices in self.sparse.items():
            picked[name] = _block_diagonal([matrices[index] for index in samples])
        return picked


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
            dense[name] = torch.stack([padded(value, shape) for value in values]).to(device)
        if first.index is not None:
            shift[name] = sizes[first.index]
    return GeometryStack(dense=dense, sparse=sparse, shift=shift, shared=len(geometries) <= 1)


def padded(value: Array, shape: tuple[int, ...]) -> torch.Tensor:
    """The value in the first corner of a tensor of zeros: float32, bool or int64."""
    kind = torch.bool if value.dtype == bool else torch.int64
    if np.issubdtype(value.dtype, np.floating):
        kind = torch.float32
    full = torch.zeros(shape, dtype=kind)
    corner = tuple(slice(size) for size in value.shape)
    full[corner] = torch.from_numpy(np.ascontiguousarray(value)).to(kind)
    return full


def _csr(
    value: scipy.sparse.csr_array, shape: tuple[int, ...], device: torch.device | str
) -> torch.Tensor:
    """A sparse matrix as a torch tensor of this shape; rows and columns of padding are empty."""
    value = value.copy()
    value.sum_duplicates()  # sorts, too: torch refuses the unsorted columns of a product
    padding = np.full(shape[0] - value.shape[0], value.indptr[-1])
    starts = torch.from_numpy(np.concatenate([value.indptr, padding]).astype(np.int64))
    columns = torch.from_numpy(value.indices.astype(np.int64))
    data = torch.from_numpy(np.asarray(value.data, dtype=np.float32))
    with torch.sparse.check_sparse_tensor_invariants(True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns, data, size=shape).to(device)


def _block_diagonal(matrices: Sequence[torch.Tensor]) -> torch.Tensor:
    """One CSR matrix with these blocks of equal shape."""
    height, width = matrices[0].shape
    counts = [matrix.values().shape[0] for matrix in matrices]
    filled = torch.tensor([0, *counts]).cumsum(0).tolist()  # entries above each block
    rows = torch.cat([m.crow_indices()[int(b > 0) :] + filled[b] for b, m in enumerate(matrices)])
    columns = torch.cat([m.col_indices() + b * width for b, m in enumerate(matrices)])
    values = torch.cat([m.values() for m in matrices])
    size = (height * len(matrices), width * len(matrices))
    with torch.sparse.check_sparse_tensor_invariants(False):  # the blocks were checked when made
        return torch.sparse_csr_tensor(rows, columns, values, size=size)
