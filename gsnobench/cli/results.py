"""The verbs about results: score, verify, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gsnobench.cli.options import KNOBS, Home, Jobs, Json, Track, knobs_of, numbers_of

app = typer.Typer()

Data = Annotated[
    Path | None, typer.Option(help="The NetCDF file of a run that was made on a file.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda.")]


@app.command(context_settings=KNOBS)
def score(
    context: typer.Context,
    predictions: Annotated[
        Path, typer.Argument(help="NetCDF as `predict --out` writes, or .npz/.npy (S, T, N, C).")
    ],
    dataset: Annotated[str, typer.Option(help="Task (swe, swe@10-41) or a NetCDF file.")],
    track: Track = "laptop",
    split: Annotated[str, typer.Option(help="Split that was predicted.")] = "test",
    samples: Annotated[
        int | None, typer.Option(help="Training samples of the data (else as the track says).")
    ] = None,
    jobs: Jobs = 0,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Score predictions of any framework, in physical units, by the metrics of every run.

    Data knobs are options too: --data.seed 1 --data.resolution 1830.
    """
    from gsnobench.cli.verbs_results import score_file

    knobs, own = knobs_of(context.args)
    wanted = {"track": track, "samples": samples, "knobs": knobs, **own}
    raise typer.Exit(
        score_file(predictions, dataset, wanted, split=split, jobs=jobs, home=home, as_json=as_json)
    )


@app.command()
def verify(
    result: Annotated[
        str, typer.Argument(help="A result JSON, a bundle, or a run (key prefix or folder).")
    ],
    tier: Annotated[
        int,
        typer.Option(
            min=0,
            max=3,
            help="0 its arithmetic, 1 stored predictions, 2 stored weights, 3 trained again.",
        ),
    ] = 0,
    data: Data = None,
    device: Device = "auto",
    jobs: Jobs = 0,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Check a result, tier by tier: exit 0 if it holds, 3 if a check failed, 2 if the tier cannot
    be checked.
    """
    from gsnobench.cli.verbs_results import verify_result

    raise typer.Exit(
        verify_result(result, tier, data=data, device=device, jobs=jobs, home=home, as_json=as_json)
    )


@app.command()
def export(
    run: Annotated[str, typer.Argument(help="A run (key prefix or folder) or a bundle.")],
    format_: Annotated[
        Literal["vtu"], typer.Option("--format", help="vtu: for ParaView, one file a frame.")
    ] = "vtu",
    samples: Annotated[str, typer.Option(help="Test samples, separated by commas.")] = "0",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to (else KEY-vtu here).")
    ] = None,
    data: Data = None,
    device: Device = "auto",
    jobs: Jobs = 0,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write truth, prediction and error of test samples for ParaView."""
    from gsnobench.cli.verbs_results import export_run

    chosen = numbers_of(samples, "samples")
    raise typer.Exit(
        export_run(
            run, chosen, out=out, data=data, device=device, jobs=jobs, home=home, as_json=as_json
        )
    )
