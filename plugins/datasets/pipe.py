r"""Steady flow through a curved pipe: the horizontal velocity that the shape of the pipe makes.

Equation  (v.grad)v - nu lap v + grad p = 0, div v = 0; at the inlet v = (4 eta (1 - eta), 0), on
          the walls v = 0, at the outlet nu dv/dn = p n; nu = 0.005, so 133 is the Reynolds number
          of width and mean velocity.
TeX       v \cdot \nabla v - \nu \Delta v + \nabla p = 0
          \nabla \cdot v = 0
Domain    length 10, width 1 measured vertically: y = centre(x) + eta - 1/2; centre is four cubics
          through five control nodes.
Varies    heights U[-2, 2] and slopes U[-1, 1] of the control nodes, so the mesh; no other input;
          one field, the velocity along x.
Source    generated here: Q2-Q1 elements on the sheared grid, Newton's method with continuation;
          published nodes are its nodes.
Differs:  a vertical offset of the centreline (the paper does not say; a normal offset folds); 128
          elements along and as many across as the published nodes need, not 64 x 64: as many
          unknowns, an eighth of the error.
Licence   Apache-2.0, as the code.
Start     the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt

import numpy as np
from scipy.interpolate import CubicHermiteSpline

import gsnobench as gb
from gsnobench_plugins.solvers.equations.navier_stokes import ChannelFlow, ChannelSpace
from gsnobench_plugins.solvers.methods.continuation import ON_THE_WAY, TOLERANCE, continued
from gsnobench_plugins.solvers.methods.direct import LinearSolver, factoriser
from gsnobench_plugins.solvers.methods.quadrilaterals import QuadGrid, interpolate
from gsnobench_plugins.solvers.methods.random_fields import sample_rng

GSNOBENCH_API = 1

LENGTH, WIDTH = 10.0, 1.0
CONTROL_NODES = 5
STEEPER = 1.5  # test_ood: heights and slopes are drawn from ranges wider by this factor
RESOLUTIONS = (33**2, 65**2, 129**2)
FIRST_GRID = (64, 8)  # elements along and across where continuation starts
GROWTH = (2, 4)  # of the elements along and across from one grid to the next, at most


class Params(gb.Params):
    """Knobs of the pipe and of its solver."""

    viscosity: float = gb.knob(
        default=0.005, low=0.0025, high=1.0, help="kinematic viscosity nu", search=False
    )
    height: float = gb.knob(
        default=2.0, low=0.0, high=4.0, help="control nodes lie in [-height, height]", search=False
    )
    slope: float = gb.knob(
        default=1.0, low=0.0, high=4.0, help="slopes there lie in [-slope, slope]", search=False
    )
    along: int = gb.knob(
        default=128, low=16, high=1024, help="elements along the pipe", search=False
    )
    across: int = gb.knob(
        default=0,
        low=0,
        high=256,
        help="elements across; 0: two nodes to a published interval",
        search=False,
    )
    linear_solver: LinearSolver = gb.knob(
        default="superlu", help="pardiso needs the package pypardiso", search=False
    )


@dataclass(frozen=True, eq=False)
class Setup:
    """What all samples share: the published nodes of the straight pipe, and the solver's grids."""

    params: Params
    side: int  # published nodes along and across
    straight: gb.Mesh
    levels: tuple[ChannelSpace, ...]  # coarse to fine


def setup(params: Params, resolution: int, cache: gb.Cache) -> Setup:
    """Grids on which the published nodes are nodes."""
    side = isqrt(resolution)
    if side * side != resolution or side < 3:
        known = ", ".join(str(nodes) for nodes in RESOLUTIONS)
        raise gb.ParamError(
            f"pipe: {resolution} nodes do not fill a square; expected side x side, for example "
            f"{known}"
        )
    across = params.across or (side - 1) // 2
    for name, elements in (("along", params.along), ("across", across)):
        if (2 * elements) % (side - 1):
            raise gb.ParamError(
                f"data.{name}: {elements} elements have no node at {side} equal steps; expected "
                f"multiples of {(side - 1) / 2:g}"
            )
    factoriser(params.linear_solver)  # says at once if it is missing
    return Setup(params, side, straight_mesh(side), tuple(_spaces(params.along, across)))


def _spaces(along: int, across: int) -> Iterator[ChannelSpace]:
    elements = FIRST_GRID
    while elements[0] < along or elements[1] < across:
        yield ChannelSpace(QuadGrid(*elements, LENGTH, WIDTH))
        elements = (min(along, GROWTH[0] * elements[0]), min(across, GROWTH[1] * elements[1]))
    yield ChannelSpace(QuadGrid(along, across, LENGTH, WIDTH))


def straight_mesh(side: int) -> gb.Mesh:
    """side x side nodes of a straight pipe, numbered across first; two triangles per rectangle."""
    half = 0.5 * WIDTH
    along, across = np.linspace(0.0, LENGTH, side), np.linspace(-half, half, side)
    x, y = np.meshgrid(along, across, indexing="ij")
    numbers = np.arange(side * side).reshape(side, side)
    a, b = numbers[:-1, :-1].ravel(), numbers[1:, :-1].ravel()
    d, c = numbers[:-1, 1:].ravel(), numbers[1:, 1:].ravel()
    cells = np.stack([a, b, c, a, c, d], axis=1).reshape(-1, 3)
    column, row = np.indices((side, side)).reshape(2, -1)
    is_wall = (row == 0) | (row == side - 1)
    tags = {"inlet": column == 0, "outlet": column == side - 1, "wall": is_wall}
    return gb.Mesh(np.stack([x.ravel(), y.ravel()], axis=1), cells, tags)


