"""Named arrays in one file, with a checksum: a flipped bit is noticed before it is a number.

The files are plain safetensors; the checksum of all names, types, shapes and values is in their
metadata. Files from before there was one are read as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gsnobench.files import atomic

if TYPE_CHECKING:
    from gsnobench.data import Array

CHECKSUM = "sha256"


class Damaged(ValueError):
    """The file cannot be read, or does not hold what was written."""


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays and their checksum; a killed process leaves the file as it was."""
    import numpy as np
    from safetensors.numpy import save_file

    whole = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    with atomic(path) as part:
        save_file(whole, part, metadata={CHECKSUM: checksum(whole)})


def read_arrays(path: Path, *, needs_checksum: bool = False) -> dict[str, Array]:
    """The arrays of a file; `Damaged` if it is not what was written."""
    from safetensors.numpy import load

    try:
        content = path.read_bytes()
        arrays: dict[str, Array] = {name: value.copy() for name, value in load(content).items()}
        stored = _metadata(content).get(CHECKSUM)
    except Exception as error:  # safetensors and json have several kinds for unreadable content
        raise Damaged(f"unreadable ({error})") from error
    is_unknown = stored is None and not needs_checksum
    if not is_unknown and stored != checksum(arrays):
        raise Damaged("its checksum does not match its content")
    return arrays


def checksum(arrays: Mapping[str, Array]) -> str:
    """A hash of all names, types, shapes and values, whatever their order."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        value = arrays[name]
        total.update(f"{name}\0{value.dtype.str}\0{value.shape}\0".encode())
        total.update(value.tobytes())
    return total.hexdigest()


def _metadata(content: bytes) -> dict[str, str]:
    """The metadata in the header of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + size]).get("__metadata__", {}))
