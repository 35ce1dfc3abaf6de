"""Pages one after the other as an animated GIF of a limited size."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from gsnobench.files import atomic

STRIDES = (1, 2, 3, 5, 8)  # tried in turn until the file is small enough
SECONDS = 6.0  # one round


def write_gif(path: Path, pictures: Sequence[Image.Image], most_bytes: int) -> Path:
    """Write the GIF; where it would be too large, frames are left out."""
    for stride in STRIDES:
        content = _encoded(pictures[::stride])
        if len(content) < most_bytes:
            break
    with atomic(path) as part:
        part.write_bytes(content)
    return path


def _encoded(pictures: Sequence[Image.Image]) -> bytes:
    first, *rest = pictures
    buffer = io.BytesIO()
    pause = max(40, round(1000 * SECONDS / len(pictures)))  # milliseconds
    # the last frame stays, so that the end is seen before it starts again
    pauses = [pause] * len(rest) + [pause + 1000]
    frames = {"save_all": True, "append_images": rest, "duration": pauses, "loop": 0}
    first.save(buffer, format="gif", optimize=False, **frames)
    return buffer.getvalue()
