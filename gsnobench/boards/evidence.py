"""Folders of result files, read for the boards; what cannot be used is named and skipped."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from gsnobench.boards.convergence import Ending, ending_of, validation_curve
from gsnobench.data import Array
from gsnobench.errors import DataError
from gsnobench.files import digest
from gsnobench.home import Home
from gsnobench.records import RunResult, RunSpec, Status, StepsFrom, evidence_path

HEADLINE_SLACK = 1e-3  # relative: errors of samples are stored with four digits
MANY = 3000  # files that are worth the start of further processes
PNG = b"\x89PNG\r\n\x1a\n"
LARGEST_PICTURE = 4_000_000  # bytes


@dataclass(frozen=True)
class Installation:
    """What this machine adds to result files: its own results, and the plugins that it has now."""

    results: Path | None = None  # the home's folder: only step counts of this home are ranked
    # kind and name of an installed plugin -> digest of its source
    code: Mapping[tuple[str, str], str] = field(default_factory=dict)
    # installed model -> its revision, where the source tells: older results are outdated
    revisions: Mapping[str, int] = field(default_factory=dict)


NOWHERE = Installation()


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
    ood_error: float  # the headline out of distribution; not a number without such a split
    ood_samples: Array  # (S,) of each sample there, empty in results of schema 1
    ending: Ending | None  # of the training; None for a closed form
    curve: Array  # (P, 2) share of the steps of the last phase, validation error there
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
    is_own: bool = False  # computed in the home that the boards are made for
    path: Path | None = None  # of the result file

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def model_code(self) -> str:
        """The digest of the model's source; empty in results of schema 1."""
        return self.code.get("model", "")

    @property
    def fingerprint(self) -> str:
        """Rounded statistics of the data: the same on all machines, where the hash may differ."""
        return self.data.get("fingerprint", "")

    @property
    def is_closed_form(self) -> bool:
        """Nothing was trained in steps, so the seed changes nothing."""
        return not any(self.spec.steps.values())

    @classmethod
    def of(
        cls,
        result: RunResult,
        picture: Path | None = None,
        *,
        is_own: bool = False,
        path: Path | None = None,
    ) -> Entry:
        """What a board shows of a result."""
        is_done = result.status == "done"
        return cls(
            spec=result.spec,
            status=result.status,
            reason=result.reason,
            error=_headline(result, "test") if is_done else math.nan,
            valid=_headline(result, "valid"),
            scores=result.scores.get("test", {}),
            fields=tuple(sorted(result.samples.get("test", {}))),
            samples=_headlines(result, "test"),
            ood_error=_headline(result, "test_ood") if is_done else math.nan,
            ood_samples=_headlines(result, "test_ood"),
            ending=ending_of(result.curve, result.spec.steps),
            curve=validation_curve(result.curve, result.spec.steps),
            changed=result.changed,
            steps_from=result.steps_from,
            code=result.code,
            frames=result.frames,
            costs=result.costs,
            data=result.data,
            environment=result.environment,
            bands=result.bands,
            picture=picture,
            is_own=is_own,
            path=path,
        )


def _headline(result: RunResult, split: str) -> float:
    """The headline of a split; not a number where the result has none."""
    value = result.scores.get(split, {}).get("headline", {}).get("rel_l2")
    return math.nan if value is None else value


def _headlines(result: RunResult, split: str) -> Array:
    """The headline of each sample of a split: mean over scored fields."""
    tables = result.samples.get(split, {}).values()
    per_field = [values["rel_l2"] for values in tables if "rel_l2" in values]
    return np.asarray(per_field, dtype=float).mean(axis=0) if per_field else np.empty(0)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The results of some folders, and one line about each file that was skipped.

    One per key, unless two folders hold results of different code or data under the same key.
    """

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]


def evidence_folders(home: Home) -> list[Path]:
    """The default folders of results: the home's own, and the committed ones."""
    return [folder for folder in (home.results, committed_results()) if folder.is_dir()]


def committed_results() -> Path:
    """Results of the benchmark itself: in the source tree, or the copy that a wheel brings."""
    room = Path(__file__).resolve().parent
    tree = room.parent.parent / "leaderboards" / "results"
    return tree if tree.is_dir() else room / "results"


