"""Public data from the files of their authors: read by an importer, kept in the home, reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsnobench.datasets.report import report
from gsnobench.datasets.store import NEEDED, write
from gsnobench.declare import Importer
from gsnobench.errors import DataError
from gsnobench.files import lock
from gsnobench.home import Home
from gsnobench.plugins import listed
from gsnobench.reading import guarded
from gsnobench.registry import read_registry, remember_file


def imported_path(name: str, home: Path) -> Path:
    """The file of an imported task, whether it exists or not."""
    return home / "data" / name / "imported.nc"


def stored_file(name: str, home: Home) -> Path | None:
    """The file that a name means by itself or as an imported task; None: a task of a dataset."""
    path = read_registry(home=home).file(name)
    if path is None:
        refuse_unimported(name)
    return path


def refuse_unimported(task: str) -> None:
    """A DataError if this is a public task whose files nobody imported here."""
    name = task.partition("@")[0]
    if name in {entry.name for entry in listed("importer")}:
        raise DataError(
            f"{name}: its files were not imported here; first `gsnobench data import {name} --from "
            "FOLDER`"
        )


def import_public(
    importer: Importer, folder: Path, *, home: Path, knobs: Mapping[str, object]
) -> tuple[Path, dict[str, Any]]:
    """Read the authors' files and write ours, whole or not at all; returns its path and a report.

    A file of an earlier import stays until the new one is complete.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected {importer.layout}")
    params = importer.params.make(knobs, label="data")
    with guarded(folder, expected=importer.layout):
        imported = importer.read(folder, params)
    for split in NEEDED:
        if not len(imported.samples.get(split, ())):
            raise DataError(f"{folder}: holds no sample for {split}; download the files again")
    path = imported_path(importer.name, home)
    made = ", ".join(f"{name}={value}" for name, value in params.to_dict().items())
    provenance = {
        "title": importer.title,
        "source": f"{importer.name} revision {importer.revision}, {importer.url}",
        "references": importer.cites,
        "licence": importer.licence,
        "history": " ".join(["imported by gsnobench from the authors' files", made]).strip(),
        "origin": "imported",
        "data_knobs": json.dumps(params.to_dict(), sort_keys=True),
        "dataset_revision": str(importer.revision),
    }
    with lock(path.with_suffix(".lock")), guarded(folder, expected=importer.layout):
        write(
            path,
            imported.samples,
            provenance=provenance,
            time_unit=imported.time_unit,
            length_unit=imported.length_unit,
        )
    remember_file(importer.name, path, Home(home))
    return path, {**report(path), **imported.notes}
