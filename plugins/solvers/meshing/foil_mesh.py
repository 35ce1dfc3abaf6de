"""A disc of air around a wing section, meshed with given numbers of nodes.

They are given in all, on the foil and on the far boundary.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

import gsnobench as gb
from gsnobench_plugins.solvers.meshing.polygon import mesh_inside
from gsnobench_plugins.solvers.meshing.sizing import TRIANGLE, SizeFunction, sample_domain
from gsnobench_plugins.solvers.shapes.naca import Section

# The public mesh has 5233 nodes, 200 of them on the foil and 50 far away: then T = 2 N - boundary
# nodes = 10216.
PUBLIC = (5233, 200, 50)
# edges at the leading and trailing edge over those in the middle of the chord
NOSE, TAIL = 0.25, 0.2
CENTRE = np.array([0.5, 0.0])


def boundary_counts(nodes: int) -> tuple[int, int]:
    """Nodes on the foil (even) and on the far boundary, in the proportion of the public mesh."""
    finer = float(np.sqrt(nodes / PUBLIC[0]))
    return 2 * round(0.5 * PUBLIC[1] * finer), round(PUBLIC[2] * finer)


def foil_mesh(section: Section, *, nodes: int, radius: float, angle: float = 20.0) -> gb.Mesh:
    """Mesh a disc of `radius` chords around a section; tags: boundary, foil, far.

    Edges grow steadily away from the foil.
    """
    on_foil, on_far = boundary_counts(nodes)
    foil = section.nodes(on_foil, nose=NOSE, tail=TAIL)
    turn = 2.0 * np.pi * np.arange(on_far) / on_far
    far = CENTRE + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    size = _graded(foil, far, nodes, radius)
    mesh = mesh_inside([far, foil], nodes=nodes, size=size, angle=angle)
    return gb.Mesh(
        mesh.points,
        mesh.cells,
        {"boundary": mesh.tags["boundary"], "foil": mesh.tags["hole"], "far": mesh.tags["outer"]},
    )


def _graded(foil: gb.Array, far: gb.Array, nodes: int, radius: float) -> SizeFunction:
    """Edge length h(foil) + h(far) (d / radius)^p at distance d from the foil.

    p is such that the mesh has `nodes` nodes.
    """
    step = np.linalg.norm(np.roll(foil, -1, axis=0) - foil, axis=1)
    here = 0.5 * (step + np.roll(step, 1))  # (n,)
    there = 2.0 * np.pi * radius / len(far)
    tree = cKDTree(foil)

    def size_of(power: float) -> SizeFunction:
        def size(points: gb.Array) -> gb.Array:
            away, nearest = tree.query(points)
            return np.asarray(here[nearest] + there * (away / radius) ** power)

        return size

    low, high = 0.7, 1.5
    points, areas = sample_domain([far, foil], size_of(1.0), nodes)
    away, nearest = tree.query(points)
    for _ in range(40):
        power = 0.5 * (low + high)
        lengths = here[nearest] + there * (away / radius) ** power
        count = 0.5 * (np.sum(areas / lengths**2) / TRIANGLE + len(foil) + len(far))
        low, high = (power, high) if count < nodes else (low, power)
    return size_of(0.5 * (low + high))
