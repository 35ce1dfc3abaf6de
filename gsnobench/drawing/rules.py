"""The rules of all pictures: inks, sizes of letters, colour maps, and how units are written."""

from __future__ import annotations

import re
from collections.abc import Sequence

INK = "#222222"
FAINT = "#666666"  # on white 5.7 : 1; WCAG asks for 4.5
GRID = "#dddddd"
GROUND = "#ececec"  # a body that a slice cuts through, a mesh without values
SMALL, NORMAL, LARGE = 7.5, 9.0, 11.5  # points
FIRST, SECOND = "#0072B2", "#B34700"  # of two lines: Okabe and Ito's blue, a darker vermillion

# One map per kind of quantity. A signed field is white at its reference, an error at zero.
FIELD_COLOURS, SIGNED_COLOURS, INPUT_COLOURS = "viridis", "RdBu_r", "cividis"
ERROR_COLOURS, LENGTH_COLOURS = "PuOr_r", "magma_r"

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def spelled(unit: str) -> str:
    """A unit as people write it: `m s-1` and `m s^-1` become m s⁻¹; a pure number is a dash."""
    if unit.strip() in ("", "1"):
        return "–"
    raised = re.sub(
        r"(?<=[A-Za-zµΩ°)])\^?(-?\d+)", lambda power: power[1].translate(SUPERSCRIPTS), unit
    )
    return raised.replace("*", " ")


def labelled(name: str, unit: str) -> str:
    """A quantity with its unit in brackets; underscores are for programs."""
    return f"{name.replace('_', ' ')} [{spelled(unit)}]"


def symbols(text: str) -> str:
    """Knobs such as k_s as letters with an index, for matplotlib's formulas."""
    return re.sub(r"\b([A-Za-z])_([A-Za-z])\b", r"$\1_\2$", text)


def at_time(time: float, unit: str) -> str:
    """`t = 3 s`; a time without a unit stands alone."""
    text = f"t = {time:.3g}"
    return text if unit.strip() in ("", "1") else f"{text} {spelled(unit)}"


def luminance(colour: Sequence[float]) -> float:
    """Relative luminance of red, green and blue in 0..1, as WCAG counts it."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: Sequence[float], second: Sequence[float]) -> float:
    """WCAG's contrast of two colours: 1 if they are equal, 21 between black and white."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def readable_on(colour: Sequence[float]) -> str:
    """Black or white, whichever has more contrast to a colour: it is at least 4.5."""
    return "black" if luminance(colour) > 0.179 else "white"
