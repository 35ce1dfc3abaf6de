"""GSNOBENCH_HOME: the folders of one installation, and the files of every run in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import platformdirs

from gsnobench.errors import RunError
from gsnobench.files import remove_left_over

KEY_PREFIX = re.compile(r"[0-9a-f]{0,64}")
ARTIFACTS = "mlartifacts"  # of MLflow, which writes there by itself


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run: the name of every file in it, and of its lock beside it.

    An unpacked bundle is such a folder too; only there are `predictions` and `manifest`.
    """

    # what the tracking store keeps of a run
    TRACKED: ClassVar = ("result.json", "spec.json", "*.csv", "figures/*.png", "figures/*.gif")

    path: Path

    @property
    def name(self) -> str:
        """The short key of the run."""
        return self.path.name

    @property
    def lock(self) -> Path:
        """Held by the process that works on this run."""
        return self.path.parent / f".{self.name}.lock"

    @property
    def spec(self) -> Path:
        """What was requested: the RunSpec, written first."""
        return self.path / "spec.json"

    @property
    def machine(self) -> Path:
        """How the run is computed, so that it is resumed in the same way: threads."""
        return self.path / "machine.json"

    @property
    def task(self) -> Path:
        return self.path / "task.json"

    @property
    def result(self) -> Path:
        """The RunResult; it is there once the run has ended."""
        return self.path / "result.json"

    @property
    def trial(self) -> Path:
        """The RunResult of a search, with scores on validation alone."""
        return self.path / "trial.json"

    @property
    def checkpoint(self) -> Path:
        """From which an interrupted run continues; removed when the run ends."""
        return self.path / "checkpoint.pt"

    @property
    def weights(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def summary(self) -> Path:
        """Statistics of the normaliser and the model's summary of the training split."""
        return self.path / "reference.safetensors"

    @property
    def curve(self) -> Path:
        """Losses and validation errors, one JSON line per epoch."""
        return self.path / "curve.jsonl"

    @property
    def untold(self) -> Path:
        """There while observers have not heard of the result: a kill in between is made good."""
        return self.path / "untold"

    @property
    def traceback(self) -> Path:
        """Why a run failed."""
        return self.path / "traceback.txt"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    @property
    def picture(self) -> Path:
        """Best, median and worst test sample."""
        return self.figures / "cases.png"

    @property
    def curve_picture(self) -> Path:
        return self.figures / "curve.png"

    @property
    def gif(self) -> Path:
        """The median test sample, animated."""
        return self.figures / "frames.gif"

    @property
    def bundle(self) -> Path:
        """The run as one file that others can verify."""
        return self.path / "bundle.zip"

    @property
    def predictions(self) -> Path:
        return self.path / "predictions.nc"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"


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

    @property
    def steps(self) -> Path:
        """Numbers of steps that were counted on this machine, in the form of registry.toml."""
        return self.root / "steps.toml"

    @property
    def files(self) -> Path:
        """Data files that runs were made on, by content hash, and imported ones, by task."""
        return self.root / "files.json"

    def run_folder(self, key: str) -> RunFolder:
        """The folder of a run by its key, whether it exists or not."""
        return RunFolder(self.runs / key[:12])

    def run_folders(self, prefix: str = "") -> list[RunFolder]:
        """All folders in which a run was started, sorted; those of a key prefix alone if given."""
        folders = [RunFolder(path) for path in sorted(self.runs.glob(f"{prefix}*"))]
        return [folder for folder in folders if folder.spec.exists()]

    def find_run(self, text: str) -> RunFolder:
        """A run by its folder or by a prefix of its key."""
        named = RunFolder(Path(text))
        if _exists(named.spec):
            return named
        matches = self.run_folders(text) if KEY_PREFIX.fullmatch(text) else []
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(folder.name for folder in matches[:5])
            raise RunError(f"{text}: matches {len(matches)} runs ({names}); type more of the key")
        raise RunError(f"{text}: no such run in {self.runs}; give a key prefix or a run folder")


def _exists(path: Path) -> bool:
    """Whether a file is there; a name that no file can have is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def open_home(override: Path | None = None) -> Home:
    """The home folder, created if it is missing; one clear line where that is impossible."""
    chosen = override or os.environ.get("GSNOBENCH_HOME") or platformdirs.user_data_dir("gsnobench")
    root = Path(chosen).expanduser().absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe = root / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RunError(
            f"{root}: cannot be used as home ({reason}); set --home or GSNOBENCH_HOME to a "
            "folder you can write"
        ) from error
    return Home(root)


def open_tidy_home(override: Path | None = None) -> Home:
    """The home folder, without what killed processes left in it: for commands that write much."""
    home = open_home(override)
    remove_left_over(home.root, skip=ARTIFACTS)
    return home
