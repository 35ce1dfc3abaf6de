"""What a plugin returns: Dataset, Importer, Invariant, Model, Metric, Executor and their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from gsnobench.data import Array, Family, Field, Mesh, Samples, Split, Task
from gsnobench.files import Cache
from gsnobench.params import NoParams, Params, Value

if TYPE_CHECKING:
    from pathlib import Path

    import scipy.sparse
    import torch
    from torch import nn

    from gsnobench.batch import Batch
    from gsnobench.records import RunResult, RunSpec
    from gsnobench.registry import Track

# minmax: to [0, 1]; box: to [-1, 1]; zscore: mean 0 and std 1; scale: divide by the std only
Scaling = Literal["none", "minmax", "box", "zscore", "scale"]


# --------------------------------------------------------------------------------------------- data


@dataclass(frozen=True)
class Sizes:
    """How much of a dataset a track uses: samples per split and mesh nodes."""

    train: int
    valid: int
    test: int
    test_ood: int = 0
    resolution: int = 0  # nodes

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
    mesh: Mesh | None = None  # None: the mesh that all samples share


def unchanged(task: Task, params: Any) -> Task:
    """The task as declared: no knob changes it."""
    return task


@dataclass(frozen=True, eq=False)
class Decoder:
    """From coefficients to a field at the nodes: link(matrix @ xi), in torch."""

    matrix: Array  # (N, K)
    link: Callable[[torch.Tensor], torch.Tensor]  # one value at a time
    is_smooth: bool = True  # False: the link has no useful derivative


@dataclass(frozen=True, eq=False)
class Inverse:
    """The inverse problem of a dataset: coefficients, of prior N(0, I), from observed frames.

    `decode(setup)` makes the first static input of them, with the law of the training split.
    `solve(setup, xi)` returns the frames (T, N, C) that the solver of the data gives for (K,)
    coefficients. `finer(params)` returns the knobs of a solver that is refined once more:
    observations come from it, since a solver must not be inverted on its own output.
    `adjoint(setup, xi)` returns the frames and a function: from weights (T, N, C) to the gradient
    (K,) of the frames' sum with these weights.
    """

    dim: int  # number of coefficients, K
    decode: Callable[[Any], Decoder]
    solve: Callable[[Any, Array], Array]
    finer: Callable[[Any], Any]
    # None: the solver's own posterior is sampled without gradients
    adjoint: Callable[[Any, Array], tuple[Array, Callable[[Array], Array]]] | None = None


@dataclass(frozen=True, eq=False)
class Dataset:
    """A PDE problem, and a solver that computes each sample from the data seed alone.

    `setup(params, resolution, cache)` computes what all samples share (meshes, factorisations) and
    returns anything. `mesh(setup)` returns the shared mesh, or None if every Sample carries its
    own. `generate(setup, seed, split, indices)` yields one Sample per index, in that order; each
    depends on (seed, split, index) alone, not on the rest of the list.
    """

    name: str
    fields: tuple[Field, ...]
    dim: int
    sizes: Mapping[str, Sizes]  # track -> sizes
    tiny: Sizes  # for checks: a few seconds in all
    setup: Callable[[Any, int, Cache], Any]
    generate: Callable[[Any, int, Split, Sequence[int]], Iterator[Sample]]
    mesh: Callable[[Any], Mesh | None]
    params: type[Params] = NoParams
    variants: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)  # name -> knobs
    static: tuple[Field, ...] = ()
    scalars: tuple[Field, ...] = ()
    tags: tuple[str, ...] = ()
    times: tuple[float, ...] = (0.0,)  # of every frame, in `time_unit`
    time_unit: str = "s"
    length_unit: str = "1"  # of the mesh coordinates
    adjust: Callable[[Task, Any], Task] = unchanged  # knobs that change times or references
    t_in: int = 0  # frames given by default; all later frames are to be predicted
    starts: tuple[int, ...] = (0,)  # frames at which the scored windows begin
    corresponds: bool = True  # node i is the same material point in every sample
    fixed_mesh: bool = True  # False: `mesh` returns None and every Sample carries its own
    family: Family | None = None  # of all its tasks; None: by their meshes and windows
    resolutions: tuple[int, ...] = ()  # node counts on offer; empty: any
    chunk: int = 8  # samples that a process makes between two saves
    inverse: Inverse | None = None  # what `gsnobench study inverse` may ask
    title: str = ""
    solver: str = ""
    licence: str = ""
    cites: str = ""
    url: str = ""
    revision: int = 1


@dataclass(frozen=True, eq=False)
class Imported:
    """What an importer read: samples whose arrays may be lazy (`gb.Rows`), and what it noticed."""

    samples: Mapping[Split, Samples]
    notes: Mapping[str, Any] = field(default_factory=dict)  # for the report, one line each
    time_unit: str = "s"
    length_unit: str = "1"


@dataclass(frozen=True, eq=False)
class Importer:
    """A reader of public data in the files of their authors; its name is the id of its task.

    `read(folder, params)` returns the samples of all splits. The authors' test set is kept;
    validation comes from samples that their protocol leaves unused, else from the training set.
    """

    name: str
    read: Callable[[Path, Any], Imported]
    layout: str  # which files a folder must hold, in one line
    params: type[Params] = NoParams
    title: str = ""
    licence: str = ""
    cites: str = ""
    url: str = ""
    revision: int = 1


@dataclass(frozen=True, eq=False)
class Invariant:
    """What must hold in every sample, whoever made it; `gsnobench data verify` measures it.

    `measure(sample, mesh, task)` returns 0 where it holds exactly. The arrays of the sample are
    float64, in physical units and without padding.
    """

    name: str
    measure: Callable[[Sample, Mesh, Task], float]
    limit: float  # a larger value is a fault
    help: str = ""  # what is measured, in a line
    applies: Callable[[Task, Mesh], bool] = lambda task, mesh: True


# ------------------------------------------------------------------------------------------- models


class Capability(Enum):
    """What a model declares that it can do; `gsnobench check` tests it where that is possible."""

    STEADY = "steady"
    UNSTEADY = "unsteady"
    FIXED_GEOMETRY = "fixed geometry"
    VARYING_GEOMETRY = "varying geometry"
    THREE_DIMENSIONS = "3d"
    OTHER_MESH = "evaluation on another mesh"
    PERMUTATION_EQUIVARIANT = "node-permutation equivariant"


@dataclass(frozen=True, eq=False)
class Part:
    """One array that a model precomputes on a mesh; its axes say how meshes become a batch.

    A dense value with axes ("node", "mode") is padded to the largest node and mode counts of a
    batch and stacked to (B, N, modes); on a fixed geometry it is stored once, (1, N, modes). A
    value that points into a set of nodes (`index` names the set: "node", or one of the model's own)
    is shifted by b times the padded size of that set, the numbering of `Batch.flat`. A scipy sparse
    matrix with axes (out_set, in_set) becomes block-diagonal; `Batch.apply` multiplies with it.
    """

    value: Array | scipy.sparse.csr_array
    axes: tuple[str, ...]
    index: str | None = None


Geometry = dict[str, Part]  # what a model precomputes on a mesh
Summary = dict[str, Array]  # what a model remembers of the training split


def _scale_all(scaling: Scaling) -> dict[str, Value]:
    return {f"scale_{part}": scaling for part in ("window", "static", "outputs", "points")}


MINMAX: Mapping[str, Value] = _scale_all("minmax")  # training knobs: everything to [0, 1]
UNSCALED: Mapping[str, Value] = _scale_all("none")  # training knobs: everything as it is


@dataclass(frozen=True)
class Preset:
    """A named configuration of a model: its knobs, and those of its training and scaling."""

    model: Mapping[str, Value] = field(default_factory=dict)  # knobs of the model
    train: Mapping[str, Value] = field(default_factory=dict)  # knobs of the training loop
    is_default: bool = False  # used where no preset is named; the first preset if none is marked
    is_paper: bool = False  # the paper's protocol: used where a track counts epochs
    is_ours: bool = False  # an architecture of ours; `bench` runs the printed one beside it
    is_printed: bool = False  # the printed architecture, trained as the other models are


@dataclass(frozen=True, eq=False)
class Fit:
    """What a closed-form phase or a preparation may use: training and validation data.

    `batches(split)` yields (batch, target) in a fixed order: the batch as the model sees it, and
    the target in the same encoded units, (B, t_out, N, C). The test split is not here, so nothing
    can be selected on it.
    """

    task: Task  # narrowed to the model's horizon
    train: Samples
    valid: Samples
    batches: Callable[[Split], Iterable[tuple[Batch, torch.Tensor]]]


@dataclass(frozen=True, eq=False)
class Phase:
    """One stage of training, with its own loss, parameters, share of the budget and score.

    `loss(module, batch, target, progress)` works in encoded units and returns a scalar; None: the
    core's loss in physical units. `solve(module, fit)` makes the phase closed-form: it sets the
    module's buffers, and no optimiser step follows. `prepare(module, fit)` runs before the first
    step. `score(module, fit)` replaces the validation score (lower is better).
    """

    name: str = "fit"
    share: float = 1.0  # of the training budget
    loss: Callable[[nn.Module, Batch, torch.Tensor, float], torch.Tensor] | None = None
    solve: Callable[[nn.Module, Fit], None] | None = None
    prepare: Callable[[nn.Module, Fit], None] | None = None
    parameters: Callable[[nn.Module], Iterable[nn.Parameter]] | None = None  # None: all
    score: Callable[[nn.Module, Fit], float] | None = None
    # start of a parameter's name -> its share of the learning rate
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Horizon:
    """How a model goes through time: frames in and frames out of one call."""

    window: int  # frames in
    steps: int  # frames out
    unroll: int = 1  # calls in a row that one training step may differentiate through


@dataclass(frozen=True, eq=False)
class Change:
    """A change of a preset that a study compares with the preset itself."""

    label: str
    knobs: Mapping[str, Value] = field(default_factory=dict)  # dotted: model.width, train.lr
    takes: tuple[str, ...] = ()  # dotted knobs that take the values of a ladder's last preset
    seed_knob: str = ""  # dotted knob that takes the training seed
    matched: str = ""  # knob of the model: raised, it gives back the parameters that are lost
    printed: str = ""  # what the paper's numbers call it, if it prints this change
    applies: Callable[[Task], bool] = lambda task: True  # False where the change means nothing


@dataclass(frozen=True, eq=False)
class Ladder:
    """The way from one preset to another, one change after the other; each keeps those before."""

    first: str
    last: str
    rungs: tuple[Change, ...]


@dataclass(frozen=True, eq=False)
class Studies:
    """What `gsnobench study` can ask about a model."""

    ablations: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)  # preset -> changes
    # preset -> other readings of a paper that leaves something open
    readings: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    ladder: Ladder | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """An operator and everything the core must know of it.

    `build(task, params)` makes the module that maps a Batch to (B, steps, N, C) in encoded units.
    """

    name: str
    params: type[Params]
    build: Callable[[Task, Any], nn.Module]
    presets: Mapping[str, Preset] = field(default_factory=lambda: {"default": Preset()})
    # (mesh, task, params, summary) -> what to precompute on the mesh; cached on disk
    geometry: Callable[[Mesh, Task, Any, Summary], Geometry] | None = None
    # (train, params) -> what a model remembers of the training split; saved with its weights
    summary: Callable[[Samples, Any], Summary] | None = None
    declines: Callable[[Task], str | None] = lambda task: None  # a reason, or None to accept
    capabilities: frozenset[Capability] = frozenset()
    phases: Callable[[Task, Any], tuple[Phase, ...]] = lambda task, params: (Phase(),)
    horizon: Callable[[Task, Any], Horizon] = lambda task, params: Horizon(task.t_in, task.t_out)
    # family or task -> preset -> dotted knobs; those of a task override those of its family
    settings: Mapping[str, Mapping[str, Mapping[str, Value]]] = field(default_factory=dict)
    # track -> task -> preset -> phase -> steps: counts that a plugin ships, see docs/submit.md
    steps: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)  # task -> headline in `cites`
    studies: Studies = field(default_factory=Studies)
    is_floor: bool = False
    revision: int = 1
    title: str = ""
    cites: str = ""
    differs: tuple[str, ...] = ()  # deviations from the paper or its code
    tuned: tuple[str, ...] = ()  # trials of its presets beside those of the equal tuning, in words

    def default_preset(self, track: Track | None = None) -> str:
        """The preset of a run that names none; a track that counts epochs uses the paper's."""
        names = list(self.presets)
        papers = [name for name in names if self.presets[name].is_paper]
        defaults = [name for name in names if self.presets[name].is_default]
        counts_epochs = track is not None and track.epochs > 0
        return [*(papers if counts_epochs else ()), *defaults, *names][0]


# ----------------------------------------------------------------------------------------- the rest


@dataclass(frozen=True, eq=False)
class Metric:
    """A score per sample, in physical units: `compute(prediction, target, batch) -> (B,)`.

    Prediction and target are (B, T, N, C), minus the references of their fields; both agree where a
    field is not defined. The batch holds the meshes of its samples; its inputs are scaled as the
    model needs them, so no score may depend on those. `gb.each_sample` makes a `compute` from the
    score of one sample.
    """

    name: str
    compute: Callable[[torch.Tensor, torch.Tensor, Batch], torch.Tensor]
    better: Literal["lower", "higher"] = "lower"
    help: str = ""
    # where it makes sense: a metric that needs cells or a certain field is absent elsewhere
    applies: Callable[[Task, Mesh], bool] = lambda task, mesh: True


@dataclass(frozen=True)
class Limits:
    """What a set of runs may use and where it keeps its files; no key depends on it."""

    home: Path
    device: str = "auto"
    jobs: int = 0  # runs at once; 0: as many as the executor has room for
    threads: int = 1  # per run
    gpus: float = 0.0  # per run, where the executor shares them out
    seconds: float = 0.0  # per run at most; 0: no limit
    memory_mb: float = 0.0  # per run at most; 0: no limit
    address: str = ""  # of an existing cluster


@dataclass(frozen=True, eq=False)
class Executor:
    """Where runs happen: `run(specs, limits)` yields a RunResult for each spec, in any order.

    `check(limits)` raises a RunError before any run starts if the executor cannot offer what the
    limits request.
    """

    name: str
    run: Callable[[Sequence[RunSpec], Limits], Iterator[RunResult]]
    check: Callable[[Limits], None] = lambda limits: None
    help: str = ""
