"""What a model sees: a batch of normalised inputs, and sparse operators on its node values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gsnobench.data import Mesh, Task
from gsnobench.shown import facts_html


@dataclass(frozen=True, eq=False)
class Batch:
    """Normalised inputs of B samples on N nodes, never the target.

        task      the Task: fields, frames, tags, channel counts
        window    (B, t_in, N, C)  the given frames; t_in is 0 in a steady problem
        static    (B, N, F)        inputs per node that do not change in time
        scalars   (B, P)           inputs per sample
        points    (1 or B, N, d)   coordinates; 1 if all samples share one mesh
        tags      (1 or B, N, K)   bool: which node has which of task.tags
        mask      (B, N) or None   bool: False at padding; None if no node is padding
        geometry  name -> tensor   what Model.geometry returned, each part padded and stacked to
                                   (1 or B, ...); sparse matrices for `apply`, indices for `gather`
        meshes    of every sample  for metrics alone: a model's batch has none

    Meshes with fewer nodes are padded to N with zeros at the end. All floats are float32.
    """

    task: Task
    window: torch.Tensor  # (B, t_in, N, C)
    static: torch.Tensor  # (B, N, F)
    scalars: torch.Tensor  # (B, P)
    points: torch.Tensor  # (1 or B, N, d)
    tags: torch.Tensor  # (1 or B, N, K) bool, in the order of Task.tags
    mask: torch.Tensor | None  # (B, N) bool, False at padding; None where no node is padding
    # what Model.geometry returned, stacked: (1 or B, ...), or sparse CSR as `name` and `name^T`
    geometry: Mapping[str, torch.Tensor]
    # of every sample, in physical coordinates; for metrics alone: a model's batch has none
    meshes: tuple[Mesh, ...] = ()

    def __repr__(self) -> str:
        parts = f", geometry {', '.join(self.geometry)}" if self.geometry else ""
        return f"<Batch of {self.task.id}: {self.size} samples on {self.nodes} nodes{parts}>"

    def _repr_html_(self) -> str:
        names = ("window", "static", "scalars", "points", "tags", "mask")
        tensors = {name: getattr(self, name) for name in names}
        tensors |= {f"geometry[{name!r}]": part for name, part in self.geometry.items()}
        shapes = {
            name: "None" if part is None else f"{tuple(part.shape)} {part.dtype}"
            for name, part in tensors.items()
        }
        return facts_html(f"Batch of {self.task.id}", shapes)

    @property
    def size(self) -> int:
        """Number of samples, B."""
        return int(self.static.shape[0])

    @property
    def nodes(self) -> int:
        """Number of nodes with padding, N."""
        return int(self.static.shape[1])

    @property
    def features(self) -> torch.Tensor:
        """All inputs of each node, (B, N, in_channels): points, window, static, scalars."""
        B, N = self.size, self.nodes
        window = self.window.permute(0, 2, 1, 3).reshape(B, N, -1)  # (B, N, t_in*C)
        scalars = self.scalars[:, None, :].expand(B, N, -1)  # (B, N, P)
        return torch.cat([self.points.expand(B, -1, -1), window, self.static, scalars], dim=-1)

    def frames(self, y: torch.Tensor) -> torch.Tensor:
        """A flat prediction as frames: (B, N, steps*C) -> (B, steps, N, C)."""
        B, N, width = y.shape
        C = len(self.task.fields)
        return y.reshape(B, N, width // C, C).permute(0, 2, 1, 3)

    def flat(self, x: torch.Tensor) -> torch.Tensor:
        """(B, N, .) -> (B*N, .): the numbering that index tensors of the geometry use."""
        return x.reshape(-1, x.shape[-1])

    def gather(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Values at the nodes that an index part of the geometry names.

        With an index (1 or B, N, k) and x (B, N, C) the result is (B, N, k, C), whether samples
        share a mesh or not. Padding of an index part is 0, the first node of the same sample: it is
        safe to gather and must be left out by a mask that the geometry declares beside it.
        """
        index = self.geometry[name]
        if index.shape[0] == 1:  # of a shared mesh, or of one sample: counted within a sample
            return x[:, index[0]]
        return self.flat(x)[index]  # counted through the batch

    def apply(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """A sparse operator of the geometry on node values: (B, N_in, C) -> (B, N_out, C)."""
        matrix, transposed = self.geometry[name], self.geometry[f"{name}^T"]
        B, N, C = x.shape
        if matrix.shape[1] == N:  # one mesh for all samples: the batch is more columns, (N, B*C)
            y = _multiply(matrix, transposed, x.transpose(0, 1).reshape(N, B * C))
            return y.reshape(-1, B, C).transpose(0, 1)
        y = _multiply(matrix, transposed, self.flat(x))  # block-diagonal over the batch
        return y.reshape(B, -1, C)


class _Multiply(torch.autograd.Function):
    """y = A x with dL/dx = A^T dL/dy; torch would transpose a CSR matrix anew at every step."""

    @staticmethod
    def forward(
        ctx: Any, matrix: torch.Tensor, transposed: torch.Tensor, x: torch.Tensor
    ) -> torch.Tensor:
        ctx.transposed = transposed
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[None, None, torch.Tensor]:
        return None, None, ctx.transposed @ grads[0]


def _multiply(matrix: torch.Tensor, transposed: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """(M, N) CSR times (N, C) dense."""
    if x.is_meta:  # CSR products have no meta kernel; a meta run checks shapes and devices only
        return x.new_empty((matrix.shape[0], x.shape[1])) + 0 * x.sum()
    result: torch.Tensor = _Multiply.apply(matrix, transposed, x)
    return result
