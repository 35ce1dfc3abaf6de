"""`gb.sweep`: a search over knobs, and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from PIL import Image

from gsnobench.api.keywords import refuse_unknown
from gsnobench.api.progress import progress_if
from gsnobench.errors import ParamError, RunError, did_you_mean
from gsnobench.home import open_tidy_home
from gsnobench.params import Value, words_of
from gsnobench.runs.request import Request
from gsnobench.shown import facts_html
from gsnobench.sweeps.conduct import conduct, describe
from gsnobench.sweeps.workers import WorkerOptions

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult:
    """What a sweep found: the best point, the winner with its test errors, and all trials."""

    document: Mapping[str, Any]  # as `gsnobench sweep --json` prints it
    folder: Path  # with its tables and pictures

    @property
    def status(self) -> str:
        """`done`, `diverged` or `failed`."""
        return str(self.document["status"])

    @property
    def best(self) -> dict[str, Value]:
        """The chosen point: the winner of the refits, or without refits the best trial."""
        found = self.document.get("winner") or self.document.get("best")
        if not found:
            raise RunError(f"sweep: has no best point; {self.document.get('reason', self.status)}")
        return dict(found["point"])

    @property
    def trials(self) -> pandas.DataFrame:
        """One line per trial: its knobs, its validation error, its costs."""
        import pandas

        return pandas.read_csv(self.folder / "trials.csv")

    def plot(self, name: str = "") -> Image.Image:
        """A picture of the sweep by name, or the first: importance, error over one knob or two."""
        pictures = {path.stem: path for path in sorted(self.folder.glob("*.png"))}
        if not pictures:
            raise RunError(f"{self.folder}: has no picture; a sweep needs four trials for one")
        if name and name not in pictures:
            raise ParamError(f"plot: no picture {name!r}; {did_you_mean(name, pictures)}")
        with Image.open(pictures[name or next(iter(pictures))]) as picture:
            return picture.copy()

    def __repr__(self) -> str:
        return f"<SweepResult {self._title}: {self._facts().get('best point', self.status)}>"

    def _repr_html_(self) -> str:
        return facts_html(self._title, self._facts())

    @property
    def _title(self) -> str:
        facts = self.document
        return f"{facts['row']} on {facts['task']}, track {facts['track']}"

    def _facts(self) -> dict[str, str]:
        facts, winner = self.document, self.document.get("winner", {})
        counts = [f"{count} {name}" for name, count in facts["trials"].items() if count]
        best = describe(self.best) if facts.get("best") else ""
        valid = winner.get("mean", facts.get("best", {}).get("valid"))
        test = winner.get("test_mean")
        return {
            "ended": f"{self.status} {facts.get('reason', '')}".strip(),
            "trials": ", ".join(counts),
            "best point": best,
            "validation error": "" if valid is None else f"{valid:.4g}",
            "test error": "" if test is None else f"{test:.4g}",
            "folder": str(self.folder),
        }


def sweep(
    model: str,
    dataset: str | Path,
    over: Sequence[str] | str = (),
    *,
    trials: int = 30,
    track: str = "laptop",
    preset: str | None = None,
    seed: int = 0,
    knobs: Mapping[str, Value] | None = None,
    sampler: str = "tpe",
    pruner: str = "none",
    minimise: str = "error",
    refit_seeds: Sequence[int] = (0, 1, 2),
    refit_top: int = 3,
    trial_cpu_s: float = 0.0,
    name: str = "",
    storage: str = "",
    study: Path | str | None = None,
    workers: int = 1,
    threads: int = 1,
    device: str = "auto",
    home: Path | str | None = None,
    progress: bool | None = None,
    **unknown: Never,
) -> SweepResult:
    """Search knobs on validation, refit the best, score the winner once on test.

    What `gsnobench sweep` does: the same call goes on where it stopped.

        model        name of a model plugin, such as "gsno"
        dataset      task ("nse", "swe@10-41") or the path of a NetCDF file
        over         knobs: "model.k_s", "model.k_s=4..64", "model.k_s=4:8:16"; none: central ones
        trials       points to try
        track        budget: "smoke", "laptop", "workstation" or "paper"
        preset       configuration of the model
        seed         of the trials' training
        knobs        other settings, fixed: {"train.steps": 500}
        sampler      "tpe", "grid", "random" or "gp"
        pruner       "none", "median" or "hyperband": end poor trials early
        minimise     "error"; or "error,seconds" or "error,parameters" for a Pareto front
        refit_seeds  seeds that judge the best points
        refit_top    best points that are refitted; 0: the test split is never opened
        trial_cpu_s  CPU-seconds of each trial; 0: the steps of the row
        name         of the study; empty: from what is searched
        storage      "sqlite:///FILE" or "postgresql+psycopg://..."; empty: a journal in the home
        study        file that keeps the finished trials
        workers      processes that try points
        threads      per process
        device       "auto", "cpu", "cuda" or "cuda:1"
        home         folder for data, runs and records; None: $GSNOBENCH_HOME or the usual one
        progress     show it; None: in a notebook and in a terminal
    """
    refuse_unknown(sweep, unknown)
    request = Request(
        model=model,
        dataset=str(dataset),
        track=track,
        preset=preset,
        seed=seed,
        knobs={name: str(value) for name, value in (knobs or {}).items()},
    )
    root = open_tidy_home(None if home is None else Path(home)).root
    options = WorkerOptions(root, storage, device, workers=workers, threads=threads)
    with progress_if(progress) as report:
        document, folder = conduct(
            request,
            words_of(over) if isinstance(over, str) else over,
            options,
            report=report,
            say=lambda text: None,
            study=None if study is None else Path(study),
            name=name,
            minimise=minimise,
            trials=trials,
            sampler=sampler,
            pruner=pruner,
            refit_seeds=tuple(refit_seeds),
            refit_top=refit_top,
            trial_cpu_s=trial_cpu_s,
        )
    return SweepResult(document, folder)
