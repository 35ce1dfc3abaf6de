"""Tables and pictures of a sweep: importance, error over one knob, over two, the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.tri import Triangulation
from optuna.trial import FrozenTrial, TrialState

from gsnobench.drawing.page import Page
from gsnobench.drawing.rules import (
    FAINT,
    FIELD_COLOURS,
    FIRST,
    GRID,
    INK,
    LARGE,
    NORMAL,
    SECOND,
    SMALL,
)
from gsnobench.drawing.scales import Scale
from gsnobench.files import write_csv
from gsnobench.sweeps.search import Search
from gsnobench.sweeps.space import Axis
from gsnobench.sweeps.trials import Trials

Numbers = Sequence[float] | np.ndarray[Any, Any]
DOT, LINE, SEEDS, FRONT = "#9db4c8", FIRST, SECOND, "#009E73"
FEWEST = 4  # trials; with fewer there is nothing to see
TITLES = {
    "error": "validation error",
    "seconds": "CPU seconds of training",
    "parameters": "trained numbers",
}


def write_all(
    folder: Path, search: Search, trials: Trials, result: Mapping[str, Any]
) -> list[Path]:
    """All tables and pictures that this search can have; returns the files."""
    counted = trials.counted()
    done = [trial for trial in counted if trial.state == TrialState.COMPLETE]
    numbers = [axis for axis in search.axes if axis.is_number]
    title = f"{result['row']} on {result['task']}, {result['track']}"
    files = [_trials_table(folder, search, counted)]
    if result.get("refits"):
        files.append(_refits_table(folder, search, result["refits"]))
    if len(done) >= FEWEST:
        files += _importance(folder, trials.study, title)
        files += [_curve(folder, axis, done, result, title) for axis in numbers]
        if len(numbers) >= 2:
            files += _contour(folder, numbers[0], numbers[1], done, result, title)
    if "pareto" in result:
        files += _pareto(folder, search, done, result, title)
    return files


# ------------------------------------------------------------------------------------------- tables


def _trials_table(folder: Path, search: Search, counted: Sequence[FrozenTrial]) -> Path:
    names = [axis.name for axis in search.axes]
    costs, facts = ["train_cpu_s", "parameters"], ["status", "reason", "worker"]
    rows = []
    for trial in counted:
        attributes, is_done = trial.user_attrs, trial.state == TrialState.COMPLETE
        point = [trial.params.get(name, "") for name in names]
        values = trial.values if is_done else [""] * len(search.objectives)
        own = [attributes.get("costs", {}).get(name, "") for name in costs]
        own += [attributes.get(name, "") for name in facts]
        key = str(attributes.get("key", ""))[:12]
        rows.append([trial.number, *point, *values, *own, key])
    header = ["trial", *names, *search.objectives, *costs, *facts, "key"]
    return write_csv(folder / "trials.csv", header, rows)


def _refits_table(folder: Path, search: Search, refits: Sequence[Mapping[str, Any]]) -> Path:
    names = [axis.name for axis in search.axes]
    rows = []
    for refit in refits:
        point = [refit["point"].get(name, "") for name in names]
        rows += [[*point, seed, error] for seed, error in refit["seeds"].items()]
    return write_csv(folder / "refits.csv", [*names, "seed", "error"], rows)


# ----------------------------------------------------------------------------------------- pictures


def _importance(folder: Path, study: optuna.Study, title: str) -> list[Path]:
    """Which knob explains the error; none where Optuna cannot tell (all trials alike)."""
    shares = _shares(study)
    if not shares or not all(math.isfinite(value) for value in shares.values()):
        return []
    count = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
    page = Page(6.4, 1.25 + 0.34 * len(shares))
    heading = "Which knob explains the validation error"
    page.text(0.35, 0.25, heading, fontsize=LARGE, fontweight="bold")
    page.text(0.35, 0.5, title, fontsize=SMALL, color=FAINT)
    axes = page.axes(1.6, 0.75, 4.4, 0.34 * len(shares))
    names = list(shares)[::-1]
    axes.barh(names, [shares[name] for name in names], color=LINE, height=0.55)
    style: dict[str, Any] = {"va": "center", "fontsize": SMALL, "color": INK}
    for index, name in enumerate(names):
        axes.text(shares[name] + 0.015, index, f"{shares[name]:.2f}", **style)
    axes.set_xlim(0, 1.1)
    axes.set_xticks([])
    axes.tick_params(labelsize=NORMAL, length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    note = f"share of the variance, estimated from {count} trials (fANOVA): a rough guide"
    page.text(1.6, page.height - 0.22, note, fontsize=SMALL, color=FAINT)
    picture = folder / "figures" / "importance.png"
    page.save(picture)
    table = write_csv(folder / "importance.csv", ["knob", "importance"], list(shares.items()))
    return [table, picture]


def _shares(study: optuna.Study) -> dict[str, float]:
    """Share of the variance of the error by knob; empty where there is nothing to explain.

    A rough guide: of 44 trials with a knob that had no effect at all, fANOVA gave it 0.46 and
    Optuna's default, PED-ANOVA, 0.98.
    """
    fanova = optuna.importance.FanovaImportanceEvaluator(seed=0)
    with suppress(ValueError, RuntimeError):  # what Optuna raises where there is nothing to explain
        return optuna.importance.get_param_importances(
            study, evaluator=fanova, target=lambda trial: trial.values[0]
        )
    return {}


def _curve(
    folder: Path, axis: Axis, done: Sequence[FrozenTrial], result: Mapping[str, Any], title: str
) -> Path:
    """Error over one knob: trials, the best at each value, refits with the range of their seeds."""
    with_knob = [trial for trial in done if axis.name in trial.params]
    pairs = sorted((float(trial.params[axis.name]), trial.values[0]) for trial in with_knob)
    best: dict[float, float] = {}
    for value, error in pairs:
        best[value] = min(error, best.get(value, math.inf))
    page, axes = _sheet(f"Validation error over {axis.name}", title)
    axes.plot(*zip(*pairs, strict=True), "o", color=DOT, ms=4, label="a trial")
    label = "best trial at this value"
    axes.plot(list(best), list(best.values()), color=LINE, linewidth=1.3, label=label)
    _draw_refits(axes, axis, result.get("refits", []))
    _scale(axes, axis, [value for value, _ in pairs])
    _finish(axes, axis.name, TITLES["error"], is_log=True)
    path = folder / "figures" / f"over-{axis.name}.png"
    page.save(path)
    return path


def _draw_refits(axes: Axes, axis: Axis, refits: Sequence[Mapping[str, Any]]) -> None:
    """Mean and range of the seeds of each refitted point."""
    bands = []
    for refit in refits:
        errors = _finite(refit["seeds"].values())
        if axis.name in refit["point"] and errors:
            bands.append((float(refit["point"][axis.name]), errors))
    style: dict[str, Any] = {"fmt": "D", "color": SEEDS, "ms": 4.5, "capsize": 3, "linewidth": 1.2}
    for number, (value, errors) in enumerate(sorted(bands)):
        middle = float(np.mean(errors))
        reach = [[middle - min(errors)], [max(errors) - middle]]
        label = f"refit, mean and range of {len(errors)} seeds" if number == 0 else None
        axes.errorbar([value], [middle], yerr=reach, label=label, **style)


def _contour(
    folder: Path,
    across: Axis,
    up: Axis,
    done: Sequence[FrozenTrial],
    result: Mapping[str, Any],
    title: str,
) -> list[Path]:
    """The error between the trials of two knobs, best of the others; none without an area."""
    best = _best_at(across, up, done)
    x, y = (np.array([pair[side] for pair in best]) for side in range(2))
    try:
        mesh = Triangulation(_flat(across, x), _flat(up, y))
    except (ValueError, RuntimeError):  # all on one line
        return []
    errors = np.log10(np.array(list(best.values())))
    page, axes = _sheet(f"Validation error over {across.name} and {up.name}", title, width=4.7)
    scale = Scale.spanning(errors, "validation error", FIELD_COLOURS)
    levels = np.linspace(scale.low, scale.high, 13)
    triangles = Triangulation(x, y, mesh.triangles)
    drawn = axes.tricontourf(triangles, errors, levels=levels, cmap=FIELD_COLOURS)
    axes.plot(x, y, "o", color="white", ms=4, mec=INK, mew=0.6, clip_on=False)
    _mark_best(axes, across, up, result)
    bar = page.figure.colorbar(
        drawn,
        cax=page.axes(5.6, 0.85, 0.14, 2.35),
        format=FuncFormatter(lambda value, _: f"{10**value:.3g}"),
    )
    bar.locator = MaxNLocator(5)
    bar.update_ticks()
    bar.ax.tick_params(labelsize=SMALL)
    for axis, values in ((across, x), (up, y)):
        _scale(axes, axis, values, is_vertical=axis is up)
    axes.set_xlabel(across.name, fontsize=NORMAL)
    axes.set_ylabel(up.name, fontsize=NORMAL)
    axes.tick_params(labelsize=SMALL, which="both")
    picture = folder / "figures" / "contour.png"
    page.save(picture)
    rows = [[*pair, error] for pair, error in best.items()]
    return [write_csv(folder / "contour.csv", [across.name, up.name, "error"], rows), picture]


def _best_at(
    across: Axis, up: Axis, done: Sequence[FrozenTrial]
) -> dict[tuple[float, float], float]:
    """The least error at each pair of values."""
    best: dict[tuple[float, float], float] = {}
    for trial in done:
        if across.name in trial.params and up.name in trial.params:
            pair = (float(trial.params[across.name]), float(trial.params[up.name]))
            best[pair] = min(trial.values[0], best.get(pair, math.inf))
    return best


def _mark_best(axes: Axes, across: Axis, up: Axis, result: Mapping[str, Any]) -> None:
    """A star at the winner, or at the best trial."""
    label = "winner" if "winner" in result else "best"
    point = result[label]["point"]
    if across.name not in point or up.name not in point:
        return
    x, y = [point[across.name]], [point[up.name]]
    axes.plot(x, y, "*", color=SEEDS, ms=13, mec="white", label=label, clip_on=False)
    axes.legend(frameon=False, fontsize=SMALL, loc="lower right", bbox_to_anchor=(1.0, 1.0))


def _pareto(
    folder: Path, search: Search, done: Sequence[FrozenTrial], result: Mapping[str, Any], title: str
) -> list[Path]:
    """The front of error and price, among all trials; the second goal is the price."""
    names = [axis.name for axis in search.axes]
    front = result["pareto"]
    rows = [
        [*(entry["point"].get(name, "") for name in names), *entry["values"]] for entry in front
    ]
    table = write_csv(folder / "pareto.csv", [*names, *search.objectives], rows)
    if not done:
        return [table]
    price = search.objectives[1]
    page, axes = _sheet(f"Error against {TITLES[price]}", title)
    errors, prices = ([trial.values[goal] for trial in done] for goal in range(2))
    axes.plot(prices, errors, "o", color=DOT, ms=4, label="a trial")
    steps = zip(*sorted((entry["values"][1], entry["values"][0]) for entry in front), strict=True)
    style: dict[str, Any] = {"color": FRONT, "linewidth": 1.3, "marker": "o", "ms": 4.5}
    axes.step(*steps, where="post", label="Pareto front", **style)
    axes.set_xscale("log")
    _plain(axes.xaxis, prices)
    _finish(axes, TITLES[price], TITLES["error"], is_log=True)
    picture = folder / "figures" / "pareto.png"
    page.save(picture)
    return [table, picture]


# ------------------------------------------------------------------------------------- small pieces


def _sheet(heading: str, title: str, width: float = 5.4) -> tuple[Page, Axes]:
    page = Page(6.4, 3.8)
    page.text(0.75, 0.25, heading, fontsize=LARGE, fontweight="bold")
    page.text(0.75, 0.5, title, fontsize=SMALL, color=FAINT)
    return page, page.axes(0.75, 0.85, width, 2.35)


def _finish(axes: Axes, below: str, beside: str, *, is_log: bool) -> None:
    axes.set_xlabel(below, fontsize=NORMAL)
    axes.set_ylabel(beside, fontsize=NORMAL)
    if is_log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        finer = tuple(np.arange(1.0, 10.0, 1.0 if high / low > 1.6 else 0.25))
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low > 8 else finer))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", color=GRID, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, which="both")
    corner: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
    axes.legend(frameon=False, fontsize=SMALL, ncols=3, **corner)


def _scale(axes: Axes, axis: Axis, values: Numbers, *, is_vertical: bool = False) -> None:
    """Logarithmic where the knob is; whole numbers as they are written."""
    side = axes.yaxis if is_vertical else axes.xaxis
    if axis.knob.log:
        set_scale = axes.set_yscale if is_vertical else axes.set_xscale
        set_scale("log", base=2 if axis.knob.type is int else 10)
        _plain(side, values)
        side.set_view_interval(min(values) / 1.1, max(values) * 1.1, ignore=True)
    elif axis.knob.type is int:
        side.set_major_locator(MaxNLocator(8, integer=True))
        reach = 0.05 * (max(values) - min(values) or 1)
        side.set_view_interval(min(values) - reach, max(values) + reach, ignore=True)


def _plain(side: Any, values: Numbers) -> None:
    """Numbers instead of powers on a logarithmic side; more of them where it spans little."""
    low, high = min(values), max(values)
    if high / low < 100:
        is_wide = high / low > 3
        side.set_major_locator(LogLocator(base=2, subs=(1.0,)) if is_wide else MaxNLocator(5))
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    side.set_minor_locator(NullLocator())


def _flat(axis: Axis, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Positions on the page, in [0, 1]: triangles are made in the scale of the picture."""
    scaled = np.log(values) if axis.knob.log else np.asarray(values)
    spread = np.ptp(scaled) or 1.0
    return np.asarray((scaled - scaled.min()) / spread)


def _finite(errors: Any) -> list[float]:
    return [float(error) for error in errors if error is not None and math.isfinite(float(error))]
