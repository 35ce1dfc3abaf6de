"""What `gb.run` returns: the result of a run that also finds and shows its pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gsnobench.errors import ParamError, RunError, did_you_mean
from gsnobench.home import Home, RunFolder, open_home
from gsnobench.records import RunResult
from gsnobench.shown import facts_html


@dataclass(frozen=True, repr=False)
class Result(RunResult):
    """The result of a run: scores, costs, the curve, and the pictures in its folder.

    `headline` is the test error; `scores["test"]["height"]["rmse"]` any other number; `curve` a
    list of points with step, loss and validation error (`pandas.DataFrame(result.curve)`).
    """

    home: Home | None = None  # where the run lives; None: the usual home
    floors: tuple[RunResult, ...] = ()  # results of the floors on the same task, if they were run

    @property
    def folder(self) -> RunFolder:
        """The folder of the run, with its pictures, weights and records."""
        return (self.home or open_home()).run_folder(self.spec.key)

    @property
    def best_floor(self) -> RunResult | None:
        """The floor with the smallest test error, if floors were run."""
        return best_of(self.floors)

    def plot(self, name: str = "") -> Image.Image:
        """A picture of the run; a notebook shows it, `.save(path)` keeps it.

        Without a name it is that of the test cases, with all scored quantities. `curve` is the
        training.
        """
        pictures = {_short(path): path for path in sorted(self.folder.figures.glob("*.png"))}
        if not pictures:
            raise RunError(
                f"run {self.spec.short}: has no picture in {self.folder.figures}; neither floors "
                "nor runs that failed are drawn, and nothing is with GSNOBENCH_PICTURES=none"
            )
        cases = next((found for found in pictures if found != "curve"), "curve")
        if name and name not in pictures:
            raise ParamError(f"plot: no picture {name!r}; {did_you_mean(name, pictures)}")
        return _opened(pictures[name or ("cases" if "cases" in pictures else cases)])

    def facts(self) -> dict[str, str]:
        """What a reader wants to know first; with floors, how far they are away."""
        floor = self.best_floor
        verdict = "" if floor is None or self.status != "done" else against(self, floor)
        return {**super().facts(), "beside floors": verdict}

    def _repr_html_(self) -> str:
        return facts_html(self.spec.title, self.facts())


def best_of(results: Sequence[RunResult]) -> RunResult | None:
    """The result with the smallest test error, of those that have one."""
    scored = [result for result in results if math.isfinite(result.headline)]
    return min(scored, key=lambda result: result.headline, default=None)


def against(result: RunResult, floor: RunResult) -> str:
    """The error of a result in relation to that of the best floor."""
    best = floor.headline
    return f"{result.headline / best:.3g} times the best floor, {floor.spec.model} ({best:.4g})"


def _short(path: Path) -> str:
    """`cases_pressure.png` -> pressure, `curve.png` -> curve."""
    return path.stem.removeprefix("cases_")


def _opened(path: Path) -> Image.Image:
    with Image.open(path) as picture:
        return picture.copy()
