"""A simplified outline of Lake Union (Seattle), drawn by hand: about 1:10 of the lake in metres."""

from __future__ import annotations

import numpy as np

import gsnobench as gb

# x,y of the vertices, counter-clockwise from the southern tip
SOUTH_AND_EAST = """
    82,0 106,3 118,16 130,26 144,44 161,54 167,72 168,92 156,106 150,122 149,148 150,176 163,192
    165,212 175,228 184,246 190,266 197,282 200,300
"""
NORTH = """
    178,298 163,284 147,272 137,256 136,240 126,226 123,210 110,201 96,207 84,221 72,232 56,238
    38,242 18,245 0,237
"""
WEST = """
    4,220 22,207 38,195 49,177 58,157 67,136 72,114 74,92 68,72 68,52 73,36 76,18
"""


def lake_union_outline() -> gb.Array:
    """The outline (46, 2), counter-clockwise from the southern tip; 200 units wide, 300 high.

    Piers and slips are left out.
    """
    vertices = (SOUTH_AND_EAST + NORTH + WEST).split()
    return np.array([vertex.split(",") for vertex in vertices], dtype=float)
