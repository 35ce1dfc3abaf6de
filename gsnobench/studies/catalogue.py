"""The studies by name, with their options; nothing here imports what a study computes with.

A study is a file of this room with a function `study(options, template, engine)`, and a class here
whose docstring is its help and whose knobs are its options.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from gsnobench.params import Params, knob

Hold = Literal["steps", "cpu"]


class Options(Params):
    """What every study is told."""

    example: ClassVar[str] = ""  # a command line that works
    needed: ClassVar[tuple[str, ...]] = ("dataset",)  # options that have no default
    needs_solver: ClassVar[str] = ""  # why a data file is not enough; empty: it takes one
    printed: ClassVar[str] = ""  # what the paper has on this question, for the page of the results

    track: str = knob("laptop", help="Budget: smoke, laptop, workstation or paper.")


class Seeded(Options):
    """Of a study that trains."""

    seeds: str = knob("0,1,2", help="Training seeds, separated by commas.")


class Held(Seeded):
    """Of a study whose runs have a common budget."""

    hold: Hold = knob(
        "steps",
        help="What all runs of a model have in common: the optimiser steps of the preset, or the "
        "track's CPU-seconds, for which each run's steps are counted on this machine.",
    )


class Sensitivity(Held):
    """Error over the two central knobs of a model, each varied while the other stays.

    Of gsno: k_s in 4,6,8,16,32 at k_t 8, and k_t in 4,6,8,12,16 at k_s 8.
    """

    example: ClassVar[str] = "--dataset nse"
    printed: ClassVar[str] = (
        "Two tables of one run each, on 1244 nodes and after 1000 epochs, with the least error "
        "where both numbers are 8. They are beside ours; the data are not the same."
    )

    dataset: str = knob("", help="Task, for example nse, or a NetCDF file.")
    model: str = knob("", help="Model with two central knobs (default: the benchmark's own).")
    preset: str = knob("", help="Preset to vary (default: the paper's).")


class RowOptions(Seeded):
    """Of a study that compares rows on one task."""

    needed: ClassVar[tuple[str, ...]] = ("dataset", "models")

    dataset: str = knob("", help="Task, for example darcy, or a NetCDF file.")
    models: str = knob(
        "",
        help="Models (gsno, gsno@compact), separated by commas; the others are compared with the "
        "first.",
    )


class ChangeOptions(Held):
    """Of a study that changes one model."""

    needed: ClassVar[tuple[str, ...]] = ("datasets",)

    datasets: str = knob("", help="Tasks or NetCDF files, separated by commas.")
    model: str = knob("", help="Model that declares the changes (default: the benchmark's own).")
    base: str = knob("", help="Preset that is changed (default: the first that declares any).")


class Ablation(ChangeOptions):
    """Leave out or replace the parts of a model, one at a time, with paired seeds.

    The ratio to the unchanged preset is tested over seeds, corrected by Holm's method. A change
    that removes parameters has a control with as many as the unchanged preset. --ladder goes from
    one preset to another, one change per step.
    """

    example: ClassVar[str] = "--datasets darcy,burgers2d --base compact"
    printed: ClassVar[str] = (
        "One table with one error for each of five changes, without seeds, after 1000 epochs. "
        "Its ratios to the full model are beside ours; the data are not the same."
    )

    ladder: bool = knob(
        False, help="Instead: go from the paper's preset to the model's own, change by change."
    )


class Readings(ChangeOptions):
    """Change each choice that the model's paper leaves open, one at a time."""

    example: ClassVar[str] = "--datasets darcy --base compact"
    printed: ClassVar[str] = (
        "Nothing: these are the choices that it does not state, or states in two ways."
    )


class Budget(RowOptions):
    """Error over the CPU-seconds of training; models without training are drawn as lines."""

    example: ClassVar[str] = "--dataset darcy --models gsno@compact,gsno@plus,geofno,ridge"
    printed: ClassVar[str] = "Nothing: all its models have 1000 epochs, whatever those cost."

    cpu: str = knob("30,60,120,300", help="CPU-seconds of training, separated by commas.")


class Data(RowOptions, Held):
    """Error over the number of training samples; validation and test stay the same."""

    example: ClassVar[str] = "--dataset darcy --models gsno@compact,gsno@plus,ridge"
    printed: ClassVar[str] = "Nothing: it has 500 to 1000 training samples and does not vary them."

    samples: str = knob("16,32,64,128", help="Numbers of training samples, separated by commas.")


class Resolution(RowOptions, Held):
    """Error over mesh size: each model tested on its training mesh, and on the finest mesh."""

    example: ClassVar[str] = "--dataset darcy --meshes 298,600,1184 --models gsno@compact,geofno"
    printed: ClassVar[str] = (
        "Figures of errors over meshes, trained and tested on the same mesh, without numbers; the "
        "text claims errors of the others that are 7 to 10 times as large."
    )
    needed: ClassVar[tuple[str, ...]] = ("dataset", "models", "meshes")
    needs_solver: ClassVar[str] = "compares meshes of one problem, and a file has one"

    dataset: str = knob("", help="Task, for example darcy.")
    meshes: str = knob("", help="Nodes of the meshes, separated by commas.")


