"""TFRecord files without TensorFlow: checksums by definition, features, damage in one line."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from official_files import bitwise_crc32c, example, record
from toy_samples import one_line

import gsnobench as gb
from gsnobench_plugins.importers.crc32c import crc32c, masked
from gsnobench_plugins.importers.tfrecord import open_records

FIRST, SECOND = {"a": b"12345678" * 40, "b": b""}, {"a": b"x", "c": bytes(range(256))}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(record(example(FIRST)) + record(example(SECOND)))
    return path


def test_the_checksum_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # check value of CRC-32C
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


@pytest.mark.parametrize("length", [*range(18), 1000, 1001])
def test_the_checksum_is_that_of_the_definition(length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    assert crc32c(data) == bitwise_crc32c(data)


def test_features_are_read_by_name(file: Path) -> None:
    records = open_records(file)
    assert len(records) == 2
    for number, expected in enumerate((FIRST, SECOND)):
        features = records.features(number)
        assert {name: bytes(value) for name, value in features.items()} == expected
    assert records.peek(1, ["c", "d"]) == {"c": SECOND["c"]}


def damaged(file: Path, position: int) -> Path:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(bytes(data))
    return file


def test_a_wrong_checksum_is_one_line(file: Path) -> None:
    records = open_records(damaged(file, 100))
    with pytest.raises(gb.DataError) as error:
        records.features(0)
    one_line(error, "x.tfrecord: record 0 is damaged (its checksum is wrong)")
    assert records.features(1)


def test_a_wrong_length_is_one_line(file: Path) -> None:
    with pytest.raises(gb.DataError) as error:
        open_records(damaged(file, 2))
    one_line(error, "record 0 is damaged (the checksum of its length")


@pytest.mark.parametrize("cut", [1, 5, 300, 640])
def test_a_truncated_file_is_one_line(file: Path, cut: int) -> None:
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(gb.DataError) as error:
        open_records(file)
    one_line(error, "it is truncated")


def test_another_message_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(record(b"\x08\x01 not an example"))
    with pytest.raises(gb.DataError) as error:
        open_records(path).features(0)
    one_line(error, "it is no tf.train.Example")


@pytest.mark.slow  # timing of a quiet machine
def test_reading_takes_at_most_twice_as_long_as_the_checksum(tmp_path: Path) -> None:
    payload = example({"a": np.random.default_rng(0).bytes(200_000_000)})
    masked(payload[:100])  # compiled
    path = tmp_path / "x.tfrecord"
    length = len(payload).to_bytes(8, "little")
    sums = [masked(part).to_bytes(4, "little") for part in (length, payload)]
    path.write_bytes(length + sums[0] + payload + sums[1])
    records, started = open_records(path), time.perf_counter()
    records.features(0)
    whole, started = time.perf_counter() - started, time.perf_counter()
    masked(path.read_bytes())
    assert whole <= 2 * (time.perf_counter() - started)
