"""Laplacian eigenbases of meshes: operators, solvers, many meshes at once, alignment.

Differs: the paper uses the normalised Gaussian graph Laplacian and LOBPCG (kind "gaussian", solver
"lobpcg"); the default is the finite-element Laplacian, whose modes follow the domain and not the
node density, by shift-invert Lanczos.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.linalg
from scipy.sparse import csr_array, csr_matrix
from scipy.sparse.linalg import LinearOperator, eigsh, lobpcg

from gsnobench.data import Array, Mesh
from gsnobench.errors import DataError, ParamError, PluginError
from gsnobench.meshes import graphs, operators, topology

Kind = Literal["fem", "nodes", "gaussian", "knn", "random"]
Solver = Literal["auto", "lanczos", "multigrid", "lobpcg"]

DENSE = 250  # nodes up to which all modes at once are as cheap as a few
MANY = 8_000  # nodes from which blocks of vectors are cheaper than single ones
BLOCK = 8  # vectors
PART = 32 * BLOCK  # vectors that are stored together
TRACE = 1e-10  # of the other vectors in a vector that counts as orthogonal to them
# nodes beside a cut through the middle, up to which the factors of a 3D mesh are thin: more than
# 100,000 points of a surface, about 35,000 of a volume
WIDEST_CUT = 1_000
# largest residual relative to the k-th eigenvalue, by solver
TOLERANCE = {"dense": 1e-8, "lanczos": 1e-8, "multigrid": 1e-6, "lobpcg": 1e-3}
ROUNDING = 4 * np.finfo(float).eps  # of the operator's norm: flat cells leave no smaller residual
ITERATIONS = 2000
REFINEMENTS = 4
CLUSTER = 0.25  # neighbours closer than this share of the mean spacing belong together


@dataclass(frozen=True, eq=False)
class Basis:
    """The lowest modes of a mesh, orthonormal: vectors.T @ (mass[:, None] * vectors) = 1."""

    values: Array  # (k,) ascending
    vectors: Array  # (N, k)
    mass: Array  # (N,) ones for a graph
    residual: float  # largest |A v - lambda v| relative to the size of the k-th eigenvalue

    @property
    def analysis(self) -> Array:
        """Node values -> coefficients, (k, N); `vectors` leads back."""
        return self.vectors.T * self.mass


def eigenbasis(
    mesh: Mesh,
    k: int,
    *,
    kind: Kind = "fem",
    dirichlet: Sequence[str] = (),
    sigma: float = 1.0,
    neighbours: int = 8,
    seed: int = 0,
    solver: Solver = "auto",
    gap: bool = False,
) -> Basis:
    """The k lowest modes of a mesh, zero on the nodes tagged `dirichlet`; deterministic.

    fem: K v = lambda M v (P1, lumped mass); nodes: the same with equal mass at every node, so that
    modes are fine where nodes are dense; gaussian, knn: normalised graph Laplacian of the mesh
    edges or of the nearest `neighbours`, weights of width `sigma` (in mean edge lengths); random:
    orthonormal noise from `seed`, with the values 1, 2, ... `gap` returns the most modes <= k that
    do not cut a cluster of nearly equal eigenvalues.
    """
    free = np.flatnonzero(~mesh.tag_matrix(tuple(dirichlet)).any(axis=1))
    if not 1 <= k <= free.size:
        raise ParamError(
            f"eigenbasis: {k} modes of {free.size} free nodes; expected 1..{free.size}; lower k_s "
            "or refine the mesh"
        )
    if kind == "random":
        noise, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((free.size, k)))
        vectors = _spread(noise, free, mesh.size)
        return Basis(np.arange(1.0, k + 1), vectors, np.ones(mesh.size), residual=0.0)
    problem = _problem(mesh, free, kind, sigma, neighbours)
    requested = min(k + 1, free.size) if gap else k
    values, vectors, residual = _solve(problem, requested, solver)
    kept = _at_gap(values, k, 1e-6 * problem.scale(k)) if gap else k
    vectors = _spread(vectors[:, :kept] / problem.root[:, None], free, mesh.size)
    signed = vectors * _signs(mesh.points, vectors, problem.mass)
    return Basis(values[:kept], signed, problem.mass, residual)


def eigenbases(meshes: Sequence[Mesh], k: int, *, jobs: int = 1, **options: Any) -> list[Basis]:
    """`eigenbasis` of many meshes with the same options, in `jobs` processes."""
    compute: Callable[[Mesh], Basis] = partial(eigenbasis, k=k, **options)
    if jobs <= 1 or len(meshes) <= 1:
        return [compute(mesh) for mesh in meshes]
    chunk = max(1, len(meshes) // (8 * jobs))
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(compute, meshes, chunksize=chunk))


def align(target: Basis, source_vectors_on_target: Array) -> Array:
    """The orthonormal k-frame in the span of `target` that is nearest to the given (N, k) vectors.

    `target` holds k modes and some guard modes. For the same domain on another mesh:
    `source_vectors_on_target` are the training modes interpolated to the new nodes; the result
    keeps their order, signs and rotations inside clusters. Not for another domain.
    """
    shape = source_vectors_on_target.shape
    if shape[0] != len(target.mass) or shape[1] > len(target.values):
        raise DataError(
            f"align: vectors of shape {shape} on a basis of shape {target.vectors.shape}; "
            "expected the same nodes and no more vectors than modes; compute more guard modes"
        )
    left, _, right = np.linalg.svd(target.analysis @ source_vectors_on_target, full_matrices=False)
    return target.vectors @ (left @ right)


# ---------------------------------------------------------------------------------------- operators


@dataclass(frozen=True, eq=False)
class _Problem:
    """Standard eigenproblem A w = lambda w of the free nodes; the modes are w / root."""

    operator: csr_array  # (n, n) symmetric, positive semidefinite
    root: Array  # (n,) square root of the mass: nearly the lowest mode
    lowest: float  # size of the first nonzero eigenvalue
    dim: int  # of the domain: 2 for a surface in space
    mass: Array  # (N,) of all nodes
    points: Array  # (n, d)

    def scale(self, k: int) -> float:
        """The size of the k-th eigenvalue, by Weyl's law."""
        return self.lowest * k ** (2 / self.dim)

    def shifted(self) -> csr_array:
        """The operator plus a tenth of its first nonzero eigenvalue: definite."""
        on_diagonal = self.operator.indices == _rows(self.operator)  # stored in every row
        return _with_data(self.operator, self.operator.data + 0.1 * self.lowest * on_diagonal)

    def cut(self) -> int:
        """Nodes of one half that have neighbours in the other, cut across the longest side.

        They are the last block of a factorisation, whose cost is that of a dense one of this size.
        """
        along = self.points[:, np.argmax(np.ptp(self.points, axis=0))]
        is_right = along > np.median(along)
        rows = _rows(self.operator)
        crosses = is_right[rows] & ~is_right[self.operator.indices]
        return int(np.unique(rows[crosses]).size)

    def tolerance(self, name: str, k: int) -> float:
        """The largest residual, relative to the k-th eigenvalue, that a solver may leave."""
        norm = float(abs(self.operator).sum(axis=1).max())
        return max(TOLERANCE[name], ROUNDING * norm / self.scale(k))


