"""A run as one file that others can check: result, spec, task, weights and test predictions, each
with its checksum.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gsnobench import __version__
from gsnobench.data import Array, Samples
from gsnobench.datasets.store import open_file
from gsnobench.errors import DataError, RunError
from gsnobench.files import atomic
from gsnobench.home import Home
from gsnobench.records import RunResult
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan
from gsnobench.runs.predictions import in_memory, read_predictions, write_predictions
from gsnobench.runs.stages import data_path
from gsnobench.runs.trained import load

BUNDLE = "bundle.zip"
FORMAT = 1
MANIFEST, PREDICTIONS = "manifest.json", "predictions.nc"
FROM_RUN = ("result.json", "spec.json", "task.json", "weights.safetensors", "reference.safetensors")
NEEDED = ("result.json", "spec.json", "task.json", PREDICTIONS, MANIFEST)
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date a ZIP file can state: equal content, equal bytes


def write_bundle(folder: Path, plan: Plan, machine: Machine) -> Path:
    """Predict the test split with the stored weights of a finished run, and put everything into its
    bundle.
    """
    result = RunResult.load(folder / "result.json")
    if result.status != "done":
        raise RunError(
            f"bundle: run {folder.name} ended {result.status} ({result.reason}); only a finished "
            "run has predictions"
        )
    machine.report.stage("predicting for the bundle")
    trained = load(folder, home=machine.home.root, device=str(machine.device))
    with (
        open_file(data_path(plan, machine), plan.task) as opened,
        tempfile.TemporaryDirectory(prefix="gsnobench-") as place,
    ):
        predictions = Path(place) / PREDICTIONS
        samples = in_memory(opened, "test")
        write_predictions(predictions, samples, trained.predict(samples), plan)
        members = {name: folder / name for name in FROM_RUN if (folder / name).exists()} | {
            PREDICTIONS: predictions
        }
        pack(folder / BUNDLE, members)
    return folder / BUNDLE


def pack(path: Path, members: Mapping[str, Path]) -> None:
    """Put files into a stored ZIP with a manifest of their checksums, atomically; equal files give
    equal bytes.
    """
    manifest = {
        "bundle": FORMAT,
        "gsnobench": __version__,
        "sha256": {name: _sha256(members[name]) for name in sorted(members)},
    }
    with atomic(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(MANIFEST), json.dumps(manifest, indent=1) + "\n")
        for name in sorted(members):
            entry = _entry(name)
            entry.file_size = members[name].stat().st_size  # tells zipfile whether it needs 64 bits
            with archive.open(entry, "w") as target, members[name].open("rb") as source:
                shutil.copyfileobj(source, target, 1 << 20)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = 0o644 << 16
    entry.create_system = 3  # Unix, whoever packs
    return entry


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(path: Path, folder: Path) -> None:
    """Take the members of a bundle out; nothing but the known names, nothing compressed, so nothing
    can surprise.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            odd = [
                name
                for name in names
                if name not in (*FROM_RUN, PREDICTIONS, MANIFEST) or names.count(name) > 1
            ]
            odd += [
                entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED
            ]
            if odd:
                raise DataError(
                    f"{path}: holds {odd[0]!r} as no bundle does; expected what `run --bundle` "
                    "writes"
                )
            for entry in entries:
                with archive.open(entry) as source, (folder / entry.filename).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (
        OSError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        ValueError,
        EOFError,
    ) as error:
        raise DataError(
            f"{path}: not a readable bundle ({error}); expected the ZIP file that `run --bundle` "
            "writes"
        ) from error
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise DataError(
            f"{path}: {', '.join(missing)} missing; expected what `run --bundle` writes"
        )


def damaged(folder: Path) -> list[str]:
    """Members of an unpacked bundle that are not what its manifest says."""
    try:
        stated = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["sha256"]
        found = {path.name: _sha256(path) for path in folder.iterdir() if path.name != MANIFEST}
        return sorted(name for name in {*stated, *found} if stated.get(name) != found.get(name))
    except (ValueError, KeyError, TypeError, AttributeError):
        return [MANIFEST]


@contextmanager
def opened_run(text: str, home: Home) -> Iterator[Path]:
    """The folder of a run, or of a bundle unpacked for as long as the block lasts."""
    if not text.endswith(".zip"):
        yield home.find_run(text)
        return
    if not Path(text).is_file():
        raise DataError(f"{text}: no such file; expected a bundle that `run --bundle` wrote")
    with tempfile.TemporaryDirectory(prefix="gsnobench-") as place:
        unpack(Path(text), Path(place))
        yield Path(place)


def predictions_of(folder: Path, truth: Samples, *, home: Home, device: str) -> Array:
    """Predicted frames (S, T, N, C): those of an unpacked bundle, else the run's weights make them."""
    if (folder / PREDICTIONS).exists():
        changed = damaged(folder)
        if changed:
            raise DataError(
                f"bundle: {', '.join(changed)} changed since it was packed; make it again with "
                "`run --bundle`"
            )
        return read_predictions(folder / PREDICTIONS, truth)
    predicted = load(folder, home=home.root, device=device).predict(truth)
    return predicted.reshape(len(truth), -1, *predicted.shape[2:])
