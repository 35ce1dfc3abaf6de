"""The verbs; no logic. Nothing heavy is imported before a verb needs it, so that `--help` and
`list` answer at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gsnobench.cli.bench import app as bench_app
from gsnobench.cli.boards import app as board_app
from gsnobench.cli.options import KNOBS, Home, Jobs, Json, Track, knobs_of
from gsnobench.cli.results import app as results_app
from gsnobench.cli.sweep import app as sweep_app
from gsnobench.errors import GsnobenchError, ParamError

app = typer.Typer(
    name="gsnobench",
    help="The benchmark for neural operators on irregular domains.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(
    help="Generate, import, verify and export data.", no_args_is_help=True, rich_markup_mode=None
)
plugin_app = typer.Typer(help="Write your own plugin.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(bench_app)
app.add_typer(sweep_app)
app.add_typer(results_app)
app.add_typer(board_app)
app.add_typer(data_app, name="data")
app.add_typer(plugin_app, name="plugin")

Kinds = Literal["datasets", "models", "tracks", "executors", "metrics", "observers"]
INTERRUPTED = 130
# click's ClickException, wherever this typer keeps its click
CommandLineError: Any = typer.BadParameter.__mro__[2]


def main() -> None:
    """Entry point: mistakes are one line and exit 2; a traceback is our own bug and exit 1."""
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this exit code, without a word
            raise KeyboardInterrupt
    except GsnobenchError as error:
        code = _complain(str(error))
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted; the same command goes on where it stopped", INTERRUPTED)
    except CommandLineError as error:
        code = _complain(error.format_message())
    sys.exit(code if isinstance(code, int) else 0)


def _complain(text: str, code: int = 2) -> int:
    print(f"gsnobench: {' '.join(text.split())}", file=sys.stderr)
    return code


def _print_json(value: object) -> None:
    print(json.dumps(value))


# --------------------------------------------------------------------------------------------- look


@app.command("list")
def list_(
    kind: Annotated[Kinds | None, typer.Argument(help="What to list.")] = None,
    as_json: Json = False,
) -> None:
    """List plugins and tracks, from metadata alone: nothing is imported."""
    from gsnobench.cli.console import print_table
    from gsnobench.plugins import listed
    from gsnobench.registry import read_registry

    plugins = [one for one in listed() if kind in (None, f"{one.kind}s")]
    tracks = list(read_registry().tracks.values()) if kind in (None, "tracks") else []
    if as_json:
        _print_json(
            {"plugins": [vars(one) for one in plugins], "tracks": [vars(one) for one in tracks]}
        )
        return
    if plugins:
        rows = [[one.name, one.kind, one.origin, one.problem or "ok"] for one in plugins]
        print_table("Plugins", ["name", "kind", "package", "state"], rows)
    if tracks:
        print_table("Tracks", ["name", "budget"], [[one.name, one.help] for one in tracks])


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(help="A model, a dataset, a NetCDF file, or a run (key prefix or folder)."),
    ],
    card: Annotated[
        bool, typer.Option("--card", help="A model's whole card, as Markdown.")
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="Folder of result files for the card's last table.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show a plugin with its knobs, a data file, or a finished run."""
    from gsnobench.cli.show import describe

    if card:
        from gsnobench.cli.card import card as make_card

        print(make_card(name, results), end="")
        return

    described = describe(name, home)
    if as_json:
        _print_json(described.to_dict())
    else:
        described.print()