class Time(RowOptions, Held):
    """Error over the number of given frames: as in the paper, and on frames common to all."""

    example: ClassVar[str] = "--dataset nse --models gsno@compact,gsno@plus,persistence"
    printed: ClassVar[str] = (
        "Tables of errors with 1, 3, 5 and 10 given frames, one run each, every window on its own "
        "frames to predict. They are beside ours; the data are not the same."
    )

    dataset: str = knob("", help="Task with frames, for example nse, or a NetCDF file.")
    t_in: str = knob("1,3,5,10", help="Numbers of given frames, separated by commas.")


class Transfer(RowOptions, Held):
    """Train on one mesh, test the same weights on others, beside interpolation.

    A model transfers if it is better on the other mesh than its own prediction interpolated to it,
    and breaks if it is worse. It only interpolates if a bootstrap over test samples sees no
    difference.
    """

    example: ClassVar[str] = "--dataset nse --test 972,1244 --models gsno@compact,gsno@plus"
    printed: ClassVar[str] = (
        "Two pictures of predictions on a mesh with twice the nodes, without an error."
    )
    needed: ClassVar[tuple[str, ...]] = ("dataset", "models", "test")
    needs_solver: ClassVar[str] = "solves the problem on other meshes, and a file has one"

    dataset: str = knob("", help="Task, for example nse.")
    train: int = knob(0, low=0, help="Nodes of the training mesh; 0: those of the track.")
    test: str = knob("", help="Nodes of the other meshes, separated by commas.")
    oracle: bool = knob(False, help="Also train on the other meshes, with the same steps.")


class Cost(Options):
    """Seconds, memory and operations of training steps and forward passes; nothing is trained.

    Every measurement is a process of its own, in turn with the others, on one thread, whatever
    --executor, --jobs, --threads and --address say. With
    --eigenbasis: what bases cost by three solvers. With --errors: how long models and the dataset's
    own solver take to reach an error.
    """

    example: ClassVar[str] = "--datasets darcy --models gsno@paper,geofno@paper --meshes 298,600"
    printed: ClassVar[str] = (
        "Seconds per epoch, seconds and megabytes of a batch of 32, and the share of eigenbases "
        "in 1000 epochs, on a V100. They are beside ours and never judged."
    )
    needed: ClassVar[tuple[str, ...]] = ("datasets",)
    needs_solver: ClassVar[str] = "times meshes and batches that it makes itself"

    datasets: str = knob("", help="Tasks, separated by commas.")
    models: str = knob(
        "",
        help="Models (gsno, gsno@compact), the first is the yardstick (default: all, as printed).",
    )
    meshes: str = knob("", help="Nodes of the meshes, separated by commas (default: the track's).")
    t_in: str = knob("", help="Given frames, separated by commas (default: the task's).")
    batch: int = knob(32, low=1, help="Samples of a forward pass.")
    rounds: int = knob(3, low=1, help="Processes per measurement.")
    eigenbasis: bool = knob(
        False, help="Instead: the cost of the eigenbases of the paper's operator."
    )
    errors: str = knob("", help="Instead: the time to these errors, for example 0.05,0.02,0.01.")


class Inverse(RowOptions):
    """Bayesian inversion through trained models, beside the posterior of the solver.

    From noisy observations of a frame, which input made it? Every sampler is judged by whether its
    chains have mixed; where they have not, nothing is concluded.
    """

    example: ClassVar[str] = "--dataset darcy --models gsno@plus,ridge --problems 2"
    printed: ClassVar[str] = (
        "One picture of a permeability recovered from the solution at all nodes, without noise "
        "and without diagnostics, called in close agreement."
    )
    needs_solver: ClassVar[str] = "needs the prior and the solver of a dataset"

    dataset: str = knob("", help="Task, for example darcy.")
    seeds: str = knob("0", help="Training seeds, separated by commas.")
    samplers: str = knob(
        "printed,rwm,pcn,mala,hmc",
        help="Samplers, separated by commas: printed, rwm, pcn, mala, hmc.",
    )
    sensors: int = knob(64, low=0, help="Observed nodes, spread over the domain; 0: all.")
    noise: float = knob(
        0.01, low=1e-4, high=1.0, help="Deviation of the noise, relative to the observed frame."
    )
    problems: int = knob(8, low=1, help="Number of test problems.")
    references: int = knob(
        2, low=0, help="Problems for which the solver's own posterior is also computed."
    )
    chains: int = knob(8, low=2, high=512, help="Chains per posterior.")
    burn: int = knob(100, low=1, help="Draws of each chain that are dropped.")
    draws: int = knob(200, low=8, help="Draws of each chain that are kept.")
    law: Literal["laplace", "prior"] = knob(
        "laplace", help="What proposals are relative to: an approximate posterior, or the prior."
    )
    sbc: int = knob(0, low=0, help="Further problems to check the calibration with; 0: none.")


STUDIES: dict[str, type[Options]] = {
    "ablation": Ablation,
    "readings": Readings,
    "budget": Budget,
    "data": Data,
    "resolution": Resolution,
    "transfer": Transfer,
    "time": Time,
    "sensitivity": Sensitivity,
    "cost": Cost,
    "inverse": Inverse,
}
