"""What a model costs: no training, only timed steps, each measurement in a process of its own.

`steps` measures training steps, forwards, memory and operations over meshes and windows,
`eigenbasis` the preparation of bases with three solvers, `solver` how long a model and the
dataset's own solver take to a given error. `probe` is one measurement, `measuring` makes many of
them in turn and keeps what is done.
"""

from __future__ import annotations

from gsnobench.errors import ParamError
from gsnobench.runs.request import Request
from gsnobench.studies.base import Engine, Study
from gsnobench.studies.catalogue import Cost


def study(options: Cost, template: Request, engine: Engine) -> Study:
    """The study that the options ask for."""
    from gsnobench.studies.cost import eigenbasis, solver, steps

    if options.eigenbasis and options.errors:
        raise ParamError("cost: --eigenbasis and --errors are two questions; ask one at a time")
    if options.eigenbasis:
        return eigenbasis.study(options, template, engine)
    if options.errors:
        return solver.study(options, template, engine)
    return steps.study(options, template, engine)
