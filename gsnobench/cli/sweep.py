"""The verbs of searches and studies: sweep, study."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gsnobench.cli.options import KNOBS, Home, Json, Track, knobs_of, numbers_of, words_of
from gsnobench.errors import ParamError

app = typer.Typer()
study_app = typer.Typer(
    help="Fixed sets of runs that end in a table and a figure.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(study_app, name="study")

STORAGE_VARIABLE = "GSNOBENCH_STORAGE"
Preset = Annotated[
    str | None, typer.Option(help="Configuration of the model; NAME+features adds computed inputs.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda.")]


@app.command(context_settings=KNOBS)
def sweep(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Model plugin, see `list models`.")] = "",
    dataset: Annotated[str, typer.Option(help="Task (nse, swe@10-41) or a NetCDF file.")] = "",
    over: Annotated[
        str, typer.Option(help="Knobs by commas: model.k_s, model.k_s=4..64 or model.k_s=4:8:16.")
    ] = "",
    trials: Annotated[int, typer.Option(help="Points to try.")] = 30,
    track: Track = "laptop",
    preset: Preset = None,
    seed: Annotated[int, typer.Option(help="Training seed of the trials.")] = 0,
    sampler: Annotated[str, typer.Option(help="tpe, grid, random or gp.")] = "tpe",
    pruner: Annotated[
        str, typer.Option(help="none, median or hyperband: end poor trials early.")
    ] = "none",
    minimise: Annotated[
        str, typer.Option(help="error; or error,seconds or error,parameters for a Pareto front.")
    ] = "error",
    storage: Annotated[
        str,
        typer.Option(
            help=f"sqlite:///FILE or postgresql+psycopg://... (else ${STORAGE_VARIABLE})."
        ),
    ] = "",
    name: Annotated[str, typer.Option(help="Name of the study (else from what is searched).")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes that try points.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads a process.")] = 1,
    refit_seeds: Annotated[str, typer.Option(help="Seeds that judge the best points.")] = "0,1,2",
    refit_top: Annotated[int, typer.Option(min=1, help="Best points that are refitted.")] = 3,
    device: Device = "auto",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Search knobs on validation, refit the best with several seeds, and score the winner on test,
    once.

    The same command goes on where it stopped; on another host with the same --storage and --name it
    joins in. Other knobs are fixed by options: --train.steps 500 --model.width 40 --data.resolution
    450.
    """
    if not model or not dataset:
        raise ParamError(
            "sweep: needs --model and --dataset; for example: gsnobench sweep --model gsno "
            "--dataset nse"
        )
    knobs, own = knobs_of(context.args)
    from gsnobench.cli.verbs_sweep import SweepOptions
    from gsnobench.cli.verbs_sweep import sweep as run_sweep
    from gsnobench.runs.plan import Request

    request = Request(model, dataset, track=track, preset=preset, seed=seed, knobs=knobs, **own)
    options = SweepOptions(
        over=words_of(over),
        name=name,
        minimise=minimise,
        trials=trials,
        sampler=sampler,
        pruner=pruner,
        refit_seeds=tuple(dict.fromkeys(numbers_of(refit_seeds, "refit-seeds"))),
        refit_top=refit_top,
        storage=storage or os.environ.get(STORAGE_VARIABLE, ""),
        device=device,
        workers=workers,
        threads=threads,
    )
    raise typer.Exit(run_sweep(request, options, home=home, as_json=as_json))


@study_app.command(context_settings=KNOBS)
def sensitivity(
    context: typer.Context,
    dataset: Annotated[str, typer.Option(help="Task.")] = "nse",
    model: Annotated[str, typer.Option(help="Model with two central knobs.")] = "gsno",
    preset: Preset = "paper",
    seeds: Annotated[str, typer.Option(help="Training seeds, separated by commas.")] = "0,1,2",
    track: Track = "laptop",
    jobs: Annotated[int, typer.Option(help="Runs at a time; 0 is one a core.")] = 2,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Error over the retained modes: k_s in 4,6,8,16,32 at k_t = 8, and k_t in 4,6,8,12,16 at k_s =
    8.
    """
    knobs, own = knobs_of(context.args)
    chosen = tuple(dict.fromkeys(numbers_of(seeds, "seeds")))
    from gsnobench.cli.verbs_sweep import sensitivity as run_sensitivity
    from gsnobench.runs.plan import Request

    request = Request(model, dataset, track=track, preset=preset, knobs=knobs, **own)
    raise typer.Exit(run_sensitivity(request, chosen, jobs=jobs, home=home, as_json=as_json))
