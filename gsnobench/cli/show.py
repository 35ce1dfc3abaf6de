"""`gsnobench show`: a plugin with its knobs, a data file, or a finished run, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsnobench.cli.console import print_table
from gsnobench.declare import Dataset, Model
from gsnobench.errors import DataError, PluginError, RunError
from gsnobench.home import RunFolder, open_home
from gsnobench.params import Params
from gsnobench.plugins import kind_of, load, provenance
from gsnobench.records import RunResult

KNOB_HEADER = ("knob", "default", "values", "what it does")


@dataclass(frozen=True)
class Described:
    """Facts as name and value, then tables."""

    name: str
    facts: dict[str, Any]
    tables: dict[str, tuple[Sequence[str], list[list[str]]]] = field(default_factory=dict)

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


def describe(name: str, home: Path | None) -> Described:
    """Whatever the name stands for: a file, a plugin, or a run."""
    if name.endswith(".nc"):
        return _file(Path(name))
    try:
        kind = kind_of(name)
    except PluginError as unknown:
        try:
            folder = open_home(home).find_run(name)
        except RunError:
            raise unknown from None
        return _run(folder)
    if kind == "model":
        return _model(load("model", name))
    if kind == "dataset":
        return _dataset(load("dataset", name))
    return Described(name, {"kind": kind, **provenance(kind, name)})


def knob_rows(params: type[Params], prefix: str) -> list[list[str]]:
    """One row a knob, as the command line spells it."""
    return [
        [f"--{prefix}.{knob.name}", str(knob.default), knob.range, knob.help]
        for knob in params.knobs()
    ]


def _model(model: Model) -> Described:
    facts = {
        "kind": "model",
        "title": model.title,
        **provenance("model", model.name),
        "revision": model.revision,
        "presets": ", ".join(model.presets)
        + ("" if model.is_floor else "; each also as NAME+features"),
        "can do": ", ".join(sorted(one.value for one in model.capabilities)),
        "cite": model.cites,
        **{f"differs {number}": text for number, text in enumerate(model.differs, 1)},
    }
    return Described(model.name, facts, {"Knobs": (KNOB_HEADER, knob_rows(model.params, "model"))})


def _dataset(dataset: Dataset) -> Described:
    facts = {
        "kind": "dataset",
        "title": dataset.title,
        **provenance("dataset", dataset.name),
        "revision": dataset.revision,
        "tasks": ", ".join(
            [dataset.name, *(f"{dataset.name}_{variant}" for variant in dataset.variants)]
        ),
        "fields": ", ".join(f"{one.name} [{one.unit}]" for one in dataset.fields),
        "inputs": ", ".join(
            f"{one.name} [{one.unit}]" for one in (*dataset.static, *dataset.scalars)
        )
        or "the window",
        "frames": len(dataset.times),
        "meshes": ", ".join(str(size) for size in dataset.resolutions) or "any size",
        "solver": dataset.solver,
        "licence": dataset.licence,
        "cite": dataset.cites,
    }
    rows = [
        [
            track,
            *(
                str(getattr(sizes, name))
                for name in ("train", "valid", "test", "test_ood", "resolution")
            ),
        ]
        for track, sizes in dataset.sizes.items()
    ]
    sizes = (("track", "train", "valid", "test", "test_ood", "nodes"), rows)
    return Described(
        dataset.name,
        facts,
        {"Sizes": sizes, "Knobs": (KNOB_HEADER, knob_rows(dataset.params, "data"))},
    )


def _file(path: Path) -> Described:
    from gsnobench.datasets.store import open_file, problems

    if not path.exists():
        raise DataError(f"{path}: no such file; expected a NetCDF file")
    missing = problems(path)
    if missing:
        rows = [[text] for text in missing]
        return Described(
            str(path), {"kind": "file", "usable": "no"}, {"What is missing": (("problem",), rows)}
        )
    with open_file(path) as opened:
        task = opened.task
        facts = {
            "kind": "file",
            "usable": "yes",
            "task": task.id,
            "fields": ", ".join(f"{one.name} [{one.unit}]" for one in task.fields),
            "frames": f"{task.t_in} given, {task.t_out} to find",
            "sizes": ", ".join(f"{split} {count}" for split, count in task.sizes.items()),
            "content hash": opened.content_hash,
        }
    return Described(str(path), facts)


def _run(folder: RunFolder) -> Described:
    if not folder.result.exists():
        return Described(
            folder.name, {"kind": "run", "status": "interrupted; repeat its command to go on"}
        )
    result = RunResult.load(folder.result)
    facts = {
        "kind": "run",
        "status": " ".join([result.status, result.reason]).strip(),
        "task": result.spec.task,
        "row": result.spec.row,
        "track": result.spec.track,
        "seed": result.spec.seed,
        "folder": str(folder.path),
    }
    rows = [
        [split, name, metric, f"{value:.4g}"]
        for split, fields in result.scores.items()
        for name, table in fields.items()
        for metric, value in table.items()
    ]
    return Described(folder.name, facts, {"Scores": (("split", "field", "metric", "value"), rows)})