def draw_centreline(params: Params, seed: int, split: gb.Split, index: int) -> CubicHermiteSpline:
    """The centreline of one sample, the same at every resolution."""
    draw = sample_rng(seed, split, index)
    wider = STEEPER if split == "test_ood" else 1.0
    heights = draw.uniform(-wider * params.height, wider * params.height, CONTROL_NODES)
    slopes = draw.uniform(-wider * params.slope, wider * params.slope, CONTROL_NODES)
    return CubicHermiteSpline(np.linspace(0.0, LENGTH, CONTROL_NODES), heights, slopes)


def first_guess(grid: QuadGrid, centreline: CubicHermiteSpline) -> gb.Array:
    """The boundary values, and inside a parabola that follows the pipe, free of divergence."""
    x, y = grid.coordinates
    profile = 1.0 - (2.0 * y / WIDTH) ** 2
    state = np.zeros(grid.size)
    state[grid.velocity[:, :, 0]] = profile
    state[grid.velocity[1:, :, 1]] = centreline(x[1:, None], 1) * profile
    return state


def solve(setup: Setup, centreline: CubicHermiteSpline) -> gb.Array | None:
    """Velocity and pressure on the finest grid, (unknowns,); None without a steady flow.

    Each grid starts from the flow on the grid before. If that has no flow, it starts from the
    guess.
    """
    factorise = factoriser(setup.params.linear_solver)
    state: gb.Array | None = None
    coarser: tuple[QuadGrid, gb.Array] | None = None
    for space in setup.levels:
        start = first_guess(space.grid, centreline)
        if coarser is not None:
            start = np.where(space.fixed, start, interpolate(*coarser, space.grid))
        flow = ChannelFlow.of(space, centreline.derivative(), setup.params.viscosity)
        tolerance = TOLERANCE if space is setup.levels[-1] else ON_THE_WAY
        state = continued(flow.at_viscosity, start, flow.viscosity, factorise, tolerance=tolerance)
        coarser = coarser if state is None else (space.grid, state)
    return state


def generate(
    setup: Setup, seed: int, split: gb.Split, indices: Sequence[int]
) -> Iterator[gb.Sample]:
    """One sample per index; the centreline is a function of (seed, split, index) alone."""
    grid = setup.levels[-1].grid
    step_along, step_across = ((nodes - 1) // (setup.side - 1) for nodes in grid.shape)
    published = grid.velocity[::step_along, ::step_across, 0].ravel()
    for index in indices:
        centreline = draw_centreline(setup.params, seed, split, index)
        state = solve(setup, centreline)
        if state is None:
            raise gb.DataError(
                f"pipe: {split} sample {index} of seed {seed} has no steady flow that continuation "
                "reaches; expected one for the default knobs; raise data.viscosity or lower "
                "data.height and data.slope"
            )
        straight = setup.straight.points
        lift = np.stack([np.zeros(len(published)), centreline(straight[:, 0])], axis=1)
        yield gb.Sample(
            frames=state[published][None, :, None],
            static=np.zeros((len(published), 0)),
            scalars=np.zeros(0),
            mesh=replace(setup.straight, points=straight + lift),
        )


def no_shared_mesh(setup: Setup) -> None:
    """Every sample has its own mesh."""


@gb.hookimpl
def gsnobench_dataset() -> gb.Dataset:
    """The pipe as a dataset."""
    full = gb.Sizes(train=1000, valid=200, test=200, test_ood=100, resolution=65**2)
    most = "horizontal velocity; 1 is the most at the inlet"
    velocity = gb.Field("velocity_x", boundary={"wall": "dirichlet"}, help=most)
    return gb.Dataset(
        name="pipe",
        title="Flow through a curved pipe",
        fields=(velocity,),
        dim=2,
        tags=("inlet", "outlet", "wall"),
        params=Params,
        sizes={
            "smoke": gb.Sizes(train=16, valid=8, test=8, test_ood=4, resolution=33**2),
            "laptop": gb.Sizes(train=128, valid=32, test=64, test_ood=32, resolution=33**2),
            "workstation": full,
            "paper": full,
        },
        tiny=gb.Sizes(train=4, valid=2, test=2, test_ood=2, resolution=33**2),
        resolutions=RESOLUTIONS,
        corresponds=True,  # node (i, j) lies at the same share of length and width in every pipe
        fixed_mesh=False,
        setup=setup,
        generate=generate,
        mesh=no_shared_mesh,
        solver="Q2-Q1 finite elements on the sheared grid, grid sequencing, Newton with "
        "continuation in the viscosity, SuperLU",
        licence="Apache-2.0",
        cites="GSNO paper, appendix Pipe Flow with Navier-Stokes Equation, after Li et al., "
        "Geo-FNO, JMLR 24 (2023) 388",
    )
