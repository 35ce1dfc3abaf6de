"""Our finite elements against those of scikit-fem, written by others: matrices and a solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import skfem
from skfem.models.poisson import laplace, mass, unit_load
from toy_meshes import box

from gsnobench.data import Mesh
from gsnobench.meshes.operators import (
    diffusion_matrix,
    lumped_mass,
    mass_matrix,
    node_volumes,
    stiffness,
)
from gsnobench.meshes.topology import boundary_facets, cells_of
from gsnobench_plugins.solvers.methods.fem import solve_dirichlet

SIZES = {2: 12, 3: 6}  # nodes along a side


@pytest.fixture(params=[2, 3], ids=["triangles", "tetrahedra"])
def mesh(request: pytest.FixtureRequest) -> Mesh:
    return box(SIZES[request.param], request.param, jitter=0.25)


def basis_of(mesh: Mesh) -> Any:
    """The P1 basis of scikit-fem on the same nodes and cells."""
    kinds = {2: (skfem.MeshTri, skfem.ElementTriP1), 3: (skfem.MeshTet, skfem.ElementTetP1)}
    kind, element = kinds[mesh.dim]
    theirs = kind(mesh.points.T, cells_of(mesh).T)
    return skfem.Basis(theirs, element())


def largest(matrix: Any) -> float:
    return float(abs(matrix).max())


def test_stiffness_is_theirs(mesh: Mesh) -> None:
    theirs = laplace.assemble(basis_of(mesh))
    assert largest(stiffness(mesh) - theirs) < 1e-14 * largest(theirs) * mesh.size
    assert largest(diffusion_matrix(mesh) - theirs) < 1e-14 * largest(theirs) * mesh.size


def test_stiffness_with_a_coefficient_per_cell_is_theirs(mesh: Mesh) -> None:
    coefficient = np.random.default_rng(0).uniform(0.5, 2.0, len(cells_of(mesh)))
    basis = basis_of(mesh)

    @skfem.BilinearForm
    def form(u: Any, v: Any, w: Any) -> Any:
        return w.a * skfem.helpers.dot(skfem.helpers.grad(u), skfem.helpers.grad(v))

    theirs = form.assemble(basis, a=coefficient[:, None])
    assert largest(diffusion_matrix(mesh, coefficient) - theirs) < 1e-13 * largest(theirs)


def test_masses_are_theirs(mesh: Mesh) -> None:
    theirs = mass.assemble(basis_of(mesh))
    assert largest(mass_matrix(mesh) - theirs) < 1e-13 * largest(theirs)
    row_sums = np.asarray(theirs.sum(axis=1)).ravel()
    assert np.allclose(lumped_mass(mesh), row_sums, rtol=1e-12)
    assert np.allclose(node_volumes(mesh), row_sums, rtol=1e-12)


def test_boundary_facets_are_theirs(mesh: Mesh) -> None:
    basis = basis_of(mesh)
    theirs = np.sort(basis.mesh.facets[:, basis.mesh.boundary_facets()].T, axis=1)
    ours = np.sort(boundary_facets(mesh), axis=1)
    assert sorted(ours.tolist()) == sorted(theirs.tolist())


def test_the_solution_of_a_poisson_problem_is_theirs(mesh: Mesh) -> None:
    """-Laplace u = 1 with u = x on the boundary."""
    basis = basis_of(mesh)
    given = mesh.points[:, 0]
    is_fixed = np.isin(np.arange(mesh.size), boundary_facets(mesh))
    assert np.array_equal(np.flatnonzero(is_fixed), np.sort(basis.get_dofs().flatten()))
    system = skfem.condense(
        laplace.assemble(basis), unit_load.assemble(basis), x=given, D=basis.get_dofs()
    )
    theirs = skfem.solve(*system)
    for matrix in (stiffness(mesh), diffusion_matrix(mesh)):
        ours = solve_dirichlet(matrix, node_volumes(mesh), is_fixed, given)
        assert np.abs(ours - theirs).max() < 1e-12
        assert np.array_equal(ours[is_fixed], given[is_fixed])
    assert (theirs - given)[~is_fixed].min() > 0  # the source lifts it above the harmonic u = x
