"""A family of smooth, watertight car bodies without wheels.

A rounded box is sheared to a roof line and drawn in. A point q of the rounded box
|qx|^p + |qy|^p + |qz|^p = 1 goes to
    x = length/2 qx,
    z = floor(x) + (roof(x) - floor(x)) (qz + 1)/2,
    y = width/2 qy narrowing(x, z),
each depending on the coordinates before it: no choice of the numbers can make the body cut itself,
and the exact inverse of the map separates inside from outside. The nose points to -x, the ground is
z = 0, the left and right sides are alike.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

import gsnobench as gb

STEP = 1e-5  # m, of the central differences that give normals


@dataclass(frozen=True)
class CarShape:
    """The numbers of one body: lengths in m, positions as shares of its length from the nose."""

    length: float
    width: float
    height: float  # of the roof above the ground
    ride: float  # height of the floor above the ground
    hood: float  # height of the hood, share of the way from the floor to the roof
    deck: float  # the same for the rear deck: about 0.6 for a saloon, near 1 for an estate
    screen: float  # position of the middle of the windscreen
    screen_run: float  # length of the windscreen
    slant: float  # position of the middle of the rear slant
    slant_run: float  # length of the rear slant
    hood_drop: float  # how much lower the hood is at the nose, m
    diffuser: float  # rise of the floor at the tail, m
    chin: float  # rise of the floor at the nose, m
    tumblehome: float  # share of the width that the roof is narrower
    nose: float  # share of the width that the nose is narrower
    boxiness: float  # exponent p of the rounded box


RANGES: dict[str, tuple[float, float]] = {
    "length": (3.8, 4.9),
    "width": (1.65, 1.9),
    "height": (1.3, 1.6),
    "ride": (0.18, 0.3),
    "hood": (0.5, 0.68),
    "deck": (0.55, 0.95),
    "screen": (0.28, 0.38),
    "screen_run": (0.6, 1.1),
    "slant": (0.72, 0.86),
    "slant_run": (0.5, 1.2),
    "hood_drop": (0.0, 0.15),
    "diffuser": (0.0, 0.15),
    "chin": (0.0, 0.1),
    "tumblehome": (0.1, 0.25),
    "nose": (0.0, 0.15),
    "boxiness": (3.5, 5.0),
}
TALL = (1.75, 2.1)  # m, heights of the bodies outside the family


def draw_shape(rng: np.random.Generator, *, tall: bool = False) -> CarShape:
    """A body with every number uniform in its range; a tall one differs in its height alone."""
    shares = rng.uniform(size=len(fields(CarShape)))
    ranges = {**RANGES, "height": TALL} if tall else RANGES
    numbers = {}
    for field, share in zip(fields(CarShape), shares, strict=True):
        low, high = ranges[field.name]
        numbers[field.name] = float(low + (high - low) * share)
    return CarShape(**numbers)


def body_points(shape: CarShape, directions: gb.Array) -> gb.Array:
    """Points of the surface, (V, 3), in the given directions (V, 3) from the middle of the box."""
    p = shape.boxiness
    box = directions / np.sum(np.abs(directions) ** p, axis=1, keepdims=True) ** (1 / p)
    x = shape.length / 2 * box[:, 0]
    low, high = _floor(shape, x), _roof(shape, x)
    z = low + (high - low) * (box[:, 2] + 1) / 2
    return np.stack([x, shape.width / 2 * box[:, 1] * _narrowing(shape, x, z), z], axis=1)


def level(shape: CarShape, points: gb.Array) -> gb.Array:
    """The function whose level 1 is the surface, less inside, (P,): the size in the rounded box."""
    p = shape.boxiness
    x, y, z = points.T
    low, high = _floor(shape, x), _roof(shape, x)
    across = 2 * y / (shape.width * _narrowing(shape, x, z))
    up = 2 * (z - low) / (high - low) - 1
    total = np.abs(2 * x / shape.length) ** p + np.abs(across) ** p + np.abs(up) ** p
    return np.asarray(total ** (1 / p))


def body_normals(shape: CarShape, points: gb.Array) -> gb.Array:
    """Outward unit normals at points of the surface, (P, 3)."""
    slopes = [
        (level(shape, points + step) - level(shape, points - step)) / (2 * STEP)
        for step in STEP * np.eye(3)
    ]
    gradient = np.stack(slopes, axis=1)
    return np.asarray(gradient / np.linalg.norm(gradient, axis=1, keepdims=True))


def _rise(along: gb.Array, middle: float, run: float) -> gb.Array:
    """A smooth step from 0 to 1 whose middle slope is that of a straight ramp of length `run`."""
    return np.asarray(0.5 * (1 + np.tanh(2 * (along - middle) / run)))


def _roof(shape: CarShape, x: gb.Array) -> gb.Array:
    along = x + shape.length / 2  # from the nose
    tall = shape.height - shape.ride
    front, rear = shape.ride + shape.hood * tall, shape.ride + shape.deck * tall
    hood = front - shape.hood_drop * np.clip(1 - along / shape.length, 0.0, 1.0) ** 2
    glass = (shape.height - front) * _rise(along, shape.screen * shape.length, shape.screen_run)
    back = (shape.height - rear) * _rise(along, shape.slant * shape.length, shape.slant_run)
    return np.asarray(hood + glass - back)


def _floor(shape: CarShape, x: gb.Array) -> gb.Array:
    share = x / shape.length + 0.5
    chin, tail = shape.chin * _rise(-share, -0.08, 0.15), shape.diffuser * _rise(share, 0.9, 0.2)
    return np.asarray(shape.ride + chin + tail)


def _narrowing(shape: CarShape, x: gb.Array, z: gb.Array) -> gb.Array:
    """Width of the body relative to its greatest, by the position along it and the height."""
    belt = shape.ride + shape.hood * (shape.height - shape.ride)
    above = _rise(z, (belt + shape.height) / 2, shape.height - belt)
    before = _rise(-x / shape.length, 0.42, 0.3)
    return np.asarray((1 - shape.tumblehome * above) * (1 - shape.nose * before))