def _problem(mesh: Mesh, free: Array, kind: Kind, sigma: float, neighbours: int) -> _Problem:
    if kind in ("fem", "nodes"):
        mesh = replace(mesh, cells=topology.triangulation(mesh))
        stiffness, mass = operators.stiffness_and_mass(mesh)
        if kind == "nodes":
            mass = np.full(mesh.size, mass.mean())
        operator = _scaled(stiffness, 1 / np.sqrt(mass))
    else:
        is_knn = kind == "knn"
        pairs = graphs.knn_edges(mesh.points, neighbours) if is_knn else topology.edges(mesh)
        operator, mass = graphs.gaussian_laplacian(mesh, sigma, pairs), np.ones(mesh.size)
    lowest = _first_eigenvalue(operator, np.sqrt(mass), mesh.points)
    if free.size < mesh.size:
        operator = operator[free][:, free]
    dim = mesh.dim if mesh.cells is None else mesh.cells.shape[1] - 1
    return _Problem(operator, np.sqrt(mass[free]), lowest, dim, mass, mesh.points[free])


def _scaled(matrix: csr_array, scale: Array) -> csr_array:
    return _with_data(matrix, matrix.data * scale[_rows(matrix)] * scale[matrix.indices])


def _with_data(matrix: csr_array, data: Array) -> csr_array:
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _rows(matrix: csr_array) -> Array:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _first_eigenvalue(operator: csr_array, root: Array, points: Array) -> float:
    """The size of the first nonzero eigenvalue: the Rayleigh quotient of the longest coordinate."""
    along = points[:, np.argmax(np.ptp(points, axis=0))]
    slope = root * (along - np.average(along, weights=root**2))  # (N,)
    energy, length = float(slope @ (operator @ slope)), float(slope @ slope)
    return energy / length if energy > 0 else 1.0


