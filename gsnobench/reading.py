"""Files that others wrote: read whole, or refused in one line before anything is allocated."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gsnobench.errors import DataError, GsnobenchError

if TYPE_CHECKING:
    from gsnobench.data import Array

HASH = re.compile(r"[0-9a-f]{64}")
DEEPEST = 50  # brackets within brackets; what this project writes has fewer than ten
# what Python reads as infinite, or as a whole number that no array can hold
EXTREME = re.compile(r"[eE]\+?\d{3}|\d{19}")


@contextmanager
def guarded(label: object, *, expected: str) -> Iterator[None]:
    """Turn whatever a library raises over a damaged file into one line.

    Formats and the libraries that read them have dozens of kinds of errors; a list of them would
    never be complete.
    """
    try:
        yield
    except GsnobenchError:
        raise
    except MemoryError as error:
        raise DataError(
            f"{label}: asks for more memory than there is; expected {expected}"
        ) from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())[:160]
        raise DataError(f"{label}: cannot be read ({reason}); expected {expected}") from error


def require_memory(label: object, needed: int) -> None:
    """Refuse before allocating what this machine cannot hold now."""
    if needed > (free := free_memory()):
        raise DataError(
            f"{label}: needs {needed / 1e9:.3g} GB of memory, {free / 1e9:.3g} GB are free; use a "
            "larger machine or a smaller file"
        )


def free_memory() -> int:
    """Bytes that could be allocated now; all that the machine has where nothing else is known."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        sizes = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in lines)}
        return 1024 * int(sizes["MemAvailable"])
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def read_bytes(path: Path, *, expected: str) -> bytes:
    """The content of a regular file; a device or a pipe would never end."""
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: is not a file; expected {expected}")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read ({reason}); expected {expected}") from error


def read_text(path: Path, *, expected: str) -> str:
    """The content of a text file."""
    return _decoded(read_bytes(path, expected=expected), str(path), expected)


def read_json(path: Path, *, expected: str) -> Any:
    """What a JSON file holds."""
    return parse_json(read_bytes(path, expected=expected), label=str(path), expected=expected)


def parse_json(content: str | bytes, *, label: str, expected: str) -> Any:
    """What a JSON text holds: finite numbers of usual size, not nested without end."""
    text = content if isinstance(content, str) else _decoded(content, label, expected)
    try:
        if EXTREME.search(text):  # only then: the checks take ten times as long as reading
            value = json.loads(
                text, parse_int=_whole, parse_float=_finite, parse_constant=_not_json
            )
        else:
            value = json.loads(text, parse_constant=_not_json)
        is_deep = _is_deeper(value, DEEPEST)
    except ValueError as error:
        raise DataError(f"{label}: is not JSON ({error}); expected {expected}") from error
    except RecursionError:
        is_deep = True
    if is_deep:
        raise DataError(f"{label}: is nested more than {DEEPEST} deep; expected {expected}")
    return value


def read_toml(path: Path, *, remedy: str) -> dict[str, Any]:
    """What a TOML file holds."""
    try:
        return tomllib.loads(read_text(path, expected="a TOML file"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path}: not a readable TOML file ({error}); {remedy}") from error


def read_npy(path: Path) -> Array:
    """The array of an .npy file, mapped into memory; nothing is ever unpickled."""
    import numpy as np

    with guarded(path, expected="a NumPy file with a plain array, whole and unpickled"):
        _require_file(path)
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive of arrays")
        return array


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file; nothing is unpickled, and sizes are looked at before reading."""
    import numpy as np

    with guarded(path, expected="a NumPy file with plain arrays, whole and unpickled"):
        _require_file(path)
        with zipfile.ZipFile(path) as archive:
            members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            total = 0
            for entry in members.values():
                with archive.open(entry) as member:
                    total += _declared_bytes(member, entry.file_size)
            require_memory(path, total)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in members}


def _require_file(path: Path) -> None:
    if not path.is_file():
        what = "is not a file" if path.exists() else "no such file"
        raise DataError(f"{path}: {what}; expected a NumPy file")


def _declared_bytes(member: IO[bytes], size: int) -> int:
    """The bytes of the array that a header declares; a ValueError if the member is shorter."""
    from numpy.lib import format as npy

    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(member)
    needed = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or needed > size:
        raise ValueError(f"an array of {needed:,} bytes is declared, {size:,} are there")
    return needed


def _decoded(content: bytes, label: str, expected: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{label}: is not UTF-8 text ({error}); expected {expected}") from error


def _whole(text: str) -> int:
    if len(text) > 19:
        raise ValueError(f"a whole number of {len(text)} characters")
    return int(text)


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is too large for a number")
    return value


def _not_json(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(
        _is_deeper(item, levels - 1) for item in items if isinstance(item, (dict, list))
    )


class InputFile(str):
    """The value of a knob that names a file: its content hash, so that no path is in a key.

    The text is the SHA-256 of the content, empty without a file; `path` is where the file is.
    """

    path: Path | None

    def __new__(cls, content_hash: str = "", path: Path | None = None) -> InputFile:
        value = super().__new__(cls, content_hash)
        value.path = path
        return value

    def __getnewargs__(self) -> tuple[str, Path | None]:  # type: ignore[override]
        return str(self), self.path

    @classmethod
    def of(cls, text: str) -> InputFile:
        """The file at a path; a content hash of which nobody knows the file stays one."""
        if isinstance(text, cls):
            return text
        if not text or HASH.fullmatch(text):
            return cls(text)
        path = Path(text).expanduser().absolute()
        content = read_bytes(path, expected="a file")
        return cls(hashlib.sha256(content).hexdigest(), path)

    def read_json(self, *, expected: str) -> Any:
        """What a JSON file holds."""
        return parse_json(self.read(), label=str(self.path), expected=expected)

    def read(self) -> bytes:
        """The content; refused if it is no longer what the hash says."""
        if self.path is None:
            raise DataError(
                f"{self[:12]}: the file with this content is not known here; name it by its path"
            )
        content = read_bytes(self.path, expected="the file that was named")
        if hashlib.sha256(content).hexdigest() != self:
            raise DataError(f"{self.path}: has changed since it was named; start the command again")
        return content