@app.command(context_settings=KNOBS, add_help_option=False)
def run(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Model plugin, see `list models`.")] = "",
    dataset: Annotated[
        str, typer.Option(help="Task (swe, swe@10-41, darcy_threshold) or a NetCDF file.")
    ] = "",
    track: Track = "laptop",
    preset: Annotated[
        str | None,
        typer.Option(help="Configuration of the model; NAME+features adds computed inputs."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Training seed.")] = 0,
    t_in: Annotated[int | None, typer.Option(help="Frames given.")] = None,
    t_out: Annotated[int | None, typer.Option(help="Frames to find (else the rest).")] = None,
    samples: Annotated[
        int | None, typer.Option(help="Training samples (else as the track says).")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")] = "auto",
    jobs: Jobs = 0,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with an interrupted run; refuse if there is none."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Repeat a finished run.")] = False,
    floors: Annotated[
        bool, typer.Option("--floors/--no-floors", help="Also run the floor models of the task.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen: time, disk, memory.")
    ] = False,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Also write bundle.zip: weights and test predictions.")
    ] = False,
    gif: Annotated[
        bool, typer.Option("--gif", help="Also animate the median test sample.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
    wants_help: Annotated[
        bool, typer.Option("--help", help="This text; with --model, also its knobs.")
    ] = False,
) -> None:
    """Train a model on a task and score it: data, training, errors beside the floors, a picture, a
    tracked run.

    Knobs are options too: --model.k_s 16 --train.lr 0.002 --train.epochs 100 --data.seed 1
    --data.resolution 1830.
    """
    if wants_help:
        print(context.get_help())
        if model:
            from gsnobench.cli.verbs import run_help

            run_help(model, dataset)
        return
    from gsnobench.cli.verbs import RunOptions, run_model

    if not model or not dataset:
        raise ParamError(
            "run: needs --model and --dataset; for example: gsnobench run --model gsno --dataset "
            "swe"
        )
    knobs, own = knobs_of(context.args)
    wanted = {
        "track": track,
        "preset": preset,
        "seed": seed,
        "t_in": t_in,
        "t_out": t_out,
        "samples": samples,
        "knobs": knobs,
        **own,
    }
    options = RunOptions(device, jobs, resume, force, floors, dry_run, bundle, gif)
    raise typer.Exit(run_model(model, dataset, wanted, options, home=home, as_json=as_json))


@app.command()
def predict(
    run: Annotated[str, typer.Argument(help="Run: key prefix or folder.")],
    inputs: Annotated[
        Path | None, typer.Option(help="NetCDF file with the inputs (its test split is used).")
    ] = None,
    mesh: Annotated[
        int | None,
        typer.Option(help="Instead: the run's own test samples on its dataset's mesh of N nodes."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the predictions here, as NetCDF.")] = None,
    split: Annotated[str, typer.Option(help="Split of the inputs.")] = "test",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda.")] = "auto",
    jobs: Jobs = 0,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Predict with a finished run on new inputs or on another mesh, and score where the truth is
    known.
    """
    from gsnobench.cli.verbs import predict_run

    raise typer.Exit(
        predict_run(
            run,
            inputs=inputs,
            mesh=mesh,
            out=out,
            split=split,
            device=device,
            jobs=jobs,
            home=home,
            as_json=as_json,
        )
    )


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="A plugin of any kind.")],
    as_json: Json = False,
) -> None:
    """Hold a plugin against the contract: a code, pass or fail, and why; exit 1 if a rule is
    broken.
    """
    from gsnobench.cli.verbs import check_plugin

    raise typer.Exit(check_plugin(name, as_json=as_json))


@app.command()
def doctor(
    gpu: Annotated[
        bool, typer.Option("--gpu", help="CPU/GPU parity, AMP, compile, throughput, peak memory.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Send what the tracking server missed.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove left-over temporary files; never results.")
    ] = False,
    device: Annotated[str, typer.Option(help="Device for --gpu.")] = "cuda",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Look at the installation, the home folder and the tracking store."""
    from gsnobench.cli.verbs import examine

    raise typer.Exit(
        examine(gpu=gpu, replay=replay, clean=clean, device=device, home=home, as_json=as_json)
    )


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.")] = 5000,
    opens_browser: Annotated[
        bool, typer.Option("--open", help="Also open the first leaderboard in a browser.")
    ] = False,
    home: Home = None,
) -> None:
    """Serve the MLflow UI: leaderboards of all results at hand, and this machine's runs."""
    from gsnobench.cli.verbs import serve_ui

    raise typer.Exit(serve_ui(port, opens_browser=opens_browser, home=home))


# --------------------------------------------------------------------------------------------- data


@data_app.command("generate", context_settings=KNOBS)
def data_generate(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="Task, e.g. darcy_threshold.")],
    track: Track = "laptop",
    samples: Annotated[int | None, typer.Option(help="Training samples.")] = None,
    jobs: Jobs = 0,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Generate a task's data with its solver, in parallel; cut and repeated, it goes on where it
    stopped.
    """
    from gsnobench.cli.verbs import generate_data

    knobs, own = knobs_of(context.args)
    wanted = {"track": track, "samples": samples, "knobs": knobs, **own}
    raise typer.Exit(generate_data(task, wanted, jobs=jobs, home=home, as_json=as_json))


@data_app.command("verify")
def data_verify(
    file: Annotated[Path, typer.Argument(help="NetCDF file.")], as_json: Json = False
) -> None:
    """Recompute the checksum of a data file."""
    from gsnobench.cli.verbs import verify_data

    raise typer.Exit(verify_data(file, as_json=as_json))


@data_app.command("import")
def data_import(
    source: Annotated[Path, typer.Argument(help="An .npz file, see docs/data-format.md.")],
    out: Annotated[Path, typer.Argument(help="The NetCDF file to write.")],
    task: Annotated[
        Path, typer.Option(help="JSON file that describes the task, see docs/data-format.md.")
    ],
    as_json: Json = False,
) -> None:
    """Turn plain arrays into a data file that `run --dataset FILE.nc` takes."""
    from gsnobench.cli.verbs import import_data

    raise typer.Exit(import_data(source, out, task, as_json=as_json))


# ------------------------------------------------------------------------------------------ plugins


@plugin_app.command("new")
def plugin_new(
    name: Annotated[str, typer.Argument(help="Lower-case letters and digits.")],
    kind: Annotated[
        Literal["model", "dataset", "metric"], typer.Option(help="What it offers.")
    ] = "model",
    folder: Annotated[Path, typer.Option(help="Where the package folder is made.")] = Path("."),
) -> None:
    """Write a package that installs and passes `gsnobench check NAME`."""
    from gsnobench.cli.scaffold import create

    path = create(name, kind, folder)
    print(f"{path}\nnext: pip install -e {path} && gsnobench check {name}")


if __name__ == "__main__":
    main()
