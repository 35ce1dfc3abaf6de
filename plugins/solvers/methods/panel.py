"""Flat triangles with a constant source density: their potential and velocity.

Both are exact nearby and computed from moments far away. A unit density has the potential -Phi / (4
pi) with Phi(x) = integral of 1/|x - y| dS(y) and the velocity integral of (x - y) / |x - y|^3 dS(y)
/ (4 pi), whose normal component jumps by 1 across the panel. Mirror images are evaluated as the
same panels seen from mirrored points, so that only one half of a symmetric body is stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit

import gsnobench as gb

NEAR = 6.0  # longest edges of a panel within which it is integrated exactly; beyond: a point
FAR = 4.0  # radii of a block beyond which its moments up to the second replace its panels
BLOCK = 16  # panels
TINY = np.float32(1e-12)  # m^2, keeps the distance of a panel to itself above 0

Mirror = Literal["x", "y", "z"]


@dataclass(frozen=True, eq=False)
class Panels:
    """Triangles with outward normals in blocks of neighbours, and the planes that mirror them."""

    corners: gb.Array  # (M, 3, 3)
    centres: gb.Array  # (M, 3)
    normals: gb.Array  # (M, 3)
    areas: gb.Array  # (M,)
    reach: gb.Array  # (M,) squared distance within which a panel is integrated exactly
    blocks: gb.Array  # (ceil(M / BLOCK), 5) centre, radius, distance beyond which none is exact
    signs: gb.Array  # (I, 3) of the coordinates in each mirror image, the panels themselves first


def make_panels(corners: gb.Array, mirrors: tuple[Mirror, ...] = ()) -> Panels:
    """Panels of the triangles (M, 3, 3), reordered, mirrored in all combinations of planes."""
    corners = corners[_compact_order(corners.mean(axis=1))]
    centres = corners.mean(axis=1)
    doubled = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])  # (M, 3)
    areas = np.linalg.norm(doubled, axis=1) / 2
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    signs = np.ones((1, 3))
    for mirror in mirrors:
        flip = np.where(np.arange(3) == "xyz".index(mirror), -1.0, 1.0)
        signs = np.concatenate([signs, signs * flip])
    starts = np.arange(0, len(areas), BLOCK)
    middle = np.add.reduceat(centres, starts) / np.diff(np.append(starts, len(areas)))[:, None]
    own_middle = np.repeat(middle, BLOCK, axis=0)[: len(areas), None]
    spread = np.linalg.norm(corners - own_middle, axis=2).max(axis=1)
    radii = np.maximum.reduceat(spread, starts)
    blocks = np.column_stack([middle, radii, radii + NEAR * np.maximum.reduceat(longest, starts)])
    normals = doubled / (2 * areas[:, None])
    return Panels(corners, centres, normals, areas, (NEAR * longest) ** 2, blocks, signs)


def _compact_order(points: gb.Array) -> gb.Array:
    """An order in which every BLOCK consecutive points are neighbours, by repeated halving.

    Halves are cut across the longest side.
    """
    parts, order = [np.arange(len(points))], []
    while parts:
        part = parts.pop()
        if len(part) <= BLOCK:
            order.append(part)
            continue
        axis = int(np.argmax(np.ptp(points[part], axis=0)))
        part = part[np.argsort(points[part, axis], kind="stable")]
        middle = BLOCK * (-(-len(part) // BLOCK) // 2)
        parts += [part[middle:], part[:middle]]
    return np.concatenate(order)


def normal_matrix(panels: Panels) -> gb.Array:
    """Normal velocity just outside the centre of panel i per density on panel j, (M, M) float32.

    The images of panel j are included. What leaves panel j outward goes through the body once and
    what enters from its images leaves again, so the flux of column j through all panels is the area
    of panel j. The diagonal is set so that this holds: the flat panel's own 1/2 lacks the curvature
    of the body, and with it the velocity is of first order only; closed in this way it is of
    second.
    """
    matrix = np.empty((len(panels.areas), len(panels.areas)), dtype=np.float32)
    _fill_normal(matrix, *_arrays(panels))
    flux, areas = np.zeros(len(matrix)), panels.areas.astype(np.float32)
    for start in range(0, len(matrix), 128):  # the sum of more rows would need float64
        flux += areas[start : start + 128] @ matrix[start : start + 128]
    np.einsum("ii->i", matrix)[:] += 1.0 - flux / panels.areas
    return matrix


def source_field(panels: Panels, density: gb.Array, targets: gb.Array) -> tuple[gb.Array, gb.Array]:
    """Potential (P,) and velocity (P, 3) at points off the edges; on a panel, of its outer side."""
    weights = panels.areas * density / (4 * math.pi)
    field = np.zeros((len(targets), 4))
    moments, targets = _moments(panels, weights), np.ascontiguousarray(targets)
    _add_field(field, targets, density, moments, *_arrays(panels))
    return field[:, 0], field[:, 1:]


def _arrays(panels: Panels) -> tuple[gb.Array, ...]:
    triangles = (panels.corners, panels.centres, panels.normals, panels.areas)
    return (*triangles, panels.reach, panels.blocks, panels.signs)


def _moments(panels: Panels, weights: gb.Array) -> gb.Array:
    """Moments of each block about its centre, (K, 10).

    They are the sum, the first moment, and the traceless second as xx yy zz xy yz zx.
    """
    count = len(weights)
    starts = np.arange(0, count, BLOCK)
    middle = np.repeat(panels.blocks[:, :3], BLOCK, axis=0)[:count]
    arms = panels.corners - middle[:, None]  # (M, 3, 3)
    mean = panels.centres - middle
    own_second = np.einsum("mki,mkj->mij", arms, arms) / 12  # of a flat triangle
    second = own_second + 0.75 * mean[:, :, None] * mean[:, None, :]
    second -= np.einsum("mii->m", second)[:, None, None] * np.eye(3) / 3
    pairs = second[:, [0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 2, 0]]  # (M, 6)
    own = np.concatenate([np.ones((count, 1)), mean, pairs], axis=1) * weights[:, None]
    return np.asarray(np.add.reduceat(own, starts))


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def _edge(ax: Any, ay: Any, az: Any, bx: Any, by: Any, bz: Any, la: Any, lb: Any) -> Any:
    """Integral of 1/|y| along the edge from a to b over its length, and the edge.

    la and lb are the lengths of a and b.
    """
    tx, ty, tz = bx - ax, by - ay, bz - az
    length = math.sqrt(tx * tx + ty * ty + tz * tz)
    return math.log((la + lb + length) / max(la + lb - length, 1e-14 * length)) / length, tx, ty, tz


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def solid_angle(
    ax: Any, ay: Any, az: Any, bx: Any, by: Any, bz: Any, cx: Any, cy: Any, cz: Any
) -> Any:
    """Signed solid angle of triangle abc seen from the origin, and the distances of its corners.

    van Oosterom and Strackee 1983; positive if the normal points to the origin's side.
    """
    la = math.sqrt(ax * ax + ay * ay + az * az)
    lb = math.sqrt(bx * bx + by * by + bz * bz)
    lc = math.sqrt(cx * cx + cy * cy + cz * cz)
    triple = ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx)
    ab, bc, ca = (
        ax * bx + ay * by + az * bz,
        bx * cx + by * cy + bz * cz,
        cx * ax + cy * ay + cz * az,
    )
    return -2.0 * math.atan2(triple, la * lb * lc + ab * lc + bc * la + ca * lb), la, lb, lc


@njit(cache=True, fastmath=True, error_model="numpy")
def _exact(corners: Any, normal: Any, x: float, y: float, z: float) -> Any:
    """Phi of a panel at a point, and minus its gradient.

    Edge integrals give the part in the plane, the solid angle the part across it.
    """
    ax, ay, az = corners[0, 0] - x, corners[0, 1] - y, corners[0, 2] - z
    bx, by, bz = corners[1, 0] - x, corners[1, 1] - y, corners[1, 2] - z
    cx, cy, cz = corners[2, 0] - x, corners[2, 1] - y, corners[2, 2] - z
    nx, ny, nz = normal[0], normal[1], normal[2]
    angle, la, lb, lc = solid_angle(ax, ay, az, bx, by, bz, cx, cy, cz)
    e, tx, ty, tz = _edge(ax, ay, az, bx, by, bz, la, lb)
    f, rx, ry, rz = _edge(bx, by, bz, cx, cy, cz, lb, lc)
    g, sx, sy, sz = _edge(cx, cy, cz, ax, ay, az, lc, la)
    ux, uy, uz = e * tx + f * rx + g * sx, e * ty + f * ry + g * sy, e * tz + f * rz + g * sz
    phi = (nx * ax + ny * ay + nz * az) * angle
    phi += e * ((ty * nz - tz * ny) * ax + (tz * nx - tx * nz) * ay + (tx * ny - ty * nx) * az)
    phi += f * ((ry * nz - rz * ny) * bx + (rz * nx - rx * nz) * by + (rx * ny - ry * nx) * bz)
    phi += g * ((sy * nz - sz * ny) * cx + (sz * nx - sx * nz) * cy + (sx * ny - sy * nx) * cz)
    return (
        phi,
        nx * angle + uy * nz - uz * ny,
        ny * angle + uz * nx - ux * nz,
        nz * angle + ux * ny - uy * nx,
    )


@njit(cache=True, fastmath=True, error_model="numpy")
def _fill_normal(
    matrix: Any,
    corners: Any,
    centres: Any,
    normals: Any,
    areas: Any,
    reach: Any,
    blocks: Any,
    signs: Any,
) -> None:
    """All entries but the diagonal, which holds the images alone."""
    count = len(areas)
    cx, cy, cz = (
        centres[:, 0].astype(np.float32),
        centres[:, 1].astype(np.float32),
        centres[:, 2].astype(np.float32),
    )
    weight = (areas / (4.0 * math.pi)).astype(np.float32)
    for i in range(count):
        row = matrix[i]
        row[:] = 0.0
        for s in range(len(signs)):
            x, y, z = signs[s] * centres[i]
            u, v, w = signs[s] * normals[i]
            x4, y4, z4, u4, v4, w4 = (
                np.float32(x),
                np.float32(y),
                np.float32(z),
                np.float32(u),
                np.float32(v),
                np.float32(w),
            )
            for j in range(count):
                dx, dy, dz = x4 - cx[j], y4 - cy[j], z4 - cz[j]
                squared = dx * dx + dy * dy + dz * dz + TINY
                row[j] += weight[j] * (dx * u4 + dy * v4 + dz * w4) / (squared * np.sqrt(squared))
            for b in range(len(blocks)):
                dx, dy, dz = x - blocks[b, 0], y - blocks[b, 1], z - blocks[b, 2]
                if dx * dx + dy * dy + dz * dz > blocks[b, 4] ** 2:
                    continue
                for j in range(b * BLOCK, min((b + 1) * BLOCK, count)):
                    dx, dy, dz = x - centres[j, 0], y - centres[j, 1], z - centres[j, 2]
                    squared = dx * dx + dy * dy + dz * dz + float(TINY)
                    if squared <= reach[j]:
                        point = (
                            areas[j] * (dx * u + dy * v + dz * w) / (squared * math.sqrt(squared))
                        )
                        _, vx, vy, vz = _exact(corners[j], normals[j], x, y, z)
                        exact = vx * u + vy * v + vz * w if s > 0 or i != j else 0.0
                        row[j] += np.float32((exact - point) / (4.0 * math.pi))


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def _far(moments: Any, dx: Any, dy: Any, dz: Any) -> Any:
    """Potential and velocity of a block from its moments."""
    inverse = 1.0 / (dx * dx + dy * dy + dz * dz)
    root = math.sqrt(inverse)
    cube = inverse * root
    first = (moments[1] * dx + moments[2] * dy + moments[3] * dz) * inverse
    qx = (moments[4] * dx + moments[7] * dy + moments[9] * dz) * inverse
    qy = (moments[7] * dx + moments[5] * dy + moments[8] * dz) * inverse
    qz = (moments[9] * dx + moments[8] * dy + moments[6] * dz) * inverse
    second = (qx * dx + qy * dy + qz * dz) * inverse
    radial = moments[0] + 3.0 * first + 7.5 * second
    potential = -(moments[0] + first + 1.5 * second) * root
    vx = cube * (radial * dx - moments[1] - 3.0 * qx)
    vy = cube * (radial * dy - moments[2] - 3.0 * qy)
    vz = cube * (radial * dz - moments[3] - 3.0 * qz)
    return potential, vx, vy, vz


@njit(cache=True, fastmath=True, error_model="numpy")
def _add_near(field: Any, point: Any, members: Any, density: Any, arrays: Any) -> None:
    """Potential and velocity of the panels `members` (from, to) at a point, added to `field`."""
    corners, centres, normals, areas, reach = arrays
    x, y, z = point
    for j in range(members[0], members[1]):
        dx, dy, dz = x - centres[j, 0], y - centres[j, 1], z - centres[j, 2]
        squared = dx * dx + dy * dy + dz * dz
        if squared > reach[j]:
            inverse = 1.0 / squared
            phi = areas[j] * math.sqrt(inverse)
            share = phi * inverse
            vx, vy, vz = share * dx, share * dy, share * dz
        else:
            phi, vx, vy, vz = _exact(corners[j], normals[j], x, y, z)
        weight = density[j] / (4.0 * math.pi)
        field[0] -= weight * phi
        field[1] += weight * vx
        field[2] += weight * vy
        field[3] += weight * vz


@njit(cache=True, fastmath=True, error_model="numpy")
def _add_field(
    field: Any,
    targets: Any,
    density: Any,
    moments: Any,
    corners: Any,
    centres: Any,
    normals: Any,
    areas: Any,
    reach: Any,
    blocks: Any,
    signs: Any,
) -> None:
    arrays = (corners, centres, normals, areas, reach)
    seen = np.empty(4)
    for i in range(len(targets)):
        for s in range(len(signs)):
            point = signs[s] * targets[i]
            x, y, z = point
            seen[:] = 0.0
            for b in range(len(blocks)):
                dx, dy, dz = x - blocks[b, 0], y - blocks[b, 1], z - blocks[b, 2]
                if dx * dx + dy * dy + dz * dz > (FAR * blocks[b, 3]) ** 2:
                    phi, vx, vy, vz = _far(moments[b], dx, dy, dz)
                    seen[0] += phi
                    seen[1] += vx
                    seen[2] += vy
                    seen[3] += vz
                else:
                    _add_near(
                        seen, point, (b * BLOCK, min((b + 1) * BLOCK, len(areas))), density, arrays
                    )
            field[i, 0] += seen[0]
            for axis in range(3):
                field[i, 1 + axis] += signs[s, axis] * seen[1 + axis]
