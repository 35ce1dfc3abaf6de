"""NACA four-digit sections of unit chord with a closed trailing edge, and nodes on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

import gsnobench as gb

# half thickness over maximum thickness; the last coefficient closes the trailing edge (Ladson 1975)
THICKNESS = (0.2969, -0.1260, -0.3516, 0.2843, -0.1036)
FINEST = 4096  # points of the outline from which arc lengths are taken


@dataclass(frozen=True)
class Section:
    """Camber, its position and thickness as parts of the chord; NACA 2412 is (0.02, 0.4, 0.12)."""

    camber: float
    position: float
    thickness: float

    @classmethod
    def of(cls, code: str) -> Section:
        """The section of a four-digit code."""
        is_code = len(code) == 4 and code.isdigit() and code[2:] != "00"
        if not is_code or (code[0] == "0") != (code[1] == "0"):
            raise gb.ParamError(
                f"data.naca: {code!r} is not a four-digit section; expected for example 0012 or "
                "2412; correct the code"
            )
        return cls(int(code[0]) / 100, int(code[1]) / 10, int(code[2:]) / 100)

    def outline(self, turn: gb.Array) -> gb.Array:
        """Points at angles from 0 (trailing edge) over pi (leading edge) to 2 pi, (n, 2).

        The upper side comes first.
        """
        x = 0.5 * (1.0 + np.cos(turn))
        root = np.abs(np.cos(0.5 * turn))  # sqrt(x), smooth through the leading edge
        a0, a1, a2, a3, a4 = THICKNESS
        half = 5.0 * self.thickness * (a0 * root + x * (a1 + x * (a2 + x * (a3 + x * a4))))  # (n,)
        line, slope = self._camber_line(x)
        side = np.where(turn <= np.pi, 1.0, -1.0)
        lean = np.arctan(slope)
        return np.stack([x - side * half * np.sin(lean), line + side * half * np.cos(lean)], axis=1)

    def _camber_line(self, x: gb.Array) -> tuple[gb.Array, gb.Array]:
        if self.camber == 0.0:
            return np.zeros_like(x), np.zeros_like(x)
        m, p = self.camber, self.position
        scale = np.where(x < p, m / p**2, m / (1.0 - p) ** 2)
        before, behind = 2.0 * p * x - x * x, 1.0 - 2.0 * p + 2.0 * p * x - x * x
        line = np.where(x < p, scale * before, scale * behind)
        return line, 2.0 * scale * (p - x)

    def nodes(self, count: int, *, nose: float, tail: float) -> gb.Array:
        """`count` points of the outline, counter-clockwise from the trailing edge.

        Edges at the leading and trailing edge are `nose` and `tail` times as long as in the middle,
        evenly blended along the arc, and mirrored for a symmetric section.
        """
        turn = np.linspace(0.0, 2.0 * np.pi, FINEST + 1)
        outline = self.outline(turn)
        arc = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(outline, axis=0), axis=1))])
        middle = 0.5 * (turn[1:] + turn[:-1])
        steps = np.diff(arc) / relative_spacing(middle, nose, tail)
        metric = np.concatenate([[0.0], np.cumsum(steps)])
        marks = metric[-1] * np.arange(count) / count
        return self.outline(CubicSpline(metric, turn)(marks))


def relative_spacing(turn: gb.Array, nose: float, tail: float) -> gb.Array:
    """Edge length at an angle of the outline over that in the middle of the chord."""
    x = 0.5 * (1.0 + np.cos(turn))
    return 1.0 - (1.0 - nose) * np.exp(-x / 0.1) - (1.0 - tail) * np.exp(-(1.0 - x) / 0.1)
