"""registry.toml, what is settled for all: tracks, settings, calibrated steps, public addresses."""

from __future__ import annotations

import json
import re
import sysconfig
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsnobench.errors import DataError, ParamError, did_you_mean
from gsnobench.files import lock, write_text
from gsnobench.home import Home
from gsnobench.reading import guarded, read_json, read_toml
from gsnobench.records import FEATURES


@dataclass(frozen=True)
class Track:
    """An equal budget by name: CPU-seconds that were turned into steps, or epochs."""

    name: str
    help: str = ""
    train_cpu_s: float = 0.0
    default_steps: int = 0  # of a pair (task, row) that nobody has counted
    counts_steps: bool = False  # such a pair is counted at its first run instead
    epochs: int = 0  # a paper's protocol, instead of CPU-seconds


@dataclass(frozen=True)
class PublicFile:
    """One file at its authors' address; what they do not publish is 0 or empty."""

    name: str
    url: str
    bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True)
class PublicData:
    """Where the files of a public set are, and what to do with them."""

    licence: str
    tried: bool  # whether anybody of this project has downloaded from there
    files: tuple[PublicFile, ...] = ()  # empty: only a page to click through
    page: str = ""  # where a person can look or click
    size: str = ""  # of all files, about
    then: str = ""  # what to do before `data import`


@dataclass(frozen=True)
class Published:
    """A score that a model's authors report on the same public files."""

    rel_l2: float
    nodes: int  # of the meshes that it was measured on
    cite: str


@dataclass(frozen=True)
class Registry:
    """The content of registry.toml; a row is a model and a preset, such as `gnot@compact`."""

    tracks: Mapping[str, Track]
    steps: Mapping[str, Any] = field(default_factory=dict)  # track -> task -> row -> phase -> steps
    pairs: Mapping[str, Any] = field(default_factory=dict)  # task -> row -> dotted knob -> value
    board_tasks: tuple[str, ...] = ()  # what a board is about
    floors: tuple[str, ...] = ()  # models that every run is compared with
    preset_help: Mapping[str, str] = field(default_factory=dict)  # what usual presets are
    styled_models: tuple[str, ...] = ()  # the order in which models get a colour in plots
    our_rows: tuple[str, ...] = ()  # architectures of ours: no paper prints a number for them
    reference_row: str = ""  # the row that run times on the boards are relative to
    blind_floor: str = ""  # uses no input but the last given frame: a row above did not learn
    checked_model: str = ""  # the model that `doctor --gpu` runs
    reference_step_s: float = 0.02  # CPU-seconds of the reference step on the calibrating machine
    public: Mapping[str, PublicData] = field(default_factory=dict)  # name of an importer -> where
    # task of a public set -> model -> score of its authors
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)
    # as `steps`, but counted on this home's machine: pairs that neither registry nor plugin has
    home_steps: Mapping[str, Any] = field(default_factory=dict)
    # data files that this home knows: content hash, or name of an imported task -> path
    files: Mapping[str, str] = field(default_factory=dict)

    def file(self, text: str) -> Path | None:
        """The data file that a person means by a path or by an imported task; None: a dataset."""
        known = self.files.get(text.partition("@")[0])
        return Path(text) if text.endswith(".nc") else None if known is None else Path(known)

    def track(self, name: str) -> Track:
        """A track by name."""
        if name not in self.tracks:
            raise ParamError(f"track: {name!r} is unknown; {did_you_mean(name, self.tracks)}")
        return self.tracks[name]

    def calibrated(self, track: str, task: str, row: str) -> dict[str, int] | None:
        """Committed steps per phase of a pair; None if it was never calibrated."""
        return _counts(self.steps, track, task, row)

    def counted_at_home(self, track: str, task: str, row: str) -> dict[str, int] | None:
        """Steps per phase that this home counted for a pair; None if it did not."""
        return _counts(self.home_steps, track, task, row)

    def published_score(self, task: str, model: str, nodes: int) -> Published | None:
        """What a model's authors report on a public task with this many nodes; None if nothing."""
        score = self.published.get(task.partition("@")[0], {}).get(model)
        return score if score is not None and score.nodes == nodes else None

    def settings(self, task: str, row: str) -> dict[str, Any]:
        """Settings of a pair, as dotted knobs."""
        return dict(self.pairs.get(task, {}).get(row, {}))


def _counts(steps: Mapping[str, Any], track: str, task: str, row: str) -> dict[str, int] | None:
    counts = steps.get(track, {}).get(task, {}).get(row)
    if counts is None:
        return None
    return {str(phase): int(count) for phase, count in counts.items()}


