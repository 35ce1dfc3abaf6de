"""registry.toml: tracks, per-pair settings, calibrated step counts; read beside the source tree,
else from the install.
"""

from __future__ import annotations

import re
import sysconfig
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsnobench.errors import DataError, ParamError, did_you_mean
from gsnobench.files import write_text
from gsnobench.records import FEATURES


@dataclass(frozen=True)
class Track:
    """An equal budget by name: CPU-seconds turned into steps, or epochs."""

    name: str
    help: str = ""
    train_cpu_s: float = 0.0
    default_steps: int = 0  # for pairs that nobody has calibrated yet
    epochs: int = 0  # instead of steps


@dataclass(frozen=True)
class Registry:
    """The settled numbers of the benchmark."""

    tracks: Mapping[str, Track]
    steps: Mapping[str, Any] = field(default_factory=dict)  # track -> task -> row -> phase -> n
    pairs: Mapping[str, Any] = field(default_factory=dict)  # task -> row -> dotted knob -> value
    floors: tuple[str, ...] = ()  # models that every run is shown beside
    reference_row: str = ""  # run times on a board are relative to this row

    def track(self, name: str) -> Track:
        """A track by name."""
        if name not in self.tracks:
            raise ParamError(f"track: {name!r} is unknown; {did_you_mean(name, self.tracks)}")
        return self.tracks[name]

    def calibrated(self, track: str, task: str, row: str) -> dict[str, int] | None:
        """Committed steps per phase of a pair, None if it was never calibrated."""
        counts = self.steps.get(track, {}).get(task, {}).get(row)
        return (
            None if counts is None else {str(phase): int(count) for phase, count in counts.items()}
        )

    def settings(self, task: str, row: str) -> dict[str, Any]:
        """Settings of one pair, as dotted knobs."""
        return dict(self.pairs.get(task, {}).get(row, {}))


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


def read_registry(path: Path | None = None) -> Registry:
    """Parse and check the registry."""
    path = path or registry_path()
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DataError(
            f"{path}: not a readable TOML file ({error}); restore it from the repository"
        ) from error
    tables = [
        rows
        for tasks in (*body.get("steps", {}).values(), body.get("pair", {}))
        for rows in tasks.values()
    ]
    if odd := [row for rows in tables for row in rows if row.endswith(FEATURES)]:
        raise DataError(
            f"{path}: {odd[0]!r}: a row with features takes steps and settings of the one without; "
            "remove the line"
        )
    tracks = {name: Track(name=name, **values) for name, values in body.get("track", {}).items()}
    return Registry(
        tracks=tracks,
        steps=body.get("steps", {}),
        pairs=body.get("pair", {}),
        floors=tuple(body.get("floors", ())),
        reference_row=body.get("reference_row", ""),
    )


def write_steps(
    track: str, task: str, row: str, steps: Mapping[str, int], path: Path | None = None
) -> None:
    """Commit calibrated step counts: replace or append one line, leave every other byte of the file
    alone.
    """
    path = path or registry_path()
    text = path.read_text(encoding="utf-8")
    header = f'[steps.{track}."{task}"]'
    line = f'"{row}" = {{ {", ".join(f"{phase} = {count}" for phase, count in steps.items())} }}'
    if header not in text:
        text = f"{text.rstrip()}\n\n{header}\n{line}\n"
    else:
        before, after = text.split(header, 1)
        body, *rest = re.split(r"(?m)^(?=\[)", after, maxsplit=1)
        old = re.compile(rf'(?m)^"{re.escape(row)}" = .*$')
        body = old.sub(line, body) if old.search(body) else f"{body.rstrip()}\n{line}\n\n"
        text = before + header + body + "".join(rest)
    tomllib.loads(text)  # never leave a registry that cannot be read
    write_text(path, text.rstrip() + "\n")
