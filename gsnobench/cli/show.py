"""`gsnobench list` and `gsnobench show`: plugins, tracks, data files and finished runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gsnobench.cli.console import HeaderAndRows, knob_table, print_result
from gsnobench.cli.options import HomeOption, JsonOption
from gsnobench.cli.table import print_table
from gsnobench.errors import DataError, PluginError, RunError
from gsnobench.home import Home, RunFolder, open_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gsnobench.data import Field
    from gsnobench.datasets.store import Opened
    from gsnobench.declare import Dataset, Importer, Model
    from gsnobench.plugins import Listed

app = typer.Typer()

Subject = Literal[
    "datasets",
    "executors",
    "importers",
    "invariants",
    "metrics",
    "models",
    "observers",
    "tracks",
]
TITLES = {  # kind of a plugin -> heading of the list
    "model": "Models (--model)",
    "floor": "Floors: closed forms that every run is compared with",
    "dataset": "Datasets (--dataset)",
    "importer": "Public data (data import)",
    "invariant": "Invariants (data verify)",
    "metric": "Metrics",
    "executor": "Executors (bench --executor)",
    "observer": "Observers",
}
SIZES = ("train", "valid", "test", "test_ood", "resolution")


@app.command("list")
def list_names(
    kind: Annotated[Subject | None, typer.Argument(help="What to list.")] = None,
    as_json: JsonOption = False,
) -> int:
    """List models, datasets, tracks and other plugins, without importing any."""
    from gsnobench.plugins import listed
    from gsnobench.registry import read_registry

    plugins = [entry for entry in listed() if kind in (None, f"{entry.kind}s")]
    tracks = list(read_registry().tracks.values()) if kind in (None, "tracks") else []
    presets = read_registry().preset_help if kind in (None, "models") else {}

    def show_tables() -> None:
        for title, entries in _by_title(plugins).items():
            rows = [[entry.name, _package(entry), _about(entry)] for entry in entries]
            print_table(title, *_without_packages(rows))
            print()
        if presets:
            rows = [list(entry) for entry in presets.items()]
            print_table("Presets (--preset), each of some models", ["name", "settings"], rows)
            print()
        if tracks:
            rows = [[track.name, track.help] for track in tracks]
            print_table("Tracks (--track)", ["name", "budget"], rows)
            print()
        print("presets, knobs and tasks of one: gsnobench show NAME")

    document = {
        "plugins": [
            {**vars(entry), "problem": entry.problem or entry.fault, "summary": entry.summary}
            for entry in plugins
        ],
        "presets": presets,
        "tracks": [vars(track) for track in tracks],
    }
    print_result(document, show_tables, as_json=as_json)
    return 0


def _by_title(plugins: Sequence[Listed]) -> dict[str, list[Listed]]:
    """Plugins under the headings of the list, in their order."""
    from gsnobench.registry import read_registry

    floors = read_registry().floors
    groups: dict[str, list[Listed]] = {title: [] for title in TITLES.values()}
    for entry in plugins:
        is_floor = entry.kind == "model" and entry.name in floors
        groups[TITLES["floor" if is_floor else entry.kind]].append(entry)
    return {title: entries for title, entries in groups.items() if entries}


def _about(entry: Listed) -> str:
    """What a plugin is, and for a dataset its tasks on the boards; or why it cannot be used."""
    from gsnobench.registry import read_registry

    if (problem := entry.problem or entry.fault) is not None:
        return f"cannot be used: {problem}"
    tasks = [
        task
        for task in read_registry().board_tasks
        if entry.kind == "dataset" and task.startswith(entry.name)
    ]
    named = f" Board: {', '.join(tasks)}." if tasks else ""
    what = entry.summary.removeprefix(f"Floor `{entry.name}`: ")  # the heading says floor
    return f"{what[:1].upper()}{what[1:]}{named}"


def _package(entry: Listed) -> str:
    """The package of a plugin that is not bundled."""
    return "" if entry.package == "gsnobench" else entry.origin


def _without_packages(rows: list[list[str]]) -> HeaderAndRows:
    """Header and rows, without the packages where all are bundled."""
    if any(package for _, package, _ in rows):
        return ("name", "package", "what it is"), rows
    return ("name", "what it is"), [[name, about] for name, _, about in rows]


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="A model, a dataset, a public set, a NetCDF file, or a run (its key or folder)."
        ),
    ],
    card: Annotated[
        bool, typer.Option("--card", help="The card of a model or a dataset, as Markdown.")
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="Folder of result files for the card's last table.")
    ] = None,
    tuning: Annotated[
        Path | None, typer.Option(help="Folder of searches (`sweep --json`) for the card.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="With --card of a dataset: the page to write it into, between marks."),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show a plugin with its knobs, a data file, or a finished run."""
    if card:
        from gsnobench.cli.card import card as card_of
        from gsnobench.cli.card import write_into

        written = card_of(name, results, tuning)
        if into is None:
            print(written, end="")
        else:
            write_into(into, name, written)
        return 0
    description = describe(name, home)
    print_result(description.to_dict(), description.print, as_json=as_json)
    return 0


