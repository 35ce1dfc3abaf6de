"""Folders of result files, read for the boards; what cannot be used is named and skipped."""

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
from gsnobench.records import RunResult, RunSpec, Status, StepsFrom, evidence_path

HEADLINE_SLACK = 1e-3  # relative: errors of samples are stored with four digits
MANY = 3000  # files that are worth the start of further processes
# kinds of the entries of a spec that boards rely on
WHOLE = ("version", "resolution", "data_seed", "revision", "seed")
TABLES = ("sizes", "data", "model_params", "train_params", "steps")
WORDS = ("task", "track", "model", "preset", "source", "origin")


@dataclass(frozen=True, eq=False)
class Entry:
    """One result without what no board shows: twenty thousand of them must fit in memory."""

    spec: RunSpec
    status: Status
    reason: str
    error: float  # the headline; not a number unless the run is done
    valid: float
    scores: Mapping[str, Mapping[str, float]]  # field -> metric, on the test split
    fields: tuple[str, ...]  # those that the headline is the mean of
    samples: Array  # (S,) headline of each test sample, empty unless done
    ood_samples: Array  # (S,) the same out of distribution, empty where the task has no such split
    curve: tuple[Mapping[str, Any], ...]  # losses and validation errors over the steps
    changed: Mapping[str, Any]  # settings that differ from the preset at its committed steps
    steps_from: StepsFrom
    code: Mapping[str, str]  # digests of the plugins' source
    frames: Mapping[str, Mapping[str, list[float]]]  # field -> quantile -> one per frame
    costs: Mapping[str, float]
    data: Mapping[str, str]
    environment: Mapping[str, Any]
    # field -> truth, error -> one per band of Laplacian modes; older runs have none
    bands: Mapping[str, Mapping[str, list[float]]]
    picture: Path | None = None  # best, median and worst test sample, if drawn

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def is_closed_form(self) -> bool:
        """Nothing was trained in steps, so the seed changes nothing."""
        return not any(self.spec.steps.values())

    @classmethod
    def of(cls, result: RunResult, picture: Path | None = None) -> Entry:
        """What a board shows of a result."""
        valid = result.scores.get("valid", {}).get("headline", {}).get("rel_l2")
        error = result.headline if result.status == "done" else None
        return cls(
            spec=result.spec,
            status=result.status,
            reason=result.reason,
            error=float("nan") if error is None else error,
            valid=float("nan") if valid is None else valid,
            scores=result.scores.get("test", {}),
            fields=tuple(sorted(result.samples.get("test", {}))),
            samples=_headlines(result, "test"),
            ood_samples=_headlines(result, "test_ood"),
            curve=tuple(result.curve),
            changed=result.changed,
            steps_from=result.steps_from,
            code=result.code,
            frames=result.frames,
            costs=result.costs,
            data=result.data,
            environment=result.environment,
            bands=result.bands,
            picture=picture,
        )


def _headlines(result: RunResult, split: str) -> Array:
    """The headline of each sample of a split: mean over scored fields."""
    tables = result.samples.get(split, {}).values()
    per_field = [values["rel_l2"] for values in tables if "rel_l2" in values]
    return np.asarray(per_field, dtype=float).mean(axis=0) if per_field else np.empty(0)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The results of some folders, one per key, and one line about each file that was skipped."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]


def evidence_folders(home: Home) -> list[Path]:
    """The default folders of results: the home's, and that of the source tree if there is one."""
    committed = Path(__file__).resolve().parent.parent.parent / "leaderboards" / "results"
    return [folder for folder in (home.results, committed) if folder.is_dir()]


def read_evidence(roots: Sequence[Path]) -> Evidence:
    """All results below some folders; where two have the same key, the first folder counts."""
    by_key: dict[str, Entry] = {}
    problems: list[str] = []
    for root in roots:
        entries, lines = _read_folder(root)
        by_key = {**entries, **by_key}
        problems += lines
    # evidence stays to the end, so the collector need not walk through it again and again
    gc.freeze()
    return Evidence(tuple(by_key.values()), tuple(problems))


