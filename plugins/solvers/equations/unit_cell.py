"""The unit square with a void: its published mesh, and the finer one on which it is solved.

The finer one has bent edges.
"""

from __future__ import annotations

import numpy as np

import gsnobench as gb
from gsnobench.meshes.topology import cell_edges, cells_of, directed_facets
from gsnobench_plugins.solvers.meshing.local_refinement import refine_where
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.meshing.sizing import GRADATION, TRIANGLE, SizeFunction
from gsnobench_plugins.solvers.methods.taylor_hood import TaylorHood
from gsnobench_plugins.solvers.shapes.geometry import signed_area, turning
from gsnobench_plugins.solvers.shapes.voids import Void

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
CLAMPED_CORNERS = SQUARE[:2]
OUTLINE_POINTS = 128  # of the polygon that stands for the void while its mesh is made
SWEEPS = 25  # of smoothing
SHORTEST = 0.4  # edge at a tight bend, relative to the others
GRADED = 3.0  # edges around a clamped corner that are refined further, half as many each time


def mesh_cell(void: Void, nodes: int) -> gb.Mesh:
    """A mesh of exactly `nodes` nodes, those of the void on its curve.

    Tags: bottom, top, sides, void.
    """
    outline = void.points(2.0 * np.pi * np.arange(OUTLINE_POINTS) / OUTLINE_POINTS)
    mesh = mesh_polygon(
        SQUARE, [outline], nodes=nodes, sweeps=SWEEPS, size=_bend_size(outline, nodes)
    )
    is_void = mesh.tags["hole"]
    points = mesh.points.copy()
    points[is_void] = void.snap(points[is_void])
    return gb.Mesh(points, mesh.cells, cell_tags(points, is_void))


def _bend_size(outline: gb.Array, nodes: int) -> SizeFunction | None:
    """Relative edge lengths no longer than the radius of a tight bend nearby.

    None if an even mesh resolves everything.
    """
    before, after = np.roll(outline, 1, axis=0), np.roll(outline, -1, axis=0)
    turn = np.radians(np.abs(turning(before, outline, after)))
    # radius of curvature
    bend = 0.5 * np.linalg.norm(after - before, axis=1) / np.maximum(turn, 1e-9)
    even = float(np.sqrt((1.0 - abs(signed_area(outline))) / (2.0 * TRIANGLE * nodes)))
    is_tight = bend < even
    if not is_tight.any():
        return None
    places, lengths = outline[is_tight], bend[is_tight] / even

    def size(points: gb.Array) -> gb.Array:
        away = np.linalg.norm(points[:, None] - places, axis=2) / even
        return np.asarray(np.clip(np.min(lengths + GRADATION * away, axis=1), SHORTEST, 1.0))

    return size


def cell_tags(points: gb.Array, is_void: gb.Array) -> dict[str, gb.Array]:
    """The tags of nodes of the square; its corners carry two."""
    x, y = points.T
    return {"bottom": y == 0.0, "top": y == 1.0, "sides": (x == 0.0) | (x == 1.0), "void": is_void}


def refine_cell(
    mesh: gb.Mesh, void: Void, *, times: int, rims: int = 0, gradings: int = 0
) -> gb.Mesh:
    """Nested refinement: all cells `times` times, then some of them more often.

    Cells at the void are refined `rims` more times, those at the clamped corners `gradings` more.
    New nodes on the void are put on its curve, halfway between their neighbours there; old nodes
    keep their numbers.
    """
    for _ in range(times):
        mesh = _snapped(refine(mesh), mesh.size, void)
    reach = GRADED * float(np.sqrt(1.0 / mesh.size))
    for _ in range(rims):
        is_at_void = mesh.tags["void"][cells_of(mesh)].any(axis=1)
        mesh = _snapped(refine_where(mesh, is_at_void), mesh.size, void)
    for _ in range(gradings):
        centres = mesh.points[cells_of(mesh)].mean(axis=1)
        distance = np.linalg.norm(centres[:, None] - CLAMPED_CORNERS, axis=2).min(axis=1)
        mesh = _snapped(refine_where(mesh, distance < reach), mesh.size, void)
        reach /= 2.0
    return mesh


def _snapped(refined: tuple[gb.Mesh, gb.Array], before: int, void: Void) -> gb.Mesh:
    mesh, edges = refined
    is_bent = mesh.tags["void"][before:]
    points = mesh.points.copy()
    points[before:][is_bent] = void.halfway(*(points[edges[is_bent, end]] for end in (0, 1)))
    return gb.Mesh(points, mesh.cells, mesh.tags)


def bent_space(mesh: gb.Mesh, void: Void) -> TaylorHood:
    """Taylor-Hood elements whose edges follow the curve of the void."""
    cells = cells_of(mesh)
    edges = cell_edges(cells)
    rim = np.sort(directed_facets(cells), axis=1)
    on_rim = np.isin(edges[:, 0] * mesh.size + edges[:, 1], rim[:, 0] * mesh.size + rim[:, 1])
    is_bent = on_rim & mesh.tags["void"][edges].all(axis=1)
    middles = mesh.points[edges].mean(axis=1)
    middles[is_bent] = void.halfway(*(mesh.points[edges[is_bent, end]] for end in (0, 1)))
    return TaylorHood.of(mesh.points, cells, middles)
