"""A run as one file that others can verify: result, spec, task, weights, predictions, checksums."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gsnobench import __version__
from gsnobench.data import Array, Samples
from gsnobench.errors import DataError, RunError
from gsnobench.files import atomic
from gsnobench.home import Home, RunFolder
from gsnobench.reading import read_json
from gsnobench.records import RunResult
from gsnobench.runs.predictions import read_predictions, write_predictions
from gsnobench.runs.stages import Run
from gsnobench.runs.trained import load

FORMAT = 1
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date a ZIP file can state: equal content, equal bytes
_INSIDE = RunFolder(Path())  # a bundle has the file names of a run folder
ALWAYS = (_INSIDE.result, _INSIDE.spec, _INSIDE.task, _INSIDE.predictions, _INSIDE.manifest)
NEEDED = tuple(path.name for path in ALWAYS)
MEMBERS = (*NEEDED, _INSIDE.weights.name, _INSIDE.summary.name)


def write_bundle(run: Run) -> Path:
    """Predict the test split with the stored weights of a finished run, and pack everything."""
    folder, machine = run.folder, run.machine
    result = RunResult.load(folder.result)
    if result.status != "done":
        raise RunError(
            f"bundle: run {folder.name} ended {result.status} ({result.reason}); only a finished "
            "run has predictions"
        )
    machine.report.stage("predicting for the bundle")
    trained = load(folder.path, home=machine.home.root, device=str(machine.device))
    stored = (folder.result, folder.spec, folder.task, folder.weights, folder.summary)
    members = {path.name: path for path in stored if path.exists()}
    with run.open_data() as data, tempfile.TemporaryDirectory(prefix="gsnobench-") as name:
        predictions = RunFolder(Path(name)).predictions
        samples = data.read("test")
        write_predictions(predictions, samples, trained.predict(samples), run.plan)
        pack(folder.bundle, {**members, predictions.name: predictions})
    return folder.bundle


def pack(path: Path, members: Mapping[str, Path]) -> None:
    """Write files and their checksums to an uncompressed ZIP; equal files give equal bytes."""
    manifest = {
        "bundle": FORMAT,
        "gsnobench": __version__,
        "sha256": {name: _sha256(members[name]) for name in sorted(members)},
    }
    with atomic(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(_INSIDE.manifest.name), json.dumps(manifest, indent=1) + "\n")
        for name in sorted(members):
            entry = _entry(name)
            entry.file_size = members[name].stat().st_size  # tells zipfile whether it needs 64 bits
            with archive.open(entry, "w") as target, members[name].open("rb") as source:
                shutil.copyfileobj(source, target, 1 << 20)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = 0o644 << 16
    entry.create_system = 3  # Unix, on every system
    return entry


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(path: Path, folder: Path) -> None:
    """Extract a bundle; it may hold the known names only, uncompressed, so that it is harmless."""
    unreadable = (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            _check_entries(path, entries)
            for entry in entries:
                with archive.open(entry) as source, (folder / entry.filename).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (*unreadable, EOFError) as error:
        raise DataError(
            f"{path}: not a readable bundle ({error}); expected the ZIP file that `run --bundle` "
            "writes"
        ) from error
    missing = ", ".join(name for name in NEEDED if name not in names)
    if missing:
        raise DataError(f"{path}: {missing} missing; expected what `run --bundle` writes")


def _check_entries(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    names = [entry.filename for entry in entries]
    foreign = [name for name in names if name not in MEMBERS or names.count(name) > 1]
    packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    for name in (*foreign, *packed):
        raise DataError(
            f"{path}: holds {name!r} as no bundle does; expected what `run --bundle` writes"
        )


def damaged(folder: RunFolder) -> list[str]:
    """Members of an unpacked bundle that are not what its manifest says."""
    manifest = folder.manifest
    try:
        stated = read_json(manifest, expected="checksums")["sha256"]
        present = {path.name: _sha256(path) for path in folder.path.iterdir() if path != manifest}
        return sorted(name for name in {*stated, *present} if stated.get(name) != present.get(name))
    except (DataError, KeyError, TypeError, AttributeError):
        return [manifest.name]


@contextmanager
def opened_run(text: str, home: Home) -> Iterator[RunFolder]:
    """The folder of a run, or of a bundle that is unpacked for as long as the block lasts."""
    if not text.endswith(".zip"):
        yield home.find_run(text)
        return
    if not Path(text).is_file():
        raise DataError(f"{text}: no such file; expected a bundle that `run --bundle` wrote")
    with tempfile.TemporaryDirectory(prefix="gsnobench-") as name:
        unpack(Path(text), Path(name))
        yield RunFolder(Path(name))


def predictions_of(folder: RunFolder, truth: Samples, *, home: Home, device: str) -> Array:
    """Predicted frames (S, T, N, C): those of an unpacked bundle, else from the run's weights."""
    if folder.predictions.exists():
        changed = damaged(folder)
        if changed:
            raise DataError(
                f"bundle: {', '.join(changed)} changed since it was packed; make it again with "
                "`run --bundle`"
            )
        return read_predictions(folder.predictions, truth)
    return load(folder.path, home=home.root, device=device).predict_trajectories(truth)