def read_evidence(roots: Sequence[Path], own: Path | None = None) -> Evidence:
    """All results below some folders; where two are of the same run, the first folder counts.

    Equal keys mean equal settings. The code and the data behind them may still have been edited:
    then both stay, or a result of edited code would take the place of the one that it imitates.
    `own` is the folder of the home that the boards are made for.
    """
    by_key: dict[str, list[Entry]] = {}
    problems: list[str] = []
    for root in roots:
        is_own = own is not None and root.resolve() == own.resolve()
        entries, lines = _read_folder(root, is_own=is_own)
        for key, entry in entries.items():
            kept = by_key.setdefault(key, [])
            if not any(_is_same_work(entry, other) for other in kept):
                kept.append(entry)
        problems += lines
    # evidence stays to the end, so the collector need not walk through it again and again
    gc.freeze()
    return Evidence(tuple(chain.from_iterable(by_key.values())), tuple(problems))


def _is_same_work(entry: Entry, other: Entry) -> bool:
    """Whether no two known digests of model code or data differ; old results have none."""
    pairs = ((entry.model_code, other.model_code), (entry.fingerprint, other.fingerprint))
    return all(a == b or not (a and b) for a, b in pairs)


def _read_folder(root: Path, *, is_own: bool) -> tuple[dict[str, Entry], list[str]]:
    """Results by key; damaged, foreign, duplicate and newer-schema files are named and skipped."""
    if not root.is_dir():
        raise DataError(
            f"{root}: no such folder; expected result files such as leaderboards/results holds"
        )
    entries: dict[str, tuple[Path, Entry]] = {}
    problems: list[str] = []
    read = partial(_read_file, root, is_own=is_own)
    for path, entry in _read_files(list(result_files(root)), read):
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


def _read_files(
    paths: Sequence[Path], read: Callable[[Path], Entry | str]
) -> Iterator[tuple[Path, Entry | str]]:
    """Every file with its entry, or with a line that says what is wrong; many use all cores."""
    if len(paths) < MANY:
        yield from zip(paths, map(read, paths), strict=True)
        return
    with ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool:
        yield from zip(paths, pool.map(read, paths, chunksize=100), strict=True)


def _read_file(root: Path, path: Path, *, is_own: bool) -> Entry | str:
    name = path.relative_to(root).as_posix()
    try:
        if leads_out(path, root):
            raise DataError(f"{name}: is a symbolic link; expected a file")
        result = _checked(RunResult.load(path), name)
        picture = _picture(path.with_suffix(".png"), root)
        return Entry.of(result, picture, is_own=is_own, path=path)
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


def leads_out(path: Path, root: Path) -> bool:
    """Whether a path is a link, or lies below one: it could publish any file of this machine."""
    return path.resolve() != root.resolve() / path.relative_to(root)


def _picture(path: Path, root: Path) -> Path | None:
    """The picture of a result, if it is one: a file of its own, a PNG, of a usual size."""
    if not path.is_file() or leads_out(path, root) or path.stat().st_size > LARGEST_PICTURE:
        return None
    with path.open("rb") as file:
        return path if file.read(len(PNG)) == PNG else None


def _checked(result: RunResult, name: str) -> RunResult:
    """The same result if it holds what a board relies on, else a DataError."""
    if wrong := _wrong_kinds(result):
        raise DataError(
            f"{name}: {', '.join(wrong)} is of the wrong kind; expected the JSON that `run` writes"
        )
    if result.status != "done":
        return result
    _check_samples(result, "test", name)
    if result.samples.get("test_ood"):  # results of schema 1 have none
        _check_samples(result, "test_ood", name)
    if not result.headline > 0:
        raise DataError(f"{name}: states an error of {result.headline!r}; run it again")
    return result


def _check_samples(result: RunResult, split: str, name: str) -> None:
    """All errors of a split are there, and its headline is their mean as far as digits go."""
    expected = result.spec.sizes.get(split, 0)
    lengths = {len(table.get("rel_l2", ())) for table in result.samples.get(split, {}).values()}
    if not expected or lengths != {expected}:
        raise DataError(
            f"{name}: a finished run without its {split} errors; expected {expected} per field; "
            "run it again"
        )
    stated, mean = _headline(result, split), float(_headlines(result, split).mean())
    if abs(mean - stated) > HEADLINE_SLACK * stated:
        raise DataError(
            f"{name}: states {stated!r} on {split}, but its samples have {mean:.6g}; run it again"
        )


def _wrong_kinds(result: RunResult) -> list[str]:
    """Names of entries that hold no finite numbers where boards need them."""
    if result.status != "done":  # what diverged may have left anything but numbers
        return []
    tables = (*result.frames.values(), *result.bands.values())
    wrong = [entry for table in tables for entry, values in table.items() if None in values]
    bands = result.bands.items()
    return wrong + [entry for entry, table in bands if set(table) != {"truth", "error"}]


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
