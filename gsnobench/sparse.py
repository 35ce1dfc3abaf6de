"""Sparse operator times dense features, with the transpose kept ready so that the gradient costs
one product too.
"""

from __future__ import annotations

from typing import Any

import torch


class _Multiply(torch.autograd.Function):
    """y = A x with dL/dx = A^T dL/dy; torch would rebuild the transpose of a CSR matrix at every
    step.
    """

    @staticmethod
    def forward(
        ctx: Any, matrix: torch.Tensor, transposed: torch.Tensor, x: torch.Tensor
    ) -> torch.Tensor:
        ctx.transposed = transposed
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[None, None, torch.Tensor]:
        return None, None, ctx.transposed @ grads[0]


def multiply(matrix: torch.Tensor, transposed: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """(M, N) CSR times (N, C) dense."""
    # CSR products have no meta kernel; shape and placement are what a meta run checks
    if x.is_meta:
        return x.new_empty((matrix.shape[0], x.shape[1])) + 0 * x.sum()
    result: torch.Tensor = _Multiply.apply(matrix, transposed, x)
    return result