# ------------------------------------------------------------------------------------------ solvers


def _solve(problem: _Problem, k: int, solver: Solver) -> tuple[Array, Array, float]:
    """Values (k,), orthonormal vectors (n, k) and the residual, which is checked."""
    size = problem.operator.shape[0]
    # iterations need room beyond the requested modes
    if 3 * k > size or (solver == "auto" and size <= DENSE):
        name, matrix = "dense", problem.operator.toarray()
        vectors = scipy.linalg.eigh(matrix, subset_by_index=(0, k - 1))[1]
    elif solver == "lanczos" or (solver == "auto" and _has_thin_factors(problem)):
        name, vectors = "lanczos", _lanczos(problem, k)
    elif solver == "lobpcg":
        name, vectors = "lobpcg", _lobpcg(problem, k, TOLERANCE["lobpcg"], None)
    else:
        name = "multigrid"
        vectors = _lobpcg(problem, k, TOLERANCE["multigrid"], _multigrid(problem))
    image = problem.operator @ vectors
    values = np.sum(vectors * image, axis=0)
    order = np.argsort(values)
    residual = float(np.linalg.norm(image - vectors * values, axis=0).max()) / problem.scale(k)
    if not residual <= problem.tolerance(name, k):
        other = "fewer modes" if name == "lanczos" else "solver 'lanczos' or fewer modes"
        raise DataError(
            f"eigenbasis: {name} stopped at a residual of {residual:.1e} with {k} modes of {size} "
            f"nodes; expected {problem.tolerance(name, k):.0e}; use {other}"
        )
    return np.maximum(values[order], 0.0), vectors[:, order], residual


def _has_thin_factors(problem: _Problem) -> bool:
    return problem.dim <= 2 or problem.cut() <= WIDEST_CUT


def _lanczos(problem: _Problem, k: int) -> Array:
    """Shift-invert Lanczos, completed and refined."""
    solve = operators.solver_of(problem.shifted())
    return _refined(problem, solve, _completed(solve, len(problem.root), k))


def _completed(solve: Callable[[Array], Array], size: int, k: int) -> Array:
    """The k lowest modes, (n, k): also those that a first look missed."""
    random = np.random.default_rng(0)
    start = random.standard_normal(size)
    values, vectors = _largest(solve, start, k)  # of the inverse: 1 / (lambda + shift)
    while True:
        extra = _missed(solve, vectors, random.standard_normal(size), above=values[0])
        if extra is None:
            return vectors
        values = np.append(values[1:], extra[0])
        vectors = np.append(vectors[:, 1:], extra[1], axis=1)
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]


