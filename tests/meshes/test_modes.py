"""Eigenbases against analytic spectra and dense references; solvers, errors, gaps and alignment."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse import diags_array
from scipy.sparse.linalg import eigsh
from scipy.spatial import KDTree

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError, ParamError, PluginError
from gsnobench.meshes import modes
from gsnobench.meshes.graphs import gaussian_laplacian, knn_edges
from gsnobench.meshes.interpolation import interpolation
from gsnobench.meshes.modes import Basis, align, eigenbases, eigenbasis
from gsnobench.meshes.operators import factorise, lumped_mass, stiffness
from gsnobench.meshes.topology import triangulation


def crossed_square(side: int) -> Mesh:
    """The unit square, every small square cut along both diagonals: it has all symmetries."""
    axis = np.linspace(0, 1, side)
    corner = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    middle = (axis[1:] + axis[:-1]) / 2
    centre = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    first = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    ring = np.stack([first, first + side, first + side + 1, first + 1], axis=1)  # (squares, 4)
    hub = side**2 + np.arange(len(centre))
    cells = np.concatenate(
        [np.stack([ring[:, i], ring[:, (i + 1) % 4], hub], axis=1) for i in range(4)]
    )
    points = np.concatenate([corner, centre])
    return Mesh(points, cells, {"wall": np.any((points == 0) | (points == 1), axis=1)})


OUTLINE = np.array([[0.0, 0], [0.45, 0], [0.5, 0.4], [0.55, 0], [1, 0], [0.5, 0.9]])


def triangle(nodes: int, seed: int) -> Mesh:
    """A triangle with a notch, on a jittered and turned hexagonal lattice.

    Every seed is another mesh of the same domain.
    """
    random, side = np.random.default_rng(seed), np.sqrt(0.45 / nodes)
    ends = zip(OUTLINE, np.roll(OUTLINE, -1, axis=0), strict=True)
    rim = np.concatenate(
        [
            a + np.linspace(0, 1, 1 + int(np.linalg.norm(b - a) / side))[:-1, None] * (b - a)
            for a, b in ends
        ]
    )
    lattice = np.stack(np.meshgrid(np.arange(-90, 90), np.arange(-90, 90)), axis=-1).reshape(-1, 2)
    lattice = side * lattice @ np.array([[1.0, 0], [0.5, 0.75**0.5]]) + 0.2 * side * random.uniform(
        -1, 1, lattice.shape
    )
    angle = random.uniform(0, np.pi)
    turned = (
        lattice @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) + 0.5
    )
    fine = np.concatenate(
        [
            a + np.linspace(0, 1, 200)[:, None] * (b - a)
            for a, b in zip(rim, np.roll(rim, -1, axis=0), strict=True)
        ]
    )
    turned = turned[_inside(turned)]
    points = np.concatenate([rim, turned[KDTree(fine).query(turned)[0] > 0.5 * side]])
    cells = triangulation(Mesh(points))
    cells = cells[_inside(points[cells].mean(axis=1))]
    return Mesh(points, cells, {"wall": np.arange(len(points)) < len(rim)})


def _inside(points: Array) -> Array:
    """Even-odd rule, (N,) bool."""
    a, b = OUTLINE[:, None], np.roll(OUTLINE, -1, axis=0)[:, None]
    x, y = points.T
    rises = (a[..., 1] > y) != (b[..., 1] > y)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = a[..., 0] + (y - a[..., 1]) / (b[..., 1] - a[..., 1]) * (b[..., 0] - a[..., 0])
    is_odd: Array = np.sum(rises & (at > x), axis=0) % 2 == 1
    return is_odd


def copies(mesh: Mesh, count: int) -> Mesh:
    cells = triangulation(mesh)
    points = [mesh.points + [2.0 * i, 0] for i in range(count)]
    return Mesh(
        np.concatenate(points), np.concatenate([cells + i * mesh.size for i in range(count)])
    )


def orthonormality(basis: Basis) -> float:
    return float(np.abs(basis.analysis @ basis.vectors - np.eye(len(basis.values))).max())


# ------------------------------------------------------------------------------------------ spectra


def test_neumann_eigenvalues_of_the_square_converge_at_second_order() -> None:
    exact = np.pi**2 * np.array([0, 1, 1, 2, 4, 4, 5, 5])
    errors = [
        np.abs(eigenbasis(crossed_square(side), 8).values - exact).max() / exact[-1]
        for side in (9, 17)
    ]
    assert errors[1] < 0.01
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_dirichlet_modes_vanish_on_the_tag_and_have_the_analytic_spectrum() -> None:
    mesh = crossed_square(21)
    basis = eigenbasis(mesh, 6, dirichlet=("wall",))
    assert np.allclose(basis.values, np.pi**2 * np.array([2, 5, 5, 8, 10, 10]), rtol=0.02)
    assert np.all(basis.vectors[mesh.tags["wall"]] == 0)
    first = np.sin(np.pi * mesh.points[:, 0]) * np.sin(np.pi * mesh.points[:, 1]) * 2
    assert np.isclose(basis.analysis[0] @ first, 1, atol=0.01)


def test_a_tag_the_mesh_lacks_is_empty() -> None:
    mesh = crossed_square(6)
    assert np.array_equal(
        eigenbasis(mesh, 4, dirichlet=("inlet",)).values, eigenbasis(mesh, 4).values
    )


def test_modes_of_a_cube_of_tetrahedra() -> None:
    axis = np.linspace(0, 1, 9)
    cube = Mesh(np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3))
    basis = eigenbasis(cube, 7)
    assert np.allclose(
        basis.values, np.pi**2 * np.array([0, 1, 1, 1, 2, 2, 2]), rtol=0.06, atol=1e-9
    )
    assert orthonormality(basis) < 1e-10


def test_ring_graph_has_the_cosine_spectrum() -> None:
    angle = 2 * np.pi * np.arange(400) / 400
    ring = Mesh(
        np.stack([np.cos(angle), np.sin(angle)], 1),
        np.stack([np.arange(400), (np.arange(400) + 1) % 400], 1),
    )
    basis = eigenbasis(ring, 9, kind="gaussian")
    frequency = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4])
    assert np.allclose(basis.values, 1 - np.cos(2 * np.pi * frequency / 400), atol=1e-13)
    assert np.all(basis.mass == 1)


@pytest.mark.parametrize("kind", ["fem", "nodes", "gaussian", "knn"])
@pytest.mark.parametrize("dirichlet", [(), ("wall",)])
def test_lanczos_agrees_with_dense_algebra(kind: modes.Kind, dirichlet: tuple[str, ...]) -> None:
    mesh = triangle(300, seed=0)
    basis = eigenbasis(mesh, 12, kind=kind, dirichlet=dirichlet, solver="lanczos", neighbours=6)
    mass = np.ones(mesh.size)
    if kind in ("fem", "nodes"):
        operator, lumped = stiffness(mesh).toarray(), lumped_mass(mesh)
        mass = lumped if kind == "fem" else lumped.mean() * mass
    else:
        pairs = knn_edges(mesh.points, 6) if kind == "knn" else None
        operator = gaussian_laplacian(mesh, edges=pairs).toarray()
    free = ~mesh.tags["wall"] if dirichlet else np.ones(mesh.size, dtype=bool)
    values, vectors = scipy.linalg.eigh(operator[np.ix_(free, free)], np.diag(mass[free]))
    assert np.allclose(basis.values, values[:12], rtol=1e-10, atol=1e-10 * values[11])
    overlap = np.abs(np.sum(vectors[:, :12] * (mass[:, None] * basis.vectors)[free], axis=0))
    assert np.allclose(overlap, 1, atol=1e-8)
    assert basis.residual < 1e-10
    assert orthonormality(basis) < 1e-12


@pytest.mark.parametrize("solver", ["multigrid", "lobpcg"])
@pytest.mark.parametrize("kind", ["fem", "gaussian"])
def test_iterative_solvers_find_the_same_modes(solver: modes.Solver, kind: modes.Kind) -> None:
    mesh = triangle(400, seed=0)
    exact, computed = (
        eigenbasis(mesh, 6, kind=kind, solver="lanczos"),
        eigenbasis(mesh, 6, kind=kind, solver=solver),
    )
    accuracy = modes.TOLERANCE[solver]
    assert 0 < computed.residual <= accuracy
    assert np.allclose(computed.values, exact.values, atol=accuracy * exact.values[-1])
    assert np.abs(np.diag(exact.analysis @ computed.vectors)).min() > 1 - 10 * accuracy
    assert orthonormality(computed) < 1e-9


@pytest.mark.parametrize("count", [3, 5])
def test_equal_parts_of_a_disconnected_mesh_keep_all_their_modes(count: int) -> None:
    part = crossed_square(14)
    single = eigenbasis(part, 8).values
    basis = eigenbasis(copies(part, count), 16, solver="lanczos")
    assert np.allclose(basis.values, np.repeat(single, count)[:16], atol=1e-8 * single[-1])
    assert orthonormality(basis) < 1e-11


def test_lanczos_looks_again_where_one_start_vector_misses_a_copy() -> None:
    mesh = copies(crossed_square(10), 3)
    problem = modes._problem(mesh, np.arange(mesh.size), "fem", 0.0, 8)
    solve = factorise(problem.shifted()).solve
    all_modes = modes._lanczos(problem, 3)  # the three constants
    extra = modes._missed(
        solve, all_modes[:, :2], np.random.default_rng(5).standard_normal(mesh.size), above=1e-9
    )
    assert extra is not None
    assert np.isclose(np.abs(extra[1][:, 0] @ all_modes[:, 2]), 1)


@pytest.mark.parametrize("k", [40, 127])  # 3 k is a multiple of a block, or is not
def test_blocks_of_vectors_find_the_modes_of_a_large_mesh(k: int) -> None:
    mesh = crossed_square(65)
    assert mesh.size > modes.MANY
    basis = eigenbasis(mesh, k)
    stiff, mass = stiffness(mesh), diags_array(lumped_mass(mesh))
    values = np.sort(eigsh(stiff, k, M=mass, sigma=-1.0, return_eigenvectors=False))
    assert np.allclose(basis.values, values, rtol=1e-9, atol=1e-9 * values[-1])
    assert basis.residual < 1e-10 and orthonormality(basis) < 1e-11


def test_blocks_of_vectors_keep_all_modes_of_equal_parts() -> None:
    part = crossed_square(30)
    basis = eigenbasis(copies(part, 5), 25)
    assert len(basis.mass) > modes.MANY
    single = eigenbasis(part, 8).values
    assert np.allclose(basis.values, np.repeat(single, 5)[:25], atol=1e-8 * single[-1])


def test_refinement_keeps_the_residual_small_on_a_strongly_graded_mesh() -> None:
    rings, angle = 0.5 * 1.3 ** (-np.arange(40.0)), np.arange(24) * np.pi / 12
    points = [
        np.stack([r * np.cos(angle + 0.13 * i), r * np.sin(angle + 0.13 * i)], 1)
        for i, r in enumerate(rings)
    ]
    basis = eigenbasis(Mesh(np.concatenate(points)), 16)
    assert basis.mass.max() / basis.mass.min() > 1e8
    assert basis.residual < 1e-9
    assert orthonormality(basis) < 1e-10


# --------------------------------------------------------------------------------------- edge cases


def test_all_modes_of_a_mesh_are_a_complete_basis() -> None:
    mesh = triangle(60, seed=0)
    basis = eigenbasis(mesh, mesh.size)
    assert np.allclose(basis.vectors @ basis.analysis, np.eye(mesh.size), atol=1e-10)


@pytest.mark.parametrize("kind", ["fem", "gaussian", "random"])
def test_more_modes_than_free_nodes_is_one_clear_error(kind: modes.Kind) -> None:
    mesh = crossed_square(4)  # 25 nodes, 12 of them on the wall
    with pytest.raises(ParamError, match=r"14 modes of 13 free nodes; expected 1\.\.13; lower k_s"):
        eigenbasis(mesh, 14, kind=kind, dirichlet=("wall",))
    with pytest.raises(ParamError, match="0 modes of 25"):
        eigenbasis(mesh, 0, kind=kind)
    assert eigenbasis(mesh, 13, kind=kind, dirichlet=("wall",)).vectors.shape == (25, 13)


def test_the_same_call_gives_the_same_bytes() -> None:
    mesh = triangle(350, seed=1)
    first, second = (
        eigenbasis(mesh, 8),
        eigenbasis(Mesh(mesh.points.copy(), triangulation(mesh).copy()), 8),
    )
    assert first.vectors.tobytes() == second.vectors.tobytes()


def test_signs_do_not_depend_on_the_mesh() -> None:
    coarse, fine = triangle(300, seed=0), triangle(700, seed=1)
    left, right = eigenbasis(coarse, 6), eigenbasis(fine, 6)
    assert np.all(
        np.diag(right.analysis @ (interpolation(coarse, fine.points) @ left.vectors)) > 0.9
    )


def test_random_basis_is_orthonormal_and_follows_its_seed() -> None:
    mesh = crossed_square(6)
    first = eigenbasis(mesh, 5, kind="random", seed=3)
    assert orthonormality(first) < 1e-14
    assert np.array_equal(first.vectors, eigenbasis(mesh, 5, kind="random", seed=3).vectors)
    assert not np.allclose(first.vectors, eigenbasis(mesh, 5, kind="random", seed=4).vectors)
    assert np.all(
        eigenbasis(mesh, 5, kind="random", dirichlet=("wall",)).vectors[mesh.tags["wall"]] == 0
    )


@pytest.mark.parametrize(
    ("requested", "kept"), [(1, 1), (2, 1), (3, 3), (4, 4), (5, 4), (6, 6), (7, 6), (8, 8)]
)
def test_a_gap_never_cuts_a_pair(requested: int, kept: int) -> None:
    basis = eigenbasis(crossed_square(17), requested, gap=True)  # pi^2 times 0, 1 1, 2, 4 4, 5 5, 8
    assert basis.vectors.shape[1] == len(basis.values) == kept


def test_a_gap_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DataError, match="one cluster"):
        eigenbasis(copies(crossed_square(5), 4), 3, gap=True)
    mesh = crossed_square(4)
    assert len(eigenbasis(mesh, mesh.size, gap=True).values) == mesh.size


def test_missing_multigrid_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyamg", None)
    with pytest.raises(PluginError, match=r"gsnobench\[multigrid\]"):
        eigenbasis(triangle(300, seed=0), 4, solver="multigrid")


def test_only_thick_meshes_in_space_take_multigrid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "WIDEST_CUT", 40)
    monkeypatch.setitem(sys.modules, "pyamg", None)
    random = np.random.default_rng(0)
    eigenbasis(Mesh(random.random((400, 2))), 4)
    eigenbasis(Mesh(random.random((400, 3)) * [20.0, 1.0, 1.0]), 4)
    with pytest.raises(PluginError, match="400 nodes in 3D"):
        eigenbasis(Mesh(random.random((400, 3))), 4)


def test_points_of_a_surface_have_a_narrow_cut_and_take_lanczos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyamg", None)
    direction = np.random.default_rng(0).standard_normal((10_100, 3))
    body = direction / np.linalg.norm(direction, axis=1)[:, None] * [2.0, 1.0, 0.7]
    assert eigenbasis(Mesh(body), 8).residual < 1e-6


def test_a_solver_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "ITERATIONS", 2)
    with pytest.raises(DataError, match="lobpcg stopped at a residual of"):
        eigenbasis(triangle(300, seed=0), 4, solver="lobpcg")


def test_many_meshes_in_two_processes_equal_one() -> None:
    meshes = [triangle(60, seed) for seed in range(3)]
    first, second = (
        eigenbases(meshes, 4, kind="gaussian"),
        eigenbases(meshes, 4, kind="gaussian", jobs=2),
    )
    for left, right in zip(first, second, strict=True):
        assert np.array_equal(left.vectors, right.vectors)
        assert np.array_equal(left.values, right.values)


# ---------------------------------------------------------------------------------------- alignment


def test_alignment_undoes_any_rotation_inside_the_span() -> None:
    basis = eigenbasis(triangle(300, seed=0), 10)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))[0]
    rotated = Basis(basis.values, basis.vectors @ turn, basis.mass, 0.0)
    assert np.allclose(align(rotated, basis.vectors[:, :7]), basis.vectors[:, :7], atol=1e-10)


def test_alignment_repairs_a_degenerate_pair_on_another_mesh() -> None:
    coarse, fine = crossed_square(10), crossed_square(15)
    trained, fresh = eigenbasis(coarse, 6), eigenbasis(fine, 10)
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])  # any frame of the pair is an eigenbasis
    vectors = fresh.vectors.copy()
    vectors[:, 1:3] = vectors[:, 1:3] @ turn
    turned = Basis(fresh.values, vectors, fresh.mass, fresh.residual)
    carried = interpolation(coarse, fine.points) @ trained.vectors
    aligned = align(turned, carried)
    correlation = np.sum(aligned * (fresh.mass[:, None] * carried), axis=0) / np.sqrt(
        fresh.mass @ carried**2
    )
    assert correlation.min() > 0.98
    assert np.abs(aligned.T @ (fresh.mass[:, None] * aligned) - np.eye(6)).max() < 1e-10


def test_alignment_needs_as_many_modes_as_vectors() -> None:
    basis = eigenbasis(crossed_square(6), 4)
    with pytest.raises(DataError, match="compute more guard modes"):
        align(basis, np.ones((len(basis.mass), 5)))
