"""Tetrahedral meshes of the pyramid: exact counts, no slivers, no gaps; nested refinement."""

from __future__ import annotations

import numpy as np
import pytest

import gsnobench as gb
from gsnobench.data import Mesh
from gsnobench.meshes.simplices import cell_measures
from gsnobench.meshes.topology import cells_of, directed_facets
from gsnobench_plugins.solvers.meshing.pyramid import (
    boundary_nodes,
    depths,
    is_conforming,
    mesh_pyramid,
)
from gsnobench_plugins.solvers.meshing.red_refinement import refine_tetrahedra
from gsnobench_plugins.solvers.meshing.tetrahedra import dihedral_angles, lift_slivers, min_dihedral

CORNER = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
ONE = np.array([[0, 1, 2, 3]])


@pytest.fixture(scope="module")
def small() -> Mesh:
    return mesh_pyramid(533)


# ------------------------------------------------------------------------------------------- angles


def test_dihedral_angles_of_known_tetrahedra():
    regular = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    assert dihedral_angles(regular, ONE) == pytest.approx(
        np.full((1, 6), np.degrees(np.arccos(1 / 3)))
    )
    right, slanted = 90.0, np.degrees(np.arccos(1 / np.sqrt(3)))
    assert np.sort(dihedral_angles(CORNER, ONE)[0]) == pytest.approx([slanted] * 3 + [right] * 3)
    # whatever the orientation
    assert dihedral_angles(CORNER, ONE[:, [1, 0, 2, 3]]).min() == pytest.approx(slanted)


def test_flat_tetrahedra_have_angles_of_zero():
    square = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    assert dihedral_angles(square, ONE).min() == 0.0
    assert dihedral_angles(square + np.outer([1, 0, 0, 0], [0, 0, 1e-3]), ONE).min() < 0.2


def test_a_sliver_is_lifted_and_no_cell_turned_over():
    """A node pressed against a side of its cage moves back until all cells are well shaped."""
    cage = np.concatenate([np.eye(3), -np.eye(3)])
    near = np.array([[0.32, 0.32, 0.32]])  # the side x + y + z = 1 passes at 1/3
    points = np.concatenate([cage, near])
    cells = np.array([[6, *face] for face in _octahedron()])
    before = dihedral_angles(points, cells).min()
    moved = lift_slivers(points, cells, fixed=6, target=40.0)
    assert before < 5.0 and dihedral_angles(moved, cells).min() > 40.0
    assert (cell_measures(moved, cells) > 0).all() and np.array_equal(moved[:6], cage)


def _octahedron() -> list[list[int]]:
    """Faces of the cage, all seen from outside in the same sense."""
    corners = [(a, b, c) for a in (0, 3) for b in (1, 4) for c in (2, 5)]
    return [
        [a, b, c] if sum(node > 2 for node in (a, b, c)) % 2 == 0 else [a, c, b]
        for a, b, c in corners
    ]


# ------------------------------------------------------------------------------------------ pyramid


@pytest.mark.parametrize("nodes", [533, 1867, pytest.param(4000, marks=pytest.mark.slow)])
def test_pyramids_have_the_asked_nodes_no_slivers_and_no_gaps(nodes):
    mesh = mesh_pyramid(nodes)
    cells = cells_of(mesh)
    volumes = cell_measures(mesh.points, cells)
    assert mesh.size == nodes == len(np.unique(cells))
    assert min_dihedral(mesh) >= 10.0 and dihedral_angles(mesh.points, cells).max() <= 160.0
    assert volumes.min() > 0 and volumes.sum() == pytest.approx(1 / 3, abs=1e-13)
    on_face = depths(mesh.points).min(axis=1) < 1e-9
    assert np.array_equal(mesh.tags["boundary"], on_face) and depths(mesh.points).min() > -1e-12
    assert np.array_equal(np.unique(directed_facets(cells)), np.flatnonzero(on_face))
    faces = mesh.points[directed_facets(cells)]
    area = (
        0.5
        * np.linalg.norm(
            np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0]), axis=1
        ).sum()
    )
    assert area == pytest.approx(1.0 + np.sqrt(5.0), abs=1e-12)


def test_the_same_pyramid_comes_out_each_time(small):
    assert mesh_pyramid(533).key == small.key
    assert mesh_pyramid(533, seed=1).key != small.key


def test_boundary_count_follows_from_the_divisions():
    for divisions in (2, 5, 13):
        nodes = boundary_nodes(divisions)
        assert len(nodes) == 3 * divisions**2 + 2 == len(np.unique(nodes.round(9), axis=0))
        assert np.abs(depths(nodes).min(axis=1)).max() < 1e-12


def test_gaps_and_turned_cells_are_noticed(small):
    cells, fixed = cells_of(small), int(small.tags["boundary"].sum())
    assert is_conforming(small.points, cells, fixed)
    assert not is_conforming(small.points, cells[1:], fixed)
    turned = cells.copy()
    turned[7] = turned[7][[1, 0, 2, 3]]
    assert not is_conforming(small.points, turned, fixed)


def test_impossible_pyramids_are_one_line():
    with pytest.raises(gb.DataError, match="request more nodes") as caught:
        mesh_pyramid(12)
    assert "\n" not in str(caught.value)
    with pytest.raises(gb.DataError, match="lower `angle`"):
        mesh_pyramid(60, angle=65.0, attempts=1)


# --------------------------------------------------------------------------------------- refinement


def test_refinement_is_nested_positive_and_fills_the_same_volume(small):
    fine = refine_tetrahedra(small)
    cells = cells_of(fine)
    volumes = cell_measures(fine.points, cells)
    assert np.array_equal(fine.points[: small.size], small.points)
    assert len(cells) == 8 * len(cells_of(small)) and len(np.unique(cells)) == fine.size
    parents = cell_measures(small.points, cells_of(small))
    assert volumes.reshape(-1, 8) == pytest.approx(np.repeat(parents[:, None] / 8, 8, axis=1))
    assert np.array_equal(fine.tags["boundary"], depths(fine.points).min(axis=1) < 1e-9)


def test_refinement_leaves_no_gap_and_makes_no_sliver(small):
    fine = refine_tetrahedra(small)
    assert len(directed_facets(cells_of(fine))) == 4 * len(directed_facets(cells_of(small)))
    assert is_conforming(fine.points, cells_of(fine), int(fine.tags["boundary"].sum()))
    assert min_dihedral(fine) > 0.95 * min_dihedral(small)
    assert min_dihedral(refine_tetrahedra(fine)) > 0.9 * min_dihedral(small)


def test_the_octahedron_is_cut_along_its_shortest_diagonal():
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.9, 1.0, 0.0], [0.2, 0.3, 1.0]])
    for turn in ([0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]):  # whatever the order of the nodes
        # new nodes: middles of 01, 02, 03, 12, 13, 23
        fine = refine_tetrahedra(Mesh(points, ONE[:, turn], {}))
        opposite = [(4, 9), (5, 8), (6, 7)]
        lengths = [np.linalg.norm(fine.points[a] - fine.points[b]) for a, b in opposite]
        uses = [sum({a, b} <= set(cell) for cell in cells_of(fine).tolist()) for a, b in opposite]
        assert sorted(uses) == [0, 0, 4] and np.argmax(uses) == np.argmin(lengths)


def test_only_tetrahedra_are_refined():
    triangle = Mesh(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([[0, 1, 2]]), {})
    with pytest.raises(gb.DataError, match="expected tetrahedra"):
        refine_tetrahedra(triangle)
