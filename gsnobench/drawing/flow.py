"""Lines of a flow over its colours: a stream function in the plane, streamlines of a steady one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsnobench.data import Array, Field, Mesh, Task
from gsnobench.drawing.quantities import Quantity
from gsnobench.drawing.views import View
from gsnobench.meshes.operators import factorise, stiffness_and_mass
from gsnobench.meshes.topology import boundary_edges

LEVELS = 9  # contours of a stream function between its extremes
VORTICITY, VELOCITY = "vorticity", "velocity"  # quantities that have lines, by their names


@dataclass(frozen=True, eq=False)
class Contours:
    """Lines on which a stream function is constant: fluid moves along them."""

    values: Array  # (N,)
    levels: Array  # rising, the same in all panels that are compared


@dataclass(frozen=True, eq=False)
class Streamlines:
    """Curves along a velocity; in space those of its part in the slice."""

    velocity: Array  # (N, d)


Lines = Contours | Streamlines


def stream_functions(mesh: Mesh, vorticity: Array) -> Array:
    """psi with -Laplace psi = w inside and psi = 0 on the whole border, for w of (..., N).

    The velocity (psi_y, -psi_x) has this vorticity, and no fluid crosses the border.
    """
    matrix, mass = stiffness_and_mass(mesh)
    is_free = np.ones(mesh.size, dtype=bool)
    is_free[boundary_edges(mesh)] = False
    solver = factorise(matrix[is_free][:, is_free])
    psi = np.zeros(vorticity.shape)
    loads = (mass * vorticity).reshape(-1, mesh.size)[:, is_free]
    psi.reshape(-1, mesh.size)[:, is_free] = solver.solve(loads.T).T
    return psi


def lines_of(
    task: Task,
    quantity: Quantity,
    mesh: Mesh,
    view: View,
    frames: Array,
    like: Array | None = None,
) -> Sequence[Lines | None]:
    """Lines of each of some frames (T, N, C); none where a quantity is not a flow.

    None either on dots and on surfaces in space. The levels of a stream function are those of the
    frames `like`, so that truth and prediction compare.
    """
    if view.triangles is None or view.light is not None:
        return [None] * len(frames)
    if quantity.name == VORTICITY and _is_closed(task.fields[quantity.columns[0]], mesh):
        shown = stream_functions(mesh, quantity.of(frames))
        scale = shown if like is None else stream_functions(mesh, quantity.of(like))
        levels = np.linspace(scale.min(), scale.max(), LEVELS + 2)[1:-1]
        return [Contours(psi, levels) for psi in shown]
    if quantity.name == VELOCITY and quantity.is_vector and len(task.times) == 1:
        return [Streamlines(frame[:, list(quantity.columns)]) for frame in frames]
    return [None] * len(frames)


def explained(lines: Lines | None) -> str:
    """What a caption says of them; nothing where there are none."""
    if lines is None:
        return ""
    return "lines: " + ("stream function" if isinstance(lines, Contours) else "streamlines")


def _is_closed(field: Field, mesh: Mesh) -> bool:
    """Whether a field of the plane has a declared condition on the whole border.

    Only then is the border taken for a wall; an inlet would need the flow through it.
    """
    if mesh.dim != 2 or mesh.cells is None or mesh.cells.shape[1] != 3:
        return False
    declared = [mesh.tags[tag] for tag in field.boundary if tag in mesh.tags]
    return bool(declared) and bool(np.any(declared, axis=0)[boundary_edges(mesh)].all())
