"""`gb.run`: train and score one model on one task, with or without the floors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Never

from gsnobench.api.keywords import refuse_unknown
from gsnobench.api.progress import progress_if
from gsnobench.api.result import Result
from gsnobench.home import open_tidy_home
from gsnobench.params import Value
from gsnobench.plugins import listed
from gsnobench.records import RunResult
from gsnobench.registry import read_registry
from gsnobench.runs.calibrate import counted_plan
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.run import run_plan


def run(
    model: str,
    dataset: str | Path,
    *,
    track: str = "laptop",
    preset: str | None = None,
    seed: int = 0,
    data_seed: int = 0,
    t_in: int | None = None,
    t_out: int | None = None,
    resolution: int | None = None,
    samples: int | None = None,
    knobs: Mapping[str, Value] | None = None,
    floors: bool = False,
    force: bool = False,
    device: str = "auto",
    threads: int = 0,
    home: Path | str | None = None,
    progress: bool | None = None,
    **unknown: Never,
) -> Result:
    """Train a model on a task and score it; what `gsnobench run` does.

    A finished run is returned as it is and an interrupted one goes on; `force` repeats it.

        model       name of a model plugin, such as "gsno", or a row of boards, such as
                    "gsno@paper"; `gsnobench list models` has all
        dataset     task ("swe", "swe@10-41", "darcy_threshold") or the path of a NetCDF file
        track       budget: "smoke", "laptop", "workstation" or "paper"
        preset      configuration of the model; "NAME+features" adds computed inputs
        seed        of the training
        data_seed   of generated data
        t_in        frames given
        t_out       frames to predict; None: all that follow
        resolution  nodes of the mesh; None: those of the track
        samples     training samples; None: those of the track
        knobs       settings by dotted name: {"model.k_s": 16, "train.lr": 2e-3, "train.steps": 500}
        floors      also run the floors of the task; they come with the result
        force       repeat a finished run
        device      "auto", "cpu", "cuda" or "cuda:1"
        threads     of the training; 0: one, or more on large meshes
        home        folder for data, runs and records; None: $GSNOBENCH_HOME or the usual one
        progress    show it; None: in a notebook and in a terminal
    """
    refuse_unknown(run, unknown)
    request = Request(
        model=model,
        dataset=str(dataset),
        track=track,
        preset=preset,
        seed=seed,
        data_seed=data_seed,
        t_in=t_in,
        t_out=t_out,
        resolution=resolution,
        samples=samples,
        knobs={name: str(value) for name, value in (knobs or {}).items()},
    )
    opened = open_tidy_home(None if home is None else Path(home))
    make_plan(request, read_registry(home=opened))  # a mistake is told before anything is shown
    with progress_if(progress) as report:
        machine = Machine(opened, choose_device(device), threads=threads, report=report)
        floor_results = run_floors(request, machine) if floors else ()
        result = run_plan(counted_plan(request, machine), machine, force=force)
    entries = {entry.name: getattr(result, entry.name) for entry in fields(RunResult)}
    return Result(**entries, home=opened, floors=floor_results)


def run_floors(request: Request, machine: Machine) -> tuple[RunResult, ...]:
    """Results of the floor models on the task of the request."""
    data_knobs = {
        name: value for name, value in (request.knobs or {}).items() if name.startswith("data.")
    }
    usable = {entry.name for entry in listed("model") if entry.problem is None}
    model = request.model.partition("@")[0]
    floors = [name for name in read_registry().floors if name in usable and name != model]
    plans = [
        make_plan(replace(request, model=floor, preset=None, knobs=data_knobs)) for floor in floors
    ]
    return tuple(run_plan(plan, machine) for plan in plans if plan.declined is None)
