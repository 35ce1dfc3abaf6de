"""What a plugin returns: Dataset, Model, Phase, Metric, Executor. Declarations only; the core does
the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from gsnobench.data import Array, Field, Mesh, Samples, Split, Task
from gsnobench.files import Cache
from gsnobench.params import NoParams, Params, Value

if TYPE_CHECKING:
    from pathlib import Path

    import scipy.sparse
    import torch
    from torch import nn

    from gsnobench.batch import Batch
    from gsnobench.records import RunResult, RunSpec

# minmax: [0,1]; box: [-1,1]; scale: divide by the std only
Scaling = Literal["none", "minmax", "box", "zscore", "scale"]


# --------------------------------------------------------------------------------------------- data


@dataclass(frozen=True)
class Sizes:
    """How much of a dataset a track takes: samples per split and mesh nodes."""

    train: int
    valid: int
    test: int
    test_ood: int = 0
    resolution: int = 0

    def splits(self) -> dict[str, int]:
        """Samples per split, in the order of `data.SPLITS`."""
        return {
            "train": self.train,
            "valid": self.valid,
            "test": self.test,
            "test_ood": self.test_ood,
        }


@dataclass(frozen=True, eq=False)
class Sample:
    """One generated trajectory."""

    frames: Array  # (T, N, C)
    static: Array  # (N, F)
    scalars: Array  # (P,)
    mesh: Mesh | None = None  # None: the dataset's shared mesh


def unchanged(task: Task, params: Any) -> Task:
    """The task as declared: no knob changes it."""
    return task


@dataclass(frozen=True, eq=False)
class Dataset:
    """A PDE problem: what it holds, and a solver that makes sample `index` of a split from the data
    seed alone.

    `setup(params, resolution, cache)` does what all samples share (meshes, factorisations) and
    returns anything; `mesh(setup)` gives the shared mesh (None: every Sample carries its own);
    `generate(setup, seed, split, indices)` yields one Sample per index, in order: each a pure
    function of (seed, split, index), whatever else is in the list.
    """

    name: str
    fields: tuple[Field, ...]
    dim: int
    sizes: Mapping[str, Sizes]  # track -> sizes
    tiny: Sizes  # a few seconds in all, for checks
    setup: Callable[[Any, int, Cache], Any]
    generate: Callable[[Any, int, Split, Sequence[int]], Iterator[Sample]]
    mesh: Callable[[Any], Mesh | None]
    params: type[Params] = NoParams
    variants: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    static: tuple[Field, ...] = ()
    scalars: tuple[Field, ...] = ()
    tags: tuple[str, ...] = ()
    times: tuple[float, ...] = (0.0,)  # of every frame, in the unit of `time_unit`
    time_unit: str = "s"
    length_unit: str = "1"  # of the mesh coordinates
    # what the knobs change in a task: times, references
    adjust: Callable[[Task, Any], Task] = unchanged
    t_in: int = 0  # default window; t_out is the rest
    starts: tuple[int, ...] = (0,)
    corresponds: bool = True
    fixed_mesh: bool = True  # False: `mesh` gives None and every Sample carries its own
    resolutions: tuple[int, ...] = ()  # node counts on offer, empty: any
    chunk: int = 8  # samples a worker makes between two saves
    title: str = ""
    solver: str = ""
    licence: str = ""
    cites: str = ""
    url: str = ""
    revision: int = 1


# ------------------------------------------------------------------------------------------- models


class Capability(Enum):
    """What a model can do, as in the comparison table; declared, and tested by `gsnobench check`
    where it can be.
    """

    STEADY = "steady"
    UNSTEADY = "unsteady"
    FIXED_GEOMETRY = "fixed geometry"
    VARYING_GEOMETRY = "varying geometry"
    THREE_DIMENSIONS = "3d"
    OTHER_MESH = "evaluation on another mesh"
    PERMUTATION_EQUIVARIANT = "node-permutation equivariant"


@dataclass(frozen=True, eq=False)
class Part:
    """One tensor of a mesh's preprocessing; its axes are the batching rule.

    A dense value with axes ("node", "mode") is padded to the largest node and mode counts of a
    batch and stacked to (B, N, modes); shared by a fixed geometry it is held once, (1, N, modes). A
    value that points into a node set (`index` names it: "node" or a set of the model's own) is
    shifted by b times that set's padded size, as `Batch.flat` counts. A scipy sparse matrix with
    axes (out_set, in_set) becomes block-diagonal; `Batch.apply` multiplies with it.
    """

    value: Array | scipy.sparse.csr_array
    axes: tuple[str, ...]
    index: str | None = None


Geometry = dict[str, Part]
Summary = dict[str, Array]


@dataclass(frozen=True)
class Preset:
    """A named configuration of a model: its knobs, its training, its normalisation."""

    model: Mapping[str, Value] = field(default_factory=dict)
    train: Mapping[str, Value] = field(default_factory=dict)
    # window, static, scalars: one pair of numbers a channel, from the training split
    inputs: Scaling = "zscore"
    outputs: Scaling = "zscore"
    points: Scaling = "box"
    impose_boundary: bool = True  # known Dirichlet values are set after decoding, in loss and score
    is_paper: bool = False  # the protocol of the model's paper
    is_ours: bool = False  # a configuration of ours: a matrix shows the paper's beside it


@dataclass(frozen=True, eq=False)
class Fit:
    """What a closed-form phase or a preparation may use: both splits it may see, in memory and in
    encoded form.

    `batches(split)` yields (batch, target): the batch as the model sees it and the target in the
    same encoded units (B, t_out, N, C), in a fixed order. The test split is not here, so nothing
    can be selected on it.
    """

    task: Task  # narrowed to the model's horizon
    train: Samples
    valid: Samples
    batches: Callable[[Split], Iterable[tuple[Batch, torch.Tensor]]]


@dataclass(frozen=True, eq=False)
class Phase:
    """One stage of training, with its own loss, trained parameters, share of the budget and
    validation score.

    `loss(module, batch, target, progress)` works in encoded units and returns a scalar; None: the
    core's loss in physical units. `solve(module, fit)` makes the phase closed-form: it sets the
    module's buffers and takes no optimiser step. `prepare(module, fit)` runs before the first step.
    `score(module, fit)` replaces the validation score (lower wins).
    """

    name: str = "fit"
    share: float = 1.0
    loss: Callable[[nn.Module, Batch, torch.Tensor, float], torch.Tensor] | None = None
    solve: Callable[[nn.Module, Fit], None] | None = None
    prepare: Callable[[nn.Module, Fit], None] | None = None
    parameters: Callable[[nn.Module], Iterable[nn.Parameter]] | None = None  # None: all
    score: Callable[[nn.Module, Fit], float] | None = None
    # start of a parameter's name -> its share of the learning rate
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Horizon:
    """How a model walks through time: frames in, frames out per call, and how many calls one
    training step unrolls.
    """

    window: int
    steps: int
    unroll: int = 1


@dataclass(frozen=True, eq=False)
class Model:
    """An operator: `build(task, params)` makes the module that maps a Batch to (B, steps, N, C) in
    encoded units.
    """

    name: str
    params: type[Params]
    build: Callable[[Task, Any], nn.Module]
    presets: Mapping[str, Preset] = field(default_factory=lambda: {"default": Preset()})
    geometry: Callable[[Mesh, Task, Any, Summary], Geometry] | None = None
    # from the training split; saved with the weights
    summary: Callable[[Samples, Any], Summary] | None = None
    declines: Callable[[Task], str | None] = lambda task: None
    capabilities: frozenset[Capability] = frozenset()
    phases: Callable[[Task, Any], tuple[Phase, ...]] = lambda task, params: (Phase(),)
    horizon: Callable[[Task, Any], Horizon] = lambda task, params: Horizon(task.t_in, task.t_out)
    # task -> preset -> dotted knobs
    settings: Mapping[str, Mapping[str, Mapping[str, Value]]] = field(default_factory=dict)
    # task -> headline score, with `cites`
    published: Mapping[str, float] = field(default_factory=dict)
    is_floor: bool = False
    revision: int = 1
    title: str = ""
    cites: str = ""
    differs: tuple[str, ...] = ()  # deviations from the paper or its code

    def default_preset(self, track: str) -> str:
        """`paper` on the track of that name; elsewhere our best own configuration."""
        wanted = ("paper",) if track == "paper" else ("plus", "compact", "default")
        return next((name for name in wanted if name in self.presets), next(iter(self.presets)))


# ----------------------------------------------------------------------------------------- the rest


@dataclass(frozen=True, eq=False)
class Metric:
    """A score per sample, in physical units: `compute(prediction, target, batch) -> (B,)`."""

    name: str
    compute: Callable[[torch.Tensor, torch.Tensor, Batch], torch.Tensor]
    better: Literal["lower", "higher"] = "lower"
    help: str = ""


@dataclass(frozen=True)
class Limits:
    """What a set of runs may take, and where it keeps its things; nothing here changes a question."""

    home: Path
    device: str = "auto"
    jobs: int = 0  # runs at once, 0: as many as the executor has room for
    threads: int = 1  # a run
    gpus: float = 0.0  # a run, where the executor shares them out
    seconds: float = 0.0  # a run may take, 0: any time
    memory_mb: float = 0.0  # a run may take, 0: any
    address: str = ""  # of an existing cluster


@dataclass(frozen=True, eq=False)
class Executor:
    """Where a set of runs happens: `run(specs, limits)` yields a RunResult for each spec, in any
    order.

    `check(limits)` raises a RunError before anything is started if the place cannot offer what the
    limits ask for.
    """

    name: str
    run: Callable[[Sequence[RunSpec], Limits], Iterator[RunResult]]
    check: Callable[[Limits], None] = lambda limits: None
    help: str = ""
