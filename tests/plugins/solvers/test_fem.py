"""Finite elements: exact on linear functions, second order; multigrid equals the direct solve."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError
from gsnobench.meshes.operators import diffusion_matrix, mass_matrix, node_volumes
from gsnobench.meshes.topology import cells_of
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon
from gsnobench_plugins.solvers.meshing.red_refinement import refine
from gsnobench_plugins.solvers.methods import gfdm
from gsnobench_plugins.solvers.methods.fem import DiffusionForm, load, solve_dirichlet
from gsnobench_plugins.solvers.methods.multigrid import NestedDiffusion

NOTCHED = np.array(
    [[0, 0], [0.49, 0], [0.49, 0.4], [0.51, 0.4], [0.51, 0], [1, 0], [0.5, np.sqrt(0.75)]]
)
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


@pytest.fixture(scope="module")
def triangles() -> Mesh:
    return mesh_polygon(NOTCHED, nodes=298)


@pytest.fixture(scope="module")
def tetrahedra() -> Mesh:
    """A cube of 4^3 cubes, each cut into six tetrahedra along its diagonal, inner nodes shaken."""
    axis = np.linspace(0, 1, 5)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange(125).reshape(5, 5, 5)
    cells = []
    for order in permutations(range(3)):
        corner = np.zeros(3, dtype=int)
        path = [number[:4, :4, :4].ravel()]
        for direction in order:
            corner[direction] = 1
            i, j, k = corner
            path.append(number[i : 4 + i, j : 4 + j, k : 4 + k].ravel())
        cells.append(np.stack(path, axis=1))
    inner = ((grid > 0) & (grid < 1)).all(axis=1)
    grid[inner] += np.random.default_rng(0).uniform(-0.03, 0.03, (inner.sum(), 3))
    return Mesh(grid, np.concatenate(cells), {"boundary": ~inner})


@pytest.fixture(params=["triangles", "tetrahedra"])
def mesh(request: pytest.FixtureRequest) -> Mesh:
    return request.getfixturevalue(request.param)


def test_stiffness_is_symmetric_and_blind_to_constants(mesh: Mesh) -> None:
    matrix = diffusion_matrix(mesh, np.linspace(1.0, 2.0, len(cells_of(mesh))))
    assert abs(matrix - matrix.T).max() < 1e-13
    assert np.abs(matrix @ np.ones(mesh.size)).max() < 1e-12


def test_stiffness_measures_the_energy_of_a_linear_function(mesh: Mesh) -> None:
    slope = np.array([1.0, -2.0, 0.5])[: mesh.dim]
    u = mesh.points @ slope
    size = node_volumes(mesh).sum()
    assert u @ (diffusion_matrix(mesh) @ u) == pytest.approx(size * slope @ slope, rel=1e-12)


def test_both_masses_integrate(mesh: Mesh) -> None:
    ones, x = np.ones(mesh.size), mesh.points[:, 0]
    measure = np.sqrt(3) / 4 - 0.008 if mesh.dim == 2 else 1.0
    assert node_volumes(mesh).sum() == pytest.approx(measure, rel=1e-12)
    assert ones @ (mass_matrix(mesh) @ ones) == pytest.approx(measure, rel=1e-12)
    assert np.allclose(mass_matrix(mesh) @ ones, node_volumes(mesh))
    assert np.allclose(load(mesh, x), mass_matrix(mesh) @ x)
    if mesh.dim == 3:
        assert x @ (mass_matrix(mesh) @ x) == pytest.approx(1 / 3, rel=1e-12)


def test_a_linear_solution_is_reproduced_exactly(mesh: Mesh) -> None:
    exact = 1.0 + mesh.points @ np.arange(1.0, mesh.dim + 1)
    solved = solve_dirichlet(
        diffusion_matrix(mesh), np.zeros(mesh.size), mesh.tags["boundary"], exact
    )
    assert np.allclose(solved, exact, atol=1e-12)


def test_the_prepared_form_equals_plain_assembly(mesh: Mesh) -> None:
    coefficient = np.random.default_rng(0).uniform(0.5, 2.0, len(cells_of(mesh)))
    form = DiffusionForm.of(mesh, mesh.tags["boundary"])
    plain = diffusion_matrix(mesh, coefficient)[form.free][:, form.free]
    assert abs(form.matrix(coefficient) - plain).max() < 1e-13


def test_the_matrix_of_free_nodes_is_positive_definite(triangles: Mesh) -> None:
    coefficient = np.random.default_rng(1).uniform(0.1, 10.0, len(cells_of(triangles)))
    matrix = DiffusionForm.of(triangles, triangles.tags["boundary"]).matrix(coefficient).toarray()
    assert np.abs(matrix - matrix.T).max() <= 1e-14 * np.abs(matrix).max()
    assert np.linalg.eigvalsh(matrix).min() > 0


def _manufactured(points: Array) -> tuple[Array, Array, Array]:
    """u = sin(2 pi x) sin(pi y), a = 1 + x + y/2, and the source -div(a grad u)."""
    x, y = points.T
    p = np.pi
    u = np.sin(2 * p * x) * np.sin(p * y)
    ux, uy = 2 * p * np.cos(2 * p * x) * np.sin(p * y), p * np.sin(2 * p * x) * np.cos(p * y)
    a = 1 + x + y / 2
    return u, a, 5 * p**2 * a * u - ux - uy / 2


def _rates(errors: list[float]) -> Array:
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


def test_finite_elements_are_second_order_on_a_manufactured_solution() -> None:
    mesh = mesh_polygon(SQUARE, nodes=150)
    errors = []
    for level in range(4):
        u, _, source = _manufactured(mesh.points)
        _, a, _ = _manufactured(mesh.points[cells_of(mesh)].mean(axis=1))
        solved = solve_dirichlet(
            diffusion_matrix(mesh, a), load(mesh, source), mesh.tags["boundary"], u
        )
        errors.append(float(np.linalg.norm(solved - u) / np.linalg.norm(u)))
        if level < 3:
            mesh, _ = refine(mesh)
    assert (_rates(errors) >= 1.9).all(), errors
    assert errors[-1] < 5e-4


def test_finite_differences_are_second_order_on_a_manufactured_solution() -> None:
    mesh = mesh_polygon(SQUARE, nodes=300)
    errors = []
    for level in range(3):
        u, a, source = _manufactured(mesh.points)
        solved = gfdm.solve_diffusion(mesh, a, mesh.tags["boundary"], source)
        errors.append(float(np.linalg.norm(solved - u) / np.linalg.norm(u)))
        if level < 2:
            mesh, _ = refine(mesh)
    assert (_rates(errors) >= 1.8).all(), errors
    assert errors[-1] < 2e-3


def test_finite_difference_weights_are_exact_for_quadratics(triangles: Mesh) -> None:
    inner = np.flatnonzero(~triangles.tags["boundary"])
    stars, weights = gfdm.laplacian_weights(triangles, inner)
    x, y = triangles.points.T
    u = 1 + 2 * x - y + 3 * x**2 + x * y - 0.5 * y**2
    assert np.allclose(np.sum(weights * (u[stars] - u[inner][:, None]), axis=1), 5.0, atol=1e-8)


def test_a_stencil_never_reaches_across_the_slit(triangles: Mesh) -> None:
    inner = np.flatnonzero(~triangles.tags["boundary"])
    stars = gfdm.neighbour_stars(triangles, inner, 10)
    x, y = triangles.points.T
    low = y < 0.25
    crosses = low[inner][:, None] & low[stars] & ((x[inner] < 0.5)[:, None] != (x[stars] < 0.5))
    assert not crosses.any()


def test_multigrid_equals_the_direct_solution(triangles: Mesh) -> None:
    nested = NestedDiffusion.of(triangles, refinements=2)
    coefficient = np.where(
        np.random.default_rng(2).random(len(cells_of(nested.finest))) < 0.5, 12.0, 3.0
    )
    direct = solve_dirichlet(
        diffusion_matrix(nested.finest, coefficient),
        node_volumes(nested.finest),
        nested.finest.tags["boundary"],
    )
    solved = nested.solve(coefficient)
    assert np.linalg.norm(solved - direct) < 1e-9 * np.linalg.norm(direct)
    source = np.random.default_rng(3).standard_normal(nested.finest.size)
    direct = solve_dirichlet(
        diffusion_matrix(nested.finest, coefficient), source, nested.finest.tags["boundary"]
    )
    assert np.linalg.norm(nested.solve(coefficient, source) - direct) < 1e-8 * np.linalg.norm(
        direct
    )


def test_the_coarse_operator_with_mean_coefficients_is_the_galerkin_product(
    triangles: Mesh,
) -> None:
    nested = NestedDiffusion.of(triangles, refinements=1)
    fine = np.random.default_rng(4).uniform(1.0, 5.0, len(cells_of(nested.finest)))
    product = nested.restrictions[0] @ nested.forms[1].matrix(fine) @ nested.prolongations[0]
    assert abs(product - nested.forms[0].matrix(fine.reshape(-1, 4).mean(axis=1))).max() < 1e-12


def test_a_coefficient_that_is_not_positive_is_refused(triangles: Mesh) -> None:
    nested = NestedDiffusion.of(triangles, refinements=1)
    coefficient = np.ones(len(cells_of(nested.finest)))
    coefficient[3] = np.nan
    with pytest.raises(DataError, match="not positive"):
        nested.solve(coefficient)
