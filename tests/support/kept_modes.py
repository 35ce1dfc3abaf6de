"""The modes that Geo-FNO keeps, cut out of a full Fourier transform."""

from __future__ import annotations

import torch
from torch import Tensor


def kept_of(full: Tensor, modes: tuple[int, ...]) -> Tensor:
    """The retained modes of an rfftn over the axes 1..d."""
    for axis, count in enumerate(modes[:-1], start=1):
        low = full.narrow(axis, 0, count)
        high = full.narrow(axis, full.shape[axis] - count, count)
        full = torch.cat([low, high], axis)
    return full.narrow(len(modes), 0, modes[-1])
