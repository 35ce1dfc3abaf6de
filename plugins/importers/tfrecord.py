"""TFRecord files of tf.train.Example messages, without TensorFlow: checksums, features as bytes.

A record is its length (uint64), the masked CRC-32C of the length, the payload and its masked
CRC-32C, all little-endian. The payload is a protobuf message; only length-delimited parts occur:
Example {1: Features {1: repeated entry {1: name, 2: Feature {1: list of bytes {1: value}}}}}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

import gsnobench as gb
from gsnobench_plugins.importers.crc32c import masked

HEADER = struct.Struct("<QI")
FOOTER = struct.Struct("<I")
DELIMITED = 2  # wire type of protobuf
Span = tuple[int, int]  # first byte and one behind the last


@dataclass(frozen=True)
class RecordFile:
    """The records of a file: an index of them all, their payloads one at a time."""

    path: Path
    spans: tuple[Span, ...]  # of the payloads

    def __len__(self) -> int:
        return len(self.spans)

    def features(self, number: int) -> dict[str, memoryview]:
        """Name -> raw bytes of one record, checked against its checksum."""
        start, stop = self.spans[number]
        with self.path.open("rb") as file:
            file.seek(start)
            payload = file.read(stop - start)
            (expected,) = FOOTER.unpack(file.read(FOOTER.size))
        if masked(payload) != expected:
            raise self._damaged(number, "its checksum is wrong")
        return self._parsed(number, memoryview(payload))

    def peek(self, number: int, names: Iterable[str]) -> dict[str, bytes]:
        """Some features of one record; the rest of it is not read, so no checksum is compared."""
        start, stop = self.spans[number]
        with self.path.open("rb") as file:
            # not closed by hand: an error holds views of it, and it goes with the last of them
            pages = mmap(file.fileno(), 0, access=ACCESS_READ)
        features = self._parsed(number, memoryview(pages)[start:stop])
        return {name: bytes(features[name]) for name in names if name in features}

    def _parsed(self, number: int, payload: memoryview) -> dict[str, memoryview]:
        features: dict[str, memoryview] = {}
        try:
            for _, example in _parts(payload):
                for _, entry in _parts(example):
                    parts = dict(_parts(entry))
                    ((kind, values),) = _parts(parts[2])
                    if kind != 1:
                        raise ValueError(f"feature {bytes(parts[1])!r} is not a list of bytes")
                    ((_, value),) = _parts(values)
                    features[bytes(parts[1]).decode()] = value
        except (ValueError, KeyError, IndexError, OverflowError) as error:
            raise self._damaged(number, f"it is no tf.train.Example, {error}") from error
        return features

    def _damaged(self, number: int, reason: str) -> gb.DataError:
        return gb.DataError(
            f"{self.path}: record {number} is damaged ({reason}); download the file again"
        )


def open_records(path: Path) -> RecordFile:
    """The index of a file, from the lengths alone: payloads are not read."""
    if not path.is_file():
        raise gb.DataError(f"{path}: no such file; expected a TFRecord file")
    size, start = path.stat().st_size, 0
    spans: list[Span] = []
    with path.open("rb") as file:
        while start < size:
            file.seek(start)
            header = file.read(HEADER.size)
            if len(header) < HEADER.size:
                raise _cut(path, len(spans))
            length, expected = HEADER.unpack(header)
            if masked(header[:8]) != expected:
                raise gb.DataError(
                    f"{path}: record {len(spans)} is damaged (the checksum of its length is "
                    "wrong); it is no TFRecord file, or download it again"
                )
            start += HEADER.size
            spans.append((start, start + length))
            start += length + FOOTER.size
            if start > size:
                raise _cut(path, len(spans) - 1)
    return RecordFile(path, tuple(spans))


def _cut(path: Path, number: int) -> gb.DataError:
    return gb.DataError(f"{path}: ends inside record {number}; it is truncated; download it again")


def _parts(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """(field number, content) of the length-delimited parts of a protobuf message."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        if key & 7 != DELIMITED:
            raise ValueError(f"wire type {key & 7}")
        length, position = _varint(message, position)
        if position + length > len(message):
            raise ValueError("a part is longer than the message")
        yield key >> 3, message[position : position + length]
        position += length


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """A number of seven bits per byte, and the position behind it."""
    value = shift = 0
    while shift < 64:
        byte = message[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
    raise ValueError("a number has more than 64 bits")
