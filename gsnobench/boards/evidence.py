"""A folder of result files, read for the boards: what can be used, and what was wrong with the
rest.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.data import Array
from gsnobench.errors import DataError
from gsnobench.files import digest
from gsnobench.home import Home
from gsnobench.records import RunResult, RunSpec, Status, evidence_path


@dataclass(frozen=True, eq=False)
class Entry:
    """One result, without what no board shows: twenty thousand of them must fit in memory."""

    spec: RunSpec
    status: Status
    reason: str
    error: float  # the headline; not a number unless the run is done
    valid: float
    scores: Mapping[str, Mapping[str, float]]  # field -> metric, on the test split
    fields: tuple[str, ...]  # those that the headline is the mean of
    samples: Array  # (S,) headline of each test sample, empty unless done
    frames: Mapping[str, Mapping[str, list[float]]]  # field -> quantile -> one a frame
    costs: Mapping[str, float]
    data: Mapping[str, str]
    environment: Mapping[str, Any]
    # field -> truth, error -> one a band of Laplacian modes; older runs have none
    bands: Mapping[str, Mapping[str, list[float]]]
    # best, median and worst test sample, if the file lies beside the result
    picture: Path | None = None

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def is_closed_form(self) -> bool:
        """No step was taken, so no seed has a say."""
        return not any(self.spec.steps.values())

    @classmethod
    def of(cls, result: RunResult, picture: Path | None = None) -> Entry:
        """The view of a board on a result."""
        per_field = [values["rel_l2"] for values in result.samples.values() if "rel_l2" in values]
        samples = np.asarray(per_field, dtype=float).mean(axis=0) if per_field else np.empty(0)
        valid = result.scores.get("valid", {}).get("headline", {}).get("rel_l2")
        return cls(
            spec=result.spec,
            status=result.status,
            reason=result.reason,
            error=result.headline
            if result.status == "done" and result.headline is not None
            else float("nan"),
            valid=float("nan") if valid is None else valid,
            scores=result.scores.get("test", {}),
            fields=tuple(sorted(result.samples)),
            samples=samples,
            frames=result.frames,
            costs=result.costs,
            data=result.data,
            environment=result.environment,
            bands=result.bands,
            picture=picture,
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """The results of a folder, one a question, and one line about each file that was skipped."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]


def evidence_folders(home: Home) -> list[Path]:
    """Where results lie by default: the home folder, and the source tree's leaderboards where there
    is one.
    """
    committed = Path(__file__).resolve().parent.parent.parent / "leaderboards" / "results"
    return [folder for folder in (home.results, committed) if folder.is_dir()]


def read_evidence(roots: Sequence[Path]) -> Evidence:
    """All results below some folders, the first of which has the first word where two answer the
    same question.
    """
    known: dict[str, Entry] = {}
    problems: list[str] = []
    for root in roots:
        entries, troubles = _read_folder(root)
        known = {**entries, **known}
        problems += troubles
    # evidence stays to the end: the collector need not walk through thousands of results again and
    # again
    gc.freeze()
    return Evidence(tuple(known.values()), tuple(problems))


def _read_folder(root: Path) -> tuple[dict[str, Entry], list[str]]:
    """Results by key; what is damaged, foreign, doubled or from the future is named and left out."""
    if not root.is_dir():
        raise DataError(
            f"{root}: no such folder; expected result files such as leaderboards/results holds"
        )
    entries: dict[str, tuple[Path, Entry]] = {}
    problems: list[str] = []
    for path, entry in _read_files(root, list(result_files(root))):
        if isinstance(entry, str):
            problems.append(entry)
            continue
        before = entries.get(entry.key)
        if before is None:
            entries[entry.key] = (path, entry)
            continue
        problems.append(_doubled(root, before[0], path, entry.spec))
        # the copy that lies where it belongs is the one that counts
        if path == evidence_path(root, entry.spec):
            entries[entry.key] = (path, entry)
    return {key: entry for key, (_, entry) in entries.items()}, problems