def registry_path() -> Path:
    """The file beside the source tree, else the one in the installed share folder."""
    beside = Path(__file__).resolve().parent.parent / "registry.toml"
    installed = Path(sysconfig.get_path("data")) / "share" / "gsnobench" / "registry.toml"
    for path in (beside, installed):
        if path.exists():
            return path
    raise DataError(
        f"registry.toml: not found beside the package nor at {installed}; install gsnobench again"
    )


def read_registry(path: Path | None = None, *, home: Home | None = None) -> Registry:
    """Read and check the registry, with the step counts of a home if one is given."""
    path = path or registry_path()
    body = read_toml(path, remedy="restore it from the repository")
    counted: dict[str, Any] = {}
    if home is not None and home.steps.exists():
        counted = read_toml(home.steps, remedy="remove it: its counts are then measured again")
        _check_steps(home.steps, counted.get("steps", {}))
    with guarded(path, expected="the registry.toml of the repository; restore it"):
        return _registry(path, body, counted, home)


def _registry(
    path: Path, body: Mapping[str, Any], counted: Mapping[str, Any], home: Home | None
) -> Registry:
    steps, pairs = body.get("steps", {}), body.get("pair", {})
    _check_steps(path, steps)
    _refuse_rows_with_features(path, (*steps.values(), pairs))
    return Registry(
        tracks={name: Track(name=name, **track) for name, track in body.get("track", {}).items()},
        steps=steps,
        pairs=pairs,
        board_tasks=tuple(body.get("board_tasks", ())),
        floors=tuple(body.get("floors", ())),
        preset_help=body.get("preset_help", {}),
        styled_models=tuple(body.get("styled_models", ())),
        our_rows=tuple(body.get("our_rows", ())),
        reference_row=body.get("reference_row", ""),
        blind_floor=body.get("blind_floor", ""),
        checked_model=body.get("checked_model", ""),
        reference_step_s=float(body["reference_step_s"]),
        public={name: _public(entry) for name, entry in body.get("public", {}).items()},
        published={
            task: {model: Published(**score) for model, score in scores.items()}
            for task, scores in body.get("published", {}).items()
        },
        home_steps=counted.get("steps", {}),
        files={} if home is None else _known_files(home),
    )


def _public(entry: Mapping[str, Any]) -> PublicData:
    files = tuple(PublicFile(**file) for file in entry.get("files", ()))
    return PublicData(**{**entry, "files": files})


def remember_file(key: str, path: Path, home: Home) -> None:
    """Keep where a data file is: under its content hash, or the name of an imported task."""
    known = str(path.resolve())
    if _known_files(home).get(key) == known:
        return
    with lock(home.files.with_suffix(".lock")):
        files = {**_known_files(home), key: known}
        write_text(home.files, json.dumps(files, indent=1, sort_keys=True) + "\n")


def _known_files(home: Home) -> dict[str, str]:
    if not home.files.exists():
        return {}
    files = read_json(home.files, expected="paths by content; remove it")
    if not isinstance(files, dict):
        raise DataError(f"{home.files}: is no table of paths; remove it")
    return {str(key): str(path) for key, path in files.items()}


def _check_steps(path: Path, steps: Any) -> None:
    """Track -> task -> row -> phase -> a number of steps."""

    def is_table(value: Any, levels: int) -> bool:
        if not levels:
            return type(value) is int and value >= 0
        return isinstance(value, dict) and all(is_table(v, levels - 1) for v in value.values())

    if not is_table(steps, 4):
        raise DataError(f"{path}: [steps] holds no tables of whole numbers; mend or restore it")


def _refuse_rows_with_features(path: Path, tables: Iterable[Mapping[str, Any]]) -> None:
    """Tables of task -> row -> anything; a row with features uses what the row without has."""
    rows = [row for tasks in tables for rows in tasks.values() for row in rows]
    if wrong := [row for row in rows if row.endswith(FEATURES)]:
        raise DataError(
            f"{path}: {wrong[0]!r}: a row with features takes steps and settings of the one "
            "without; remove the line"
        )


def write_steps(track: str, task: str, row: str, steps: Mapping[str, int], path: Path) -> None:
    """Write calibrated step counts: one line is replaced or added, every other byte stays."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    header = f'[steps.{track}."{task}"]'
    counts = ", ".join(f"{phase} = {count}" for phase, count in steps.items())
    line = f'"{row}" = {{ {counts} }}'
    if header not in text:
        text = f"{text.rstrip()}\n\n{header}\n{line}\n".lstrip()
    else:
        before, after = text.split(header, 1)
        body, *rest = re.split(r"(?m)^(?=\[)", after, maxsplit=1)
        previous = re.compile(rf'(?m)^"{re.escape(row)}" = .*$')
        body = previous.sub(line, body) if previous.search(body) else f"{body.rstrip()}\n{line}\n\n"
        text = before + header + body + "".join(rest)
    tomllib.loads(text)  # raises rather than leave a registry that cannot be read
    write_text(path, text.rstrip() + "\n")
