"""gsnobench: the benchmark for neural operators on irregular domains.

Everything that a plugin or a notebook needs has its name here: `import gsnobench as gb`. A name
loads on first use, so that importing the package (and `gsnobench --help`) never imports torch.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if "torch" not in sys.modules:  # torch reads both when it is loaded; a user's own setting wins
    # threads that wait must sleep: spinning ones make a busy machine many times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("KMP_BLOCKTIME", "0")

_NAMES = {  # module -> its public names; the block below says the same to type checkers
    "errors": ("DataError", "GsnobenchError", "ParamError", "PluginError", "Prune", "RunError"),
    "params": ("Knob", "NoParams", "Params", "Value", "knob"),
    "reading": ("InputFile", "guarded", "read_json", "read_npy"),
    "data": ("SPLITS", "Array", "Field", "Mesh", "Samples", "Split", "Task"),
    "batch": ("Batch",),
    "files": ("Cache", "private_token"),
    "declare": (
        "Capability",
        "Change",
        "Dataset",
        "Decoder",
        "Executor",
        "Fit",
        "Geometry",
        "Horizon",
        "Imported",
        "Importer",
        "Invariant",
        "Inverse",
        "Ladder",
        "Limits",
        "Metric",
        "Model",
        "Part",
        "Phase",
        "Preset",
        "MINMAX",
        "UNSCALED",
        "Sample",
        "Sizes",
        "Studies",
        "Summary",
    ),
    "hookspecs": ("hookimpl",),
    "datasets.rows": ("Rows",),
    "datasets.interchange.labelled": ("open_file", "open_task"),
    "datasets.interchange.tensors": ("TensorSamples", "samples"),
    "datasets.interchange.writing": ("write_file",),
    "records": ("RunResult", "RunSpec"),
    "training.computed_inputs": (
        "ComputedInputs",
        "computed_geometry",
        "domain_length",
        "fit_propagator",
        "residual_size",
    ),
    "training.metrics": ("each_sample", "relative_l2"),
    "runs.trained": ("Trained", "load"),
    "matrix.executors": ("run_alone",),
    "api.running": ("run",),
    "api.result": ("Result",),
    "api.matrix": ("bench",),
    "api.searching": ("SweepResult", "sweep"),
    "api.boards": ("leaderboard",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

if TYPE_CHECKING:
    from gsnobench.api.boards import leaderboard as leaderboard
    from gsnobench.api.matrix import bench as bench
    from gsnobench.api.result import Result as Result
    from gsnobench.api.running import run as run
    from gsnobench.api.searching import SweepResult as SweepResult
    from gsnobench.api.searching import sweep as sweep
    from gsnobench.batch import Batch as Batch
    from gsnobench.data import SPLITS as SPLITS
    from gsnobench.data import Array as Array
    from gsnobench.data import Field as Field
    from gsnobench.data import Mesh as Mesh
    from gsnobench.data import Samples as Samples
    from gsnobench.data import Split as Split
    from gsnobench.data import Task as Task
    from gsnobench.datasets.interchange.labelled import open_file as open_file
    from gsnobench.datasets.interchange.labelled import open_task as open_task
    from gsnobench.datasets.interchange.tensors import TensorSamples as TensorSamples
    from gsnobench.datasets.interchange.tensors import samples as samples
    from gsnobench.datasets.interchange.writing import write_file as write_file
    from gsnobench.datasets.rows import Rows as Rows
    from gsnobench.declare import MINMAX as MINMAX
    from gsnobench.declare import UNSCALED as UNSCALED
    from gsnobench.declare import Capability as Capability
    from gsnobench.declare import Change as Change
    from gsnobench.declare import Dataset as Dataset
    from gsnobench.declare import Decoder as Decoder
    from gsnobench.declare import Executor as Executor
    from gsnobench.declare import Fit as Fit
    from gsnobench.declare import Geometry as Geometry
    from gsnobench.declare import Horizon as Horizon
    from gsnobench.declare import Imported as Imported
    from gsnobench.declare import Importer as Importer
    from gsnobench.declare import Invariant as Invariant
    from gsnobench.declare import Inverse as Inverse
    from gsnobench.declare import Ladder as Ladder
    from gsnobench.declare import Limits as Limits
    from gsnobench.declare import Metric as Metric
    from gsnobench.declare import Model as Model
    from gsnobench.declare import Part as Part
    from gsnobench.declare import Phase as Phase
    from gsnobench.declare import Preset as Preset
    from gsnobench.declare import Sample as Sample
    from gsnobench.declare import Sizes as Sizes
    from gsnobench.declare import Studies as Studies
    from gsnobench.declare import Summary as Summary
    from gsnobench.errors import DataError as DataError
    from gsnobench.errors import GsnobenchError as GsnobenchError
    from gsnobench.errors import ParamError as ParamError
    from gsnobench.errors import PluginError as PluginError
    from gsnobench.errors import Prune as Prune
    from gsnobench.errors import RunError as RunError
    from gsnobench.files import Cache as Cache
    from gsnobench.files import private_token as private_token
    from gsnobench.hookspecs import hookimpl as hookimpl
    from gsnobench.matrix.executors import run_alone as run_alone
    from gsnobench.params import Knob as Knob
    from gsnobench.params import NoParams as NoParams
    from gsnobench.params import Params as Params
    from gsnobench.params import Value as Value
    from gsnobench.params import knob as knob
    from gsnobench.reading import InputFile as InputFile
    from gsnobench.reading import guarded as guarded
    from gsnobench.reading import read_json as read_json
    from gsnobench.reading import read_npy as read_npy
    from gsnobench.records import RunResult as RunResult
    from gsnobench.records import RunSpec as RunSpec
    from gsnobench.runs.trained import Trained as Trained
    from gsnobench.runs.trained import load as load
    from gsnobench.training.computed_inputs import ComputedInputs as ComputedInputs
    from gsnobench.training.computed_inputs import computed_geometry as computed_geometry
    from gsnobench.training.computed_inputs import domain_length as domain_length
    from gsnobench.training.computed_inputs import fit_propagator as fit_propagator
    from gsnobench.training.computed_inputs import residual_size as residual_size
    from gsnobench.training.metrics import each_sample as each_sample
    from gsnobench.training.metrics import relative_l2 as relative_l2


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gsnobench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gsnobench.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return ["__version__", *_MODULE_OF]