@dataclass(frozen=True)
class Description:
    """Facts as name and value, then tables."""

    name: str
    facts: dict[str, Any]
    tables: dict[str, HeaderAndRows] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        tables = {
            title: [dict(zip(header, row, strict=True)) for row in rows]
            for title, (header, rows) in self.tables.items()
        }
        return {"name": self.name, **self.facts, **tables}

    def print(self) -> None:
        """Facts as lines, tables below."""
        print(self.name)
        for name, value in self.facts.items():
            print(f"  {name}: {value}")
        for title, (header, rows) in self.tables.items():
            print()
            print_table(title, header, rows)


def describe(name: str, home: Path | None) -> Description:
    """The plugin, data file or run of this name."""
    from gsnobench.plugins import kind_of, load, provenance

    if name.endswith(".nc"):
        return _describe_file(Path(name))
    try:
        kind = kind_of(name)
    except PluginError as unknown:
        try:
            folder = open_home(home).find_run(name)
        except RunError:
            raise unknown from None
        return _describe_run(folder)
    if kind == "model":
        return _describe_model(load("model", name))
    if kind == "dataset":
        return _describe_dataset(load("dataset", name))
    if kind == "importer":
        return _describe_importer(load("importer", name), open_home(home))
    return Description(name, {"kind": kind, **provenance(kind, name)})


def _describe_model(model: Model) -> Description:
    from gsnobench.plugins import provenance

    presets = ", ".join(model.presets)
    facts = {
        "kind": "model",
        "title": model.title,
        **provenance("model", model.name),
        "revision": model.revision,
        "presets": presets if model.is_floor else f"{presets}; each also as NAME+features",
        "can do": ", ".join(sorted(capability.value for capability in model.capabilities)),
        "cite": model.cites,
        **{f"differs {number}": text for number, text in enumerate(model.differs, 1)},
    }
    name = model.default_preset()
    settings = model.presets[name].model
    knobs = knob_table(model.params, "model", preset=name, settings=settings)
    families = [
        [family, preset, ", ".join(f"{knob} {value}" for knob, value in own.items())]
        for family, presets in model.settings.items()
        for preset, own in presets.items()
    ]
    own = {"Own settings of a family or a task": (("where", "preset", "settings"), families)}
    return Description(model.name, facts, {"Knobs": knobs, **(own if families else {})})


def _describe_dataset(dataset: Dataset) -> Description:
    from gsnobench.plugins import provenance

    name = dataset.name
    facts = {
        "kind": "dataset",
        "title": dataset.title,
        **provenance("dataset", name),
        "revision": dataset.revision,
        "tasks": ", ".join([name, *(f"{name}_{variant}" for variant in dataset.variants)]),
        "fields": _names(dataset.fields),
        "inputs": _names((*dataset.static, *dataset.scalars))
        or ("the given frames" if dataset.t_in else "the mesh"),
        "frames": len(dataset.times),
        "meshes": ", ".join(str(size) for size in dataset.resolutions) or "any size",
        "solver": dataset.solver,
        "licence": dataset.licence,
        "cite": dataset.cites,
    }
    rows = [
        [track, *(str(getattr(sizes, entry)) for entry in SIZES)]
        for track, sizes in dataset.sizes.items()
    ]
    sizes = (("track", *SIZES[:-1], "nodes"), rows)
    knobs = knob_table(dataset.params, "data")
    return Description(name, facts, {"Sizes": sizes, "Knobs": knobs})


