"""CRC-32C (Castagnoli), eight bytes at a time, and the masked form that TFRecord files hold."""

from __future__ import annotations

import numpy as np
from numba import njit

import gsnobench as gb

POLYNOMIAL = 0x82F63B78  # reflected
MASK_DELTA = 0xA282EAD8


def _tables() -> gb.Array:
    """table[k][b]: the effect of byte b followed by k zero bytes, (8, 256) uint32."""
    table = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = (rest >> 1) ^ (POLYNOMIAL if rest & 1 else 0)
        table[0, byte] = rest
    for zeros in range(1, 8):
        table[zeros] = (table[zeros - 1] >> np.uint32(8)) ^ table[0, table[zeros - 1] & 255]
    return table


TABLES = _tables()


@njit(cache=True)
def _update(data: gb.Array, table: gb.Array) -> np.uint32:
    rest = np.uint32(0xFFFFFFFF)
    whole = len(data) // 8 * 8
    for i in range(0, whole, 8):
        rest ^= (
            np.uint32(data[i])
            | np.uint32(data[i + 1]) << np.uint32(8)
            | np.uint32(data[i + 2]) << np.uint32(16)
            | np.uint32(data[i + 3]) << np.uint32(24)
        )
        rest = (
            table[7, rest & np.uint32(255)]
            ^ table[6, rest >> np.uint32(8) & np.uint32(255)]
            ^ table[5, rest >> np.uint32(16) & np.uint32(255)]
            ^ table[4, rest >> np.uint32(24)]
            ^ table[3, data[i + 4]]
            ^ table[2, data[i + 5]]
            ^ table[1, data[i + 6]]
            ^ table[0, data[i + 7]]
        )
    for i in range(whole, len(data)):
        rest = table[0, (rest ^ data[i]) & np.uint32(255)] ^ (rest >> np.uint32(8))
    return rest ^ np.uint32(0xFFFFFFFF)


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The checksum of some bytes."""
    return int(_update(np.frombuffer(data, dtype=np.uint8), TABLES))


def masked(data: bytes | bytearray | memoryview) -> int:
    """The checksum in the form of TFRecord: rotated by 15 bits, plus a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF
