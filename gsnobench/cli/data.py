"""`gsnobench data`: generate, draw, verify, download, import and export data files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gsnobench.api.progress import progress
from gsnobench.cli.console import WholeSentences, print_facts, print_result
from gsnobench.cli.options import (
    KNOBS,
    HomeOption,
    JobsOption,
    JsonOption,
    SamplesOption,
    TrackOption,
    check_names,
    knobs_of,
    pairs_of,
)
from gsnobench.cli.table import print_table
from gsnobench.errors import ParamError
from gsnobench.home import open_home, open_tidy_home
from gsnobench.params import numbers_of, words_of

if TYPE_CHECKING:
    from gsnobench.drawing.tasks import Shown

app = typer.Typer()
data_app = typer.Typer(
    cls=WholeSentences,
    help="Generate, draw, verify, download, import and export data.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")


@data_app.command("generate", context_settings=KNOBS)
def generate_data(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="Task, e.g. darcy_threshold.")],
    track: TrackOption = "laptop",
    samples: SamplesOption = None,
    jobs: JobsOption = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Generate a task's data with its solver, in parallel.

    An interrupted command goes on where it stopped. Data knobs are options too: --data.seed 1.
    """
    knobs = knobs_of(context.args)
    check_names(datasets=[task])
    from gsnobench.datasets.ensure import ensure
    from gsnobench.datasets.store import open_file
    from gsnobench.datasets.tasks import named_task

    dataset, resolved = named_task(task, track=track, samples=samples, **knobs)
    root = open_tidy_home(home).root
    with progress(quiet=as_json) as report:
        report.stage(f"data of {resolved.id}")
        path = ensure(dataset, resolved, home=root, jobs=jobs, progress=report.data)
    with open_file(path, resolved) as opened:
        content_hash = opened.content_hash
    facts = {"task": resolved.id, "file": str(path), "samples": dict(resolved.sizes)}
    facts["content_hash"] = content_hash
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


@data_app.command("picture", context_settings=KNOBS)
def picture_of_data(
    context: typer.Context,
    tasks: Annotated[
        str, typer.Argument(help="Task, TASK:NODES or FILE.nc; TASK,TASK makes tiles.")
    ],
    out: Annotated[Path, typer.Option(help="PNG to write, or GIF of all frames.")],
    tile: Annotated[
        bool, typer.Option("--tile", help="The field to predict alone, without a word.")
    ] = False,
    track: TrackOption = "laptop",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Draw a task: geometry, inputs and outputs of its first test sample, a strip of frames.

    Only this sample is made. A GIF moves through all frames; several tasks become one tile each.
    Data knobs are options too: --data.seed 1; nodes may differ per tile, TASK:NODES.
    """
    named = [task.strip() for task in tasks.split(",") if task.strip()]
    knobs = knobs_of(context.args)
    if not named:
        raise ParamError(
            f"picture: {tasks!r} names no task; expected an id of `gsnobench list datasets`"
        )
    tasks_alone = [task.partition(":")[0] for task in named if not task.endswith(".nc")]
    check_names(datasets=tasks_alone)
    kind = out.suffix.lower()
    if kind not in (".png", ".gif"):
        raise ParamError(
            f"out: {str(out)!r} is neither a picture nor moving; expected .png or .gif"
        )
    if kind == ".gif" and len(named) > 1:
        raise ParamError(f"out: one task moves in a GIF, {len(named)} are given; name one of them")
    if tile and (kind == ".gif" or len(named) > 1):
        raise ParamError("tile: is the picture of one task; expected one task and a .png")
    from gsnobench.drawing.tasks import draw_moving, draw_task, draw_tile, draw_tiles

    with progress(quiet=as_json) as report:
        report.stage("one sample of " + (named[0] if len(named) == 1 else f"{len(named)} tasks"))
        shown = [_first_test_sample(task, track, knobs, open_home(home).cache) for task in named]
        if len(shown) > 1:
            draw_tiles(out, shown)
        elif kind == ".gif":
            draw_moving(out, shown[0])
        else:
            (draw_tile if tile else draw_task)(out, shown[0])
    facts = {"picture": str(out), "bytes": out.stat().st_size}
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


def _first_test_sample(text: str, track: str, knobs: Mapping[str, Any], cache: Path) -> Shown:
    from gsnobench.datasets.generate import single_sample
    from gsnobench.datasets.store import open_file
    from gsnobench.datasets.tasks import named_task
    from gsnobench.drawing.tasks import Shown
    from gsnobench.files import Cache

    if text.endswith(".nc"):
        with open_file(Path(text)) as opened:
            title = str(opened.attributes.get("title", opened.task.id))
            samples, unit = opened.split("test").take([0]), opened.time_unit
        return Shown.of(samples, 0, title=title, time_unit=unit)
    name, mark, nodes = text.partition(":")
    options = {**knobs, "resolution": nodes} if mark else knobs
    dataset, task = named_task(name, track=track, **options)
    samples = single_sample(dataset, task, "test", 0, Cache(cache))
    return Shown.of(samples, 0, title=dataset.title or task.id, time_unit=dataset.time_unit)


@data_app.command("verify", context_settings=KNOBS)
def verify_data(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="FILE.nc, task or imported task.")],
    track: TrackOption = "laptop",
    jobs: JobsOption = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check a data file: hashes, splits, finite values, units, and what its physics must keep.

    Exits with 3 if a check fails. Invariants are measured on a few samples of each split.
    """
    from gsnobench.datasets.verification import verify_file
    from gsnobench.plugins import load_invariants

    path = _file_of(name, context.args, track=track, jobs=jobs, home=home, as_json=as_json)
    verdicts = verify_file(path, load_invariants())
    passed = all(verdict.passed for verdict in verdicts)
    rows = [[v.check, "pass" if v.passed else "FAIL", v.detail] for v in verdicts]
    facts = {"file": str(path), "passed": passed, "checks": [vars(v) for v in verdicts]}
    print_result(
        facts, lambda: print_table(str(path), ["check", "", "what was seen"], rows), as_json=as_json
    )
    return 0 if passed else 3


@data_app.command("download")
def download_data(
    name: Annotated[str, typer.Argument(help="A public task, see `gsnobench list importers`.")],
    to: Annotated[
        Path | None, typer.Option(help="Folder (default: downloads/TASK in the home).")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Download public data from their authors, or say where to click if no program may.

    An interrupted download goes on where it stopped. Nothing is imported yet.
    """
    from gsnobench.datasets.download import digest_of, download
    from gsnobench.errors import did_you_mean
    from gsnobench.registry import read_registry

    known = read_registry().public
    if name not in known:
        raise ParamError(f"{name}: has no known address; {did_you_mean(name, known)}")
    public = known[name]
    folder = to or open_home(home).root / "downloads" / name
    facts: dict[str, Any] = {"task": name, "licence": public.licence, "size": public.size}
    if not public.tried:
        facts["address"] = "given by the authors; nobody has tried it for gsnobench yet"
    if public.files:
        with progress(quiet=as_json) as report:
            paths = download(public, folder, tell=report.stage)
        facts["files"] = {path.name: digest_of(path) for path in paths}
    else:
        facts["open in a browser"] = public.page
    facts["folder"] = str(folder)
    if public.then:
        facts["then"] = public.then
    facts["at last"] = f"gsnobench data import {name} --from {folder}"
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


@data_app.command("import", context_settings=KNOBS)
def import_data(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="A public task (see `gsnobench list`), or FILE.nc to write.")
    ],
    source: Annotated[
        Path,
        typer.Option(
            "--from",
            help="The authors' folder; for FILE.nc an .npz, .npy files or an exported folder.",
        ),
    ],
    task: Annotated[
        Path | None,
        typer.Option(help="For FILE.nc: the task as JSON (default: task.json beside the data)."),
    ] = None,
    by_time: Annotated[
        bool,
        typer.Option("--split-by-time", help="For FILE.nc: cut long trajectories into windows."),
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read public data from their authors' files, or plain arrays into a file of your own.

    A public task is then the name of a dataset: run --dataset NAME. Its knobs are options too:
    --data.frames 21.
    """
    knobs = pairs_of(context.args)
    facts = (
        _import_arrays(Path(name), source, task, knobs, by_time)
        if name.endswith(".nc")
        else _import_public(name, source, knobs, home)
    )
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


def _import_public(
    name: str, folder: Path, knobs: Mapping[str, str], home: Path | None
) -> dict[str, Any]:
    from gsnobench.datasets.imported import import_public
    from gsnobench.plugins import load

    importer = load("importer", name)
    for knob in knobs:
        if not knob.startswith("data."):
            raise ParamError(f"--{knob}: data have only --data.NAME knobs")
    values = {knob.removeprefix("data."): value for knob, value in knobs.items()}
    path, facts = import_public(importer, folder, home=open_home(home).root, knobs=values)
    return {"file": str(path), **facts}


def _import_arrays(
    out: Path, source: Path, task: Path | None, knobs: Mapping[str, str], by_time: bool
) -> dict[str, Any]:
    from gsnobench.datasets.interchange.exporting import read_foreign
    from gsnobench.datasets.store import write

    for knob in knobs:
        raise ParamError(f"--{knob}: arrays have no knobs; drop the option")
    foreign = read_foreign(source, task, by_time=by_time)
    write(
        out,
        foreign.samples,
        provenance=foreign.provenance,
        time_unit=foreign.time_unit,
        length_unit=foreign.length_unit,
    )
    sizes = {split: len(part) for split, part in foreign.samples.items()}
    return {"file": str(out), "samples": sizes}


@data_app.command("export", context_settings=KNOBS)
def export_data(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Task, imported task or FILE.nc.")],
    out: Annotated[Path, typer.Option(help="New folder to write to.")],
    format_: Annotated[
        Literal["vtu", "xdmf", "npz", "npy"],
        typer.Option(
            "--format", help="vtu and xdmf: ParaView; npz: one archive; npy: a file each."
        ),
    ] = "vtu",
    split: Annotated[str, typer.Option(help="Splits, separated by commas (default: all).")] = "",
    samples: Annotated[
        str | None, typer.Option(help="Sample numbers in each split, such as 0,5 (default: all).")
    ] = None,
    track: TrackOption = "laptop",
    jobs: JobsOption = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write the data of a task for ParaView or other programs; `data import` reads them again.

    Missing data of a task are generated first. Data knobs are options: --data.seed 1.
    """
    from gsnobench.data import SPLITS, split_named

    splits = [split_named(word) for word in words_of(split)] or SPLITS
    chosen = None if samples is None else numbers_of(samples, "samples")
    from gsnobench.datasets.interchange.exporting import export

    path = _file_of(name, context.args, track=track, jobs=jobs, home=home, as_json=as_json)
    facts = export(path, out, format_, splits=splits, samples=chosen)
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


def _file_of(
    name: str,
    words: list[str],
    *,
    track: str,
    jobs: int,
    home: Path | None,
    as_json: bool,
) -> Path:
    """The file of a task, which is made if it is missing, of an imported task, or the file."""
    from gsnobench.datasets.ensure import ensure
    from gsnobench.datasets.imported import stored_file
    from gsnobench.datasets.tasks import named_task

    opened = open_home(home)
    stored = stored_file(name, opened)
    if stored is not None:
        if words:
            raise ParamError(f"{words[0]}: a file has no knobs; drop the option")
        return stored
    check_names(datasets=[name])
    dataset, task = named_task(name, track=track, **knobs_of(words))
    with progress(quiet=as_json) as report:
        report.stage(f"data of {task.id}")
        return ensure(dataset, task, home=opened.root, jobs=jobs, progress=report.data)