def _read_folder(root: Path) -> tuple[dict[str, Entry], list[str]]:
    """Results by key; damaged, foreign, duplicate and newer-schema files are named and skipped."""
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
        problems.append(_duplicate(root, before[0], path, entry.spec))
        # of two copies the one at its proper path counts
        if path == evidence_path(root, entry.spec):
            entries[entry.key] = (path, entry)
    return {key: entry for key, (_, entry) in entries.items()}, problems


def _read_files(root: Path, paths: Sequence[Path]) -> Iterator[tuple[Path, Entry | str]]:
    """Every file with its entry, or with a line that says what is wrong; many use all cores."""
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
        return printable(str(error).replace(str(path), name))
    # the right entries, but not the right kinds
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        return printable(
            f"{name}: holds what a result cannot ({error}); expected the JSON that `run` writes"
        )


def printable(text: str) -> str:
    """A stranger's text without control characters, which would steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def result_files(root: Path) -> Iterator[Path]:
    """All JSON files below a folder, sorted; half-written ones begin with a dot."""
    return iter(sorted(path for path in root.rglob("*.json") if not path.name.startswith(".")))


def _checked(result: RunResult, name: str) -> RunResult:
    """The same result if it holds what a board relies on, else a DataError."""
    if wrong := _wrong_kinds(result):
        raise DataError(
            f"{name}: {', '.join(wrong)} is of the wrong kind; expected the JSON that `run` writes"
        )
    if result.status != "done":
        return result
    for split in ("test", "test_ood"):
        expected = result.spec.sizes.get(split, 0)
        tables = result.samples.get(split, {}).values()
        lengths = {len(values.get("rel_l2", ())) for values in tables}
        is_known = split == "test" or bool(tables)  # results of schema 1 have none out of it
        if is_known and expected and lengths != {expected}:
            raise DataError(
                f"{name}: a finished run without its {split} errors; expected {expected} per "
                "field; run it again"
            )
    return _with_right_headline(result, name)


def _with_right_headline(result: RunResult, name: str) -> RunResult:
    """The same result if its headline is the mean of its samples, as far as their digits go."""
    mean = float(_headlines(result, "test").mean())
    if not result.headline > 0 or abs(mean - result.headline) > HEADLINE_SLACK * result.headline:
        raise DataError(
            f"{name}: states {result.headline!r}, but its samples have {mean:.6g}; run it again"
        )
    return result


def _wrong_kinds(result: RunResult) -> list[str]:
    """Names of entries that hold no number, table or text where boards need one."""
    spec = result.spec
    wrong = [entry for entry in WHOLE if type(getattr(spec, entry)) is not int]
    wrong += [entry for entry in TABLES if not isinstance(getattr(spec, entry), Mapping)]
    wrong += [entry for entry in WORDS if not isinstance(getattr(spec, entry), str)]
    wrong += [] if isinstance(result.changed, Mapping) else ["changed"]
    number = (int, float, type(None))
    wrong += [entry for entry, value in result.costs.items() if not isinstance(value, number)]
    wrong += [entry for entry, value in result.data.items() if not isinstance(value, str)]
    if result.status == "done":  # what diverged may have left anything but numbers
        for table in (*result.frames.values(), *result.bands.values()):
            wrong += [entry for entry, values in table.items() if not np.isfinite(values).all()]
        bands = result.bands.items()
        wrong += [entry for entry, table in bands if set(table) != {"truth", "error"}]
    return wrong or ([] if isinstance(result.reason, str) else ["reason"])


def _duplicate(root: Path, first: Path, second: Path, spec: RunSpec) -> str:
    kept, skipped = (second, first) if second == evidence_path(root, spec) else (first, second)
    same = "the same" if first.read_bytes() == second.read_bytes() else "another"
    names = [path.relative_to(root).as_posix() for path in (skipped, kept)]
    return printable(
        f"{names[0]}: {same} result for the key of {names[1]}; one file per key is expected; "
        "remove one"
    )


def evidence_stamp(roots: Sequence[Path]) -> str:
    """Changes when a result or its picture is added, removed or rewritten; reads no content."""
    paths = [path for root in roots for path in sorted(root.rglob("*.*"))]
    stats = [(path, path.stat()) for path in paths if path.suffix in (".json", ".png")]
    return digest([[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats])