def _largest(solve: Callable[[Array], Array], start: Array, k: int) -> tuple[Array, Array]:
    """The k largest eigenvalues of `solve`, ascending, and their vectors."""
    if len(start) <= MANY:
        return eigsh(_as_operator(solve, start), k, which="LA", v0=start, tol=1e-11)
    return _block_lanczos(solve, len(start), k)


def _block_lanczos(solve: Callable[[Array], Array], size: int, k: int) -> tuple[Array, Array]:
    """Lanczos with blocks of vectors and without restarts: most of its work is matrix products.

    For many modes of a large mesh ARPACK spends ten times as long on single vectors.
    """
    most = min(size, 16 * k + 16 * BLOCK) // BLOCK * BLOCK
    frame = _Frame(size)
    projected = np.zeros((most, most))  # frame.T @ solve(frame): block tridiagonal
    block = np.linalg.qr(np.random.default_rng(0).standard_normal((size, BLOCK)))[0]
    checked, width = 3 * k, 0
    while True:
        frame.append(block)
        first, width = max(0, width - BLOCK), width + BLOCK
        image = solve(block)
        shares = frame.take_out(image, first, width)
        frame.take_out_grown(image)
        projected[first:width, width - BLOCK : width] = shares
        projected[width - BLOCK : width, first:width] = shares.T
        block, coupling = np.linalg.qr(image)
        if width < checked and width + BLOCK <= most:
            continue
        values, turn = scipy.linalg.eigh(
            projected[:width, :width], subset_by_index=(width - k, width - 1)
        )
        left = np.linalg.norm(coupling @ turn[-BLOCK:], axis=0) / values
        if left.max() < 1e-11 or width + BLOCK > most:  # the caller checks the residual
            return values, frame.released(turn)
        checked = width + max(2 * BLOCK, k // 4)


class _Frame:
    """Nearly orthonormal vectors (n, m), stored in parts: to widen one array would copy it."""

    def __init__(self, size: int) -> None:
        self.size, self.width = size, 0
        self.parts: list[Array] = []  # (n, PART) each

    def append(self, block: Array) -> None:
        if self.width % PART == 0:
            self.parts.append(np.empty((self.size, PART), order="F"))
        self.width += BLOCK
        self._block(self.width - BLOCK)[:] = block

    def take_out(self, image: Array, first: int, last: int) -> Array:
        """Remove the vectors first..last from the image; returns their shares in it."""
        vectors = np.concatenate([self._block(i) for i in range(first, last, BLOCK)], axis=1)
        shares = vectors.T @ image
        image -= vectors @ shares
        return shares

    def take_out_grown(self, image: Array) -> None:
        """Remove what rounding has brought back of the vectors, where it is more than a trace.

        Lanczos loses no digit while its vectors are orthogonal to half of the digits.
        """
        least = TRACE * np.linalg.norm(image, axis=0).min()
        for part in self._used():
            shares = part.T @ image
            for first in range(0, part.shape[1], BLOCK):
                own = slice(first, first + BLOCK)
                if np.abs(shares[own]).max() > least:
                    image -= part[:, own] @ shares[own]

    def released(self, turn: Array) -> Array:
        """The vectors times a matrix (m, k); each part is given up once it is read."""
        total = np.zeros((self.size, turn.shape[1]))
        for piece in np.split(turn, range(PART, len(turn), PART)):
            total += self.parts.pop(0)[:, : len(piece)] @ piece
        return total

    def _block(self, first: int) -> Array:
        part, column = divmod(first, PART)
        return self.parts[part][:, column : column + BLOCK]

    def _used(self) -> Iterator[Array]:
        """The columns that hold vectors."""
        for first, part in zip(range(0, self.width, PART), self.parts, strict=True):
            yield part[:, : self.width - first]


def _refined(problem: _Problem, solve: Callable[[Array], Array], vectors: Array) -> Array:
    """Inverse steps of the whole block: they remove remains of high modes, most of the residual."""
    limit = 1e-10 * problem.scale(vectors.shape[1])
    for _ in range(REFINEMENTS):
        vectors = solve(vectors)
        vectors /= np.linalg.norm(vectors, axis=0)
        image = problem.operator @ vectors
        values, turn = scipy.linalg.eigh(vectors.T @ image, vectors.T @ vectors)
        vectors = vectors @ turn
        image = image @ turn  # in place of the old one: of a large mesh each takes 0.2 GB
        image -= vectors * values
        if np.linalg.norm(image, axis=0).max() < limit:
            break
    return vectors


def _missed(
    solve: Callable[[Array], Array], vectors: Array, start: Array, above: float
) -> tuple[Array, Array] | None:
    """A further eigenpair of the inverse, larger than `above`, outside the span of `vectors`.

    Lanczos from one start vector can miss copies of a multiple eigenvalue, such as equal parts of a
    disconnected mesh.
    """

    def outside(x: Array) -> Array:
        y = solve(x - vectors @ (vectors.T @ x))
        return y - vectors @ (vectors.T @ y)

    complement, first = _as_operator(outside, start), outside(start)
    value, vector = eigsh(complement, 1, which="LA", v0=first, ncv=8, tol=1e-2)
    if value[0] <= above * (1 + 1e-6):
        return None
    return eigsh(complement, 1, which="LA", v0=vector[:, 0], tol=1e-11)


def _as_operator(apply: Callable[[Array], Array], like: Array) -> LinearOperator:
    return LinearOperator((len(like), len(like)), matvec=apply, dtype=float)


def _lobpcg(problem: _Problem, k: int, tolerance: float, preconditioner: Any) -> Array:
    start = np.random.default_rng(0).standard_normal((len(problem.root), k))
    start[:, 0] = problem.root
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the caller checks the residual
        limit = 0.3 * tolerance * problem.scale(k)
        _, vectors = lobpcg(
            problem.operator, start, M=preconditioner, tol=limit, maxiter=ITERATIONS, largest=False
        )
    return vectors


def _multigrid(problem: _Problem) -> LinearOperator:
    try:
        import pyamg
    except ImportError as error:
        raise PluginError(
            f"eigenbasis: {problem.operator.shape[0]} nodes in {problem.dim}D need the multigrid "
            "solver and pyamg is not installed; pip install 'gsnobench[multigrid]', or use solver "
            "'lanczos'"
        ) from error
    matrix = csr_matrix(problem.shifted())
    hierarchy = pyamg.smoothed_aggregation_solver(matrix, B=problem.root[:, None])
    return hierarchy.aspreconditioner()


# ------------------------------------------------------------------------------------------ details


def _at_gap(values: Array, k: int, least: float) -> int:
    """The largest count <= k after which the spectrum has a gap; `values` holds k + 1 if it can."""
    if len(values) == k:  # all modes of the mesh: nothing is cut
        return k
    spacing = np.diff(values)
    clear = np.flatnonzero(spacing > max(CLUSTER * (values[-1] - values[0]) / k, least))
    if clear.size == 0:
        raise DataError(
            f"eigenbasis: the first {k + 1} eigenvalues are one cluster; expected a gap; "
            "request more modes"
        )
    return int(clear[-1]) + 1


def _signs(points: Array, vectors: Array, mass: Array) -> Array:
    """Signs that make every mode correlate positively with a fixed smooth function of position."""
    low = points.min(axis=0)
    relative = (points - low) / np.ptp(points, axis=0).max()  # within the bounding box
    smooth = np.exp(relative @ np.array([1.0, 0.6, 0.3])[: points.shape[1]])
    return np.where((mass * smooth) @ vectors < 0, -1.0, 1.0)


def _spread(vectors: Array, free: Array, size: int) -> Array:
    whole = np.zeros((size, vectors.shape[1]))
    whole[free] = vectors
    return whole
