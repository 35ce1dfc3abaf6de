"""GSNOBENCH_HOME: where data, caches, runs and the tracking database live."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from gsnobench.errors import RunError


@dataclass(frozen=True)
class Home:
    """The folders of one installation."""

    root: Path

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def results(self) -> Path:
        return self.root / "results"

    def run_folder(self, key: str) -> Path:
        """Folder of a run."""
        return self.runs / key[:12]

    def find_run(self, text: str) -> Path:
        """A run by its folder or by a prefix of its key."""
        if Path(text).is_dir() and (Path(text) / "spec.json").exists():
            return Path(text)
        matches = sorted(
            folder for folder in self.runs.glob(f"{text}*") if (folder / "spec.json").exists()
        )
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise RunError(
                f"{text}: matches {len(matches)} runs ({', '.join(m.name for m in matches[:5])}); "
                "type more of the key"
            )
        raise RunError(f"{text}: no such run in {self.runs}; give a key prefix or a run folder")


def open_home(override: Path | None = None) -> Home:
    """The home folder, made if need be; one clear line where that is impossible."""
    chosen = override or os.environ.get("GSNOBENCH_HOME") or platformdirs.user_data_dir("gsnobench")
    root = Path(chosen).expanduser().absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe = root / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RunError(
            f"{root}: cannot be used as home ({error.strerror}); set --home or GSNOBENCH_HOME to a "
            "folder you can write"
        ) from error
    return Home(root)
