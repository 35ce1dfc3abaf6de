"""Eigenbases: cost of 1000 geometries, solvers compared, agreement between two meshes.

The solvers are shift-invert Lanczos and plain LOBPCG.

    OMP_NUM_THREADS=1 python benchmarks/bases.py [--count 1000]

CPU seconds of one thread; the bars are 15 CPU-s for 1000 bases with their graphs and a ratio of 1/5
to plain LOBPCG.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from gsnobench.data import Array, Mesh
from gsnobench.meshes.interpolation import interpolation
from gsnobench.meshes.modes import Basis, Kind, align, eigenbases, eigenbasis
from gsnobench.meshes.topology import triangulation
from gsnobench_plugins.solvers.meshing.polygon import mesh_polygon

NOTCHED = np.array(
    [[0.0, 0], [0.49, 0], [0.49, 0.4], [0.51, 0.4], [0.51, 0], [1, 0], [0.5, 0.75**0.5]]
)
GUARDS = 8


def cpu_seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """The least of some repeats."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def plate_with_hole(nodes: int, seed: int) -> Mesh:
    """A point cloud of the unit square around a random hole, as in hyper-elasticity."""
    random = np.random.default_rng(seed)
    side = int(np.sqrt(1.3 * nodes)) + 1
    lattice = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) + 0.5
    points = (lattice + 0.4 * random.uniform(-1, 1, lattice.shape)) / side
    from_centre = np.linalg.norm(points - random.uniform(0.4, 0.6, 2), axis=1)
    return Mesh(points[np.sort(np.argsort(from_centre)[-nodes:])])


def many_geometries(count: int) -> None:
    clouds = [plate_with_hole(972, seed) for seed in range(count)]
    meshes = [Mesh(cloud.points, triangulation(cloud)) for cloud in clouds]
    for kind in ("gaussian", "fem"):
        for label, geometries in (("points, Delaunay included", clouds), ("meshes", meshes)):
            spent = cpu_seconds(lambda: eigenbases(geometries, 8, kind=kind))
            print(f"{count} bases of 972 nodes, 8 modes, {kind:8} {label:26} {spent:6.2f} CPU-s")


def against_lobpcg() -> None:
    mesh = mesh_polygon(NOTCHED, nodes=1184)
    kinds: tuple[Kind, ...] = ("gaussian", "fem")
    for kind in kinds:
        fast = cpu_seconds(lambda: eigenbasis(mesh, 8, kind=kind, solver="lanczos"), repeats=7)
        plain = cpu_seconds(lambda: eigenbasis(mesh, 8, kind=kind, solver="lobpcg"), repeats=3)
        residual = eigenbasis(mesh, 8, kind=kind, solver="lanczos").residual
        print(
            f"1184 nodes, 8 modes, {kind:8} shift-invert / LOBPCG = {fast / plain:.3f} ({fast:.4f} "
            f"s), residual {residual:.1e}"
        )


def correlations(basis: Basis, vectors: Array, carried: Array) -> str:
    weights = basis.mass[:, None] * carried
    computed = np.abs(np.sum(vectors * weights, axis=0)) / np.sqrt(
        np.sum(carried * weights, axis=0) * (basis.mass @ vectors**2)
    )
    return f"{computed.min():.2f}/{computed.mean():.2f}"


def agreement() -> None:
    coarse, fine = mesh_polygon(NOTCHED, nodes=600), mesh_polygon(NOTCHED, nodes=2300)
    carry = interpolation(coarse, fine.points)
    settings: tuple[tuple[str, Kind, tuple[str, ...]], ...] = (
        ("gaussian", "gaussian", ()),
        ("fem Neumann", "fem", ()),
        ("fem Dirichlet", "fem", ("boundary",)),
    )
    for label, kind, dirichlet in settings:
        for k in (8, 32):
            carried = carry @ eigenbasis(coarse, k, kind=kind, dirichlet=dirichlet).vectors
            fresh = eigenbasis(fine, k + GUARDS, kind=kind, dirichlet=dirichlet)
            before = correlations(fresh, fresh.vectors[:, :k], carried)
            after = correlations(fresh, align(fresh, carried), carried)
            print(
                f"600 -> 2300 nodes, {label:13} k={k:2}: |correlation| min/mean {before}, aligned "
                f"{after}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="geometries in the first table")
    count = parser.parse_args().count
    many_geometries(count)
    against_lobpcg()
    agreement()


if __name__ == "__main__":
    main()