def _read_files(root: Path, paths: Sequence[Path]) -> Iterator[tuple[Path, Entry | str]]:
    """Every file with its entry, or the line that says what is wrong; thousands are read by all
    cores.
    """
    read = partial(_read_file, root)
    if len(paths) < MANY:
        yield from zip(paths, map(read, paths), strict=True)
        return
    with ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool:
        yield from zip(paths, pool.map(read, paths, chunksize=100), strict=True)


def _read_file(root: Path, path: Path) -> Entry | str:
    name = path.relative_to(root).as_posix()
    try:
        picture = path.with_suffix(".png")
        return Entry.of(_checked(RunResult.load(path), name), picture if picture.exists() else None)
    except DataError as error:
        return _printable(str(error).replace(str(path), name))
    # the right entries, but not the right kinds
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        return _printable(
            f"{name}: holds what a result cannot ({error}); expected the JSON that `run` writes"
        )


def _printable(text: str) -> str:
    """A file may hold, and be called, what would steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def result_files(root: Path) -> Iterator[Path]:
    """All JSON files below a folder, in an order that no file system decides; half-written ones
    begin with a dot.
    """
    return iter(sorted(path for path in root.rglob("*.json") if not path.name.startswith(".")))


MANY = 3000  # files that are worth the start of further processes
WHOLE = ("version", "resolution", "data_seed", "revision", "seed")
TABLES = ("sizes", "data", "model_params", "train_params", "scaling", "steps")
WORDS = ("task", "track", "model", "preset", "source")


def _checked(result: RunResult, name: str) -> RunResult:
    """What a board relies on: numbers where numbers belong, and as many errors of each field as
    test samples.
    """
    spec = result.spec
    odd = [entry for entry in WHOLE if type(getattr(spec, entry)) is not int]
    odd += [entry for entry in TABLES if not isinstance(getattr(spec, entry), Mapping)]
    odd += [entry for entry in WORDS if not isinstance(getattr(spec, entry), str)]
    odd += [
        entry
        for entry, value in result.costs.items()
        if not isinstance(value, (int, float, type(None)))
    ]
    odd += [entry for entry, value in result.data.items() if not isinstance(value, str)]
    if result.status == "done":  # what diverged may have left anything but numbers
        curves = [*result.frames.values(), *result.bands.values()]
        odd += [
            entry
            for table in curves
            for entry, values in table.items()
            if not np.isfinite(values).all()
        ]
        odd += [entry for entry, table in result.bands.items() if set(table) != {"truth", "error"}]
    if odd or not isinstance(result.reason, str):
        raise DataError(
            f"{name}: {', '.join(odd) or 'reason'} is of the wrong kind; expected the JSON that "
            "`run` writes"
        )
    if result.status != "done":
        return result
    lengths = {len(values.get("rel_l2", ())) for values in result.samples.values()}
    wanted = {result.spec.sizes.get("test", 0)}
    if not result.headline > 0 or lengths != wanted:
        raise DataError(
            f"{name}: a finished run without its test errors; expected {wanted.pop()} a field; run "
            "it again"
        )
    return result


def _doubled(root: Path, first: Path, second: Path, spec: RunSpec) -> str:
    kept, skipped = (second, first) if second == evidence_path(root, spec) else (first, second)
    same = "the same" if first.read_bytes() == second.read_bytes() else "another"
    names = [path.relative_to(root).as_posix() for path in (skipped, kept)]
    return _printable(
        f"{names[0]}: {same} answer to the question of {names[1]}; one file a key is expected; "
        "remove one"
    )


def fingerprint(roots: Sequence[Path]) -> str:
    """Changes whenever a result file or its picture is added, removed or rewritten; reads no
    content.
    """
    seen = (
        path
        for root in roots
        for path in sorted(root.rglob("*.*"))
        if path.suffix in (".json", ".png")
    )
    stats = ((path, path.stat()) for path in seen)
    return digest([[str(path), one.st_size, one.st_mtime_ns] for path, one in stats])