def _describe_importer(importer: Importer, home: Home) -> Description:
    from gsnobench.plugins import provenance
    from gsnobench.registry import read_registry

    name, registry = importer.name, read_registry(home=home)
    public, imported = registry.public.get(name), registry.file(name)
    size = {} if public is None else {"size": public.size}
    facts = {
        "kind": "importer",
        "title": importer.title,
        **provenance("importer", name),
        "revision": importer.revision,
        "files": importer.layout,
        "address": importer.url,
        **size,
        "licence": importer.licence,
        "cite": importer.cites,
        "imported": "not yet" if imported is None else str(imported),
    }
    return Description(name, facts, {"Knobs": knob_table(importer.params, "data")})


def _describe_file(path: Path) -> Description:
    from gsnobench.datasets.store import open_file, problems

    if not path.exists():
        raise DataError(f"{path}: no such file; expected a NetCDF file")
    missing = problems(path)
    if missing:
        rows = [[text] for text in missing]
        facts = {"kind": "file", "usable": "no"}
        return Description(str(path), facts, {"What is missing": (("problem",), rows)})
    with open_file(path) as opened:
        task = opened.task
        facts = {
            "kind": "file",
            "usable": "yes",
            "task": task.id,
            "fields": _names(task.fields),
            "inputs": _names((*task.static, *task.scalars)) or "the mesh and the given frames",
            "frames": f"{task.t_in} given, {task.t_out} to find",
            **_mesh_facts(opened),
            "sizes": ", ".join(f"{split} {count}" for split, count in task.sizes.items()),
            "content hash": opened.content_hash,
        }
    return Description(str(path), facts)


def _mesh_facts(opened: Opened) -> dict[str, str]:
    """Dimension, nodes, cells and tags of the meshes of a file."""
    from gsnobench.data import split_named

    parts = [opened.split(split_named(name)) for name in opened.task.sizes]
    meshes = [mesh for samples in parts for mesh in samples.meshes]
    cells = [0 if mesh.cells is None else len(mesh.cells) for mesh in meshes]
    width = next((mesh.cells.shape[1] for mesh in meshes if mesh.cells is not None), 0)
    return {
        "dimension": str(opened.task.dim),
        "meshes": "one for all samples" if opened.task.fixed_mesh else "one per sample",
        "nodes": _span([mesh.size for mesh in meshes]),
        "cells": f"{_span(cells)} of {width} nodes" if width else "none: a point cloud",
        "tags": ", ".join(opened.task.tags) or "none",
    }


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _names(fields: Iterable[Field]) -> str:
    return ", ".join(f"{entry.name} [{entry.unit}]" for entry in fields)


def _describe_run(folder: RunFolder) -> Description:
    from gsnobench.records import RunResult

    if not folder.result.exists():
        status = "interrupted; repeat its command to go on"
        return Description(folder.name, {"kind": "run", "status": status})
    result = RunResult.load(folder.result)
    spec = result.spec
    facts: dict[str, Any] = {
        "kind": "run",
        "status": " ".join([result.status, result.reason]).strip(),
        "task": spec.task,
        "row": spec.row,
        "track": spec.track,
        "seed": spec.seed,
        "folder": str(folder.path),
    }
    rows = [
        [split, name, metric, f"{value:.4g}"]
        for split, fields in result.scores.items()
        for name, table in fields.items()
        for metric, value in table.items()
    ]
    scores = (("split", "field", "metric", "value"), rows)
    return Description(folder.name, facts, {"Scores": scores})
