"""gsnobench: the benchmark for neural operators on irregular domains.

The public names load on first use, so that importing the package (and `gsnobench --help`) never
imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME_OF = {
    "errors": ("DataError", "GsnobenchError", "ParamError", "PluginError", "Prune", "RunError"),
    "params": ("Knob", "Params", "knob"),
    "data": ("Batch", "Field", "Mesh", "Samples", "Task"),
    "files": ("Cache",),
    "declare": (
        *(
            "Capability",
            "Dataset",
            "Executor",
            "Fit",
            "Horizon",
            "Metric",
            "Model",
            "Part",
            "Phase",
            "Preset",
        ),
        *("Sample", "Sizes"),
    ),
    "hookspecs": ("hookimpl",),
    "records": ("RunResult", "RunSpec"),
    "runs.run": ("run",),
    "runs.trained": ("Trained", "load"),
}
_MODULE_OF = {name: module for module, names in _HOME_OF.items() for name in names}

__all__ = [  # spelt out for type checkers, which do not evaluate _HOME_OF
    "Batch",
    "Cache",
    "Capability",
    "DataError",
    "Dataset",
    "Executor",
    "Field",
    "Fit",
    "GsnobenchError",
    "Horizon",
    "Knob",
    "Mesh",
    "Metric",
    "Model",
    "ParamError",
    "Params",
    "Part",
    "Phase",
    "PluginError",
    "Preset",
    "Prune",
    "RunError",
    "RunResult",
    "RunSpec",
    "Sample",
    "Samples",
    "Sizes",
    "Task",
    "Trained",
    "hookimpl",
    "knob",
    "load",
    "run",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gsnobench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gsnobench.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from gsnobench.data import Batch, Field, Mesh, Samples, Task
    from gsnobench.declare import (
        Capability,
        Dataset,
        Executor,
        Fit,
        Horizon,
        Metric,
        Model,
        Part,
        Phase,
        Preset,
        Sample,
        Sizes,
    )
    from gsnobench.errors import DataError, GsnobenchError, ParamError, PluginError, Prune, RunError
    from gsnobench.files import Cache
    from gsnobench.hookspecs import hookimpl
    from gsnobench.params import Knob, Params, knob
    from gsnobench.records import RunResult, RunSpec
    from gsnobench.runs.run import run
    from gsnobench.runs.trained import Trained, load
