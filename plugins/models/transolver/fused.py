"""Physics attention of Transolver with its maps on the tokens instead of the nodes.

The products are those of `PhysicsAttention.forward` in another order: exact, and two thirds of the
time at the paper's sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

if TYPE_CHECKING:
    from gsnobench_plugins.models.transolver.model import PhysicsAttention

EMPTY = 1e-5  # keeps the token of a slice without nodes finite
softmax_backward = torch.ops.aten._softmax_backward_data


def attention(module: PhysicsAttention, x: Tensor, mask: Tensor | None) -> Tensor:
    """`PhysicsAttention.forward`: W_f and W_o on tokens, W_s W_x / tau as one map to the logits."""
    weights, sums, sizes = FusedSlices.apply(module.norm(x), *slice_map(module), mask)
    B, H = len(x), module.heads
    # one product per head
    sums = sums.unflatten(1, (H, -1)).transpose(0, 1).flatten(1, 2)  # (H, B*G, h)
    sizes = sizes.unflatten(1, (H, -1)).transpose(0, 1)[..., None]  # (H, B, G, 1)
    value = sums @ module.value.weight.unflatten(0, (H, -1)).mT  # (H, B*G, e)
    value = value.unflatten(1, (B, -1)) + sizes * module.value.bias.view(H, 1, 1, -1)
    tokens = value / (sizes + EMPTY)  # (H, B, G, e)
    out = module.out.weight.unflatten(1, (H, -1)).permute(1, 2, 0)  # (H, e, h)
    bias = (module.out.bias / H)[None, None]  # added to the tokens: a head's weights sum to 1
    written = torch.baddbmm(bias, module.attend(tokens).flatten(1, 2), out)  # (H, B*G, h)
    written = written.unflatten(1, (B, -1)).transpose(0, 1).flatten(1, 2)  # (B, H*G, h)
    return torch.baddbmm(x, weights, written)


def slice_map(module: PhysicsAttention) -> tuple[Tensor, Tensor]:
    """W_s W_x / tau, (H, G, h), and (W_s b_x + b_s) / tau, (H, G)."""
    heads = (module.heads, -1)
    place, offset = module.place.weight.unflatten(0, heads), module.place.bias.unflatten(0, heads)
    tau = module.temperature[:, None]  # (H, 1)
    matrix = module.slice.weight @ place / tau[..., None]
    return matrix, (offset @ module.slice.weight.mT + module.slice.bias) / tau


class FusedSlices(torch.autograd.Function):
    """w = softmax(x M^T + m) over the slices of a head, and the slices' sums w^T x and sizes w^T 1.

    With gradients by hand: those of x and w are then summed in the products themselves, without a
    pass for each addend.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # (B, N, h)
        matrix: Tensor,  # M (H, G, h)
        bias: Tensor,  # m (H, G)
        mask: Tensor | None,  # (B, N, 1)
    ) -> tuple[Tensor, Tensor, Tensor]:
        """w (B, N, H*G), sums (B, H*G, h), sizes (B, H*G)."""
        logits = functional.linear(x, matrix.flatten(0, 1), bias.flatten())  # (B, N, H*G)
        weights = logits.unflatten(-1, bias.shape).softmax(-1).flatten(2)  # (B, N, H*G)
        weights = weights if mask is None else weights * mask
        ctx.save_for_backward(x, matrix, weights)
        return weights, weights.mT @ x, weights.sum(1)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_weights: Tensor, d_sums: Tensor, d_sizes: Tensor
    ) -> tuple[Tensor | None, ...]:
        x, matrix, weights = ctx.saved_tensors
        dw = torch.baddbmm(d_weights, x, d_sums.mT).add_(d_sizes[:, None])  # (B, N, H*G)
        dw = dw.unflatten(-1, matrix.shape[:2])  # (B, N, H, G)
        d_logits = softmax_backward(dw, weights.view_as(dw), -1, dw.dtype)  # (B, N, H, G)
        d_logits = d_logits.flatten(2).flatten(0, 1)  # (B*N, H*G)
        dx = torch.addmm((weights @ d_sums).flatten(0, 1), d_logits, matrix.flatten(0, 1))
        d_matrix = (d_logits.mT @ x.flatten(0, 1)).view_as(matrix)
        return dx.view_as(x), d_matrix, d_logits.sum(0).view(matrix.shape[:2]), None
