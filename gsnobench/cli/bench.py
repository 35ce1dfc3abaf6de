"""The verbs of many runs: bench, status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gsnobench.cli.options import Home, Json, Track, numbers_of, words_of

app = typer.Typer()

Models = Annotated[
    str, typer.Option(help="Models (gsno, gsno@paper), separated by commas; else all.")
]
Datasets = Annotated[
    str, typer.Option(help="Tasks (darcy, swe@1-50), separated by commas; else all.")
]
Seeds = Annotated[str, typer.Option(help="Training seeds, separated by commas.")]
Windows = Annotated[
    str,
    typer.Option(
        "--t-in", help="Frames given to unsteady tasks, by commas (1,5); else as each says."
    ),
]


@app.command()
def bench(
    models: Models = "",
    datasets: Datasets = "",
    seeds: Seeds = "0,1,2",
    t_in: Windows = "",
    track: Track = "laptop",
    executor: Annotated[
        str, typer.Option(help="Where cells run: local, pool, ray, slurm.")
    ] = "pool",
    jobs: Annotated[int, typer.Option(help="Cells at a time; 0 is one a core.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads a cell.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="Graphics cards a cell (ray, slurm).")] = 0.0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda.")] = "auto",
    address: Annotated[
        str, typer.Option(help="Of an existing cluster (ray), or its partition (slurm).")
    ] = "",
    seconds: Annotated[
        float, typer.Option(min=0, help="Most seconds a cell, 0 for no limit.")
    ] = 0.0,
    memory: Annotated[
        float, typer.Option(min=0, help="Most megabytes a cell, 0 for no limit.")
    ] = 0.0,
    only: Annotated[
        str, typer.Option(help="States to run: missing, stale, failed, diverged.")
    ] = "missing,stale",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and what it will take.")
    ] = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Instead: measure steps for the track's budget, write registry.toml.",
        ),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Run the matrix of models, tasks and seeds: what is done is never repeated, what was cut goes
    on.
    """
    from gsnobench.bench.matrix import Choice

    choice = Choice(
        words_of(models),
        words_of(datasets),
        numbers_of(seeds, "seeds"),
        track,
        numbers_of(t_in, "t-in"),
    )
    if calibrate:
        from gsnobench.cli.verbs_bench import calibrate_pairs

        raise typer.Exit(calibrate_pairs(choice, device=device, home=home, as_json=as_json))
    from gsnobench.cli.verbs_bench import BenchOptions
    from gsnobench.cli.verbs_bench import bench as run_bench

    options = BenchOptions(
        executor, device, jobs, threads, gpus, seconds, memory, address, words_of(only), dry_run
    )
    raise typer.Exit(run_bench(choice, options, home=home, as_json=as_json))


@app.command()
def status(
    models: Models = "",
    datasets: Datasets = "",
    seeds: Seeds = "0,1,2",
    t_in: Windows = "",
    track: Track = "laptop",
    against: Annotated[
        Path | None,
        typer.Option(
            "--diff-against", help="Instead: what differs from the results in this folder."
        ),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show every cell of the matrix: done, running, missing, stale, failed, diverged or declined,
    and why.
    """
    from gsnobench.bench.matrix import Choice
    from gsnobench.cli.verbs_bench import status as show_status

    choice = Choice(
        words_of(models),
        words_of(datasets),
        numbers_of(seeds, "seeds"),
        track,
        numbers_of(t_in, "t-in"),
    )
    raise typer.Exit(show_status(choice, against, home=home, as_json=as_json))
