"""A sweep as pictures and tables: what matters, two knobs at once, error over one knob with its
seeds, the Pareto front.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.tri import Triangulation
from optuna.trial import FrozenTrial, TrialState

from gsnobench.files import write_text
from gsnobench.runs.drawing import FAINT, FIELD_COLOURS, INK, LARGE, NORMAL, SMALL, Page, Scale
from gsnobench.runs.gallery import TRAIN, VALID
from gsnobench.sweep.search import Search
from gsnobench.sweep.space import Axis
from gsnobench.sweep.trials import Trials

DOT, LINE, SEEDS, FRONT = "#9db4c8", TRAIN, VALID, "#009E73"
FEWEST = 4  # trials without which there is nothing to see
TITLES = {
    "error": "validation error",
    "seconds": "CPU seconds of training",
    "parameters": "trained numbers",
}


def write_all(folder: Path, search: Search, trials: Trials, found: Mapping[str, Any]) -> list[Path]:
    """All tables and pictures that this search can have; returns the files."""
    done = [one for one in trials.answered() if one.state == TrialState.COMPLETE]
    numbers = [axis for axis in search.axes if axis.is_number]
    title = f"{found['row']} on {found['task']}, {found['track']}"
    files = [_trials_table(folder, search, trials.answered())]
    if found.get("refits"):
        files.append(_refits_table(folder, search, found["refits"]))
    if len(done) >= FEWEST:
        files += _importance(folder, trials.study, title)
        files += [_curve(folder, axis, done, found, title) for axis in numbers]
        if len(numbers) >= 2:
            files += _contour(folder, numbers[0], numbers[1], done, found, title)
    if "pareto" in found:
        files += _pareto(folder, search, done, found, title)
    return files


# ------------------------------------------------------------------------------------------- tables


def table(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """A CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    write_text(path, text.getvalue())
    return path


def _trials_table(folder: Path, search: Search, told: Sequence[FrozenTrial]) -> Path:
    names = [axis.name for axis in search.axes]
    rows = []
    for one in told:
        values = one.values if one.state == TrialState.COMPLETE else [""] * len(search.objectives)
        facts = [one.user_attrs.get(name, "") for name in ("status", "reason", "worker")]
        key = str(one.user_attrs.get("key", ""))[:12]
        costs = [
            one.user_attrs.get("costs", {}).get(name, "") for name in ("train_cpu_s", "parameters")
        ]
        rows.append(
            [
                one.number,
                *(one.params.get(name, "") for name in names),
                *values,
                *costs,
                *facts,
                key,
            ]
        )
    header = [
        "trial",
        *names,
        *search.objectives,
        "train_cpu_s",
        "parameters",
        "status",
        "reason",
        "worker",
        "key",
    ]
    return table(folder / "trials.csv", header, rows)


def _refits_table(folder: Path, search: Search, refits: Sequence[Mapping[str, Any]]) -> Path:
    names = [axis.name for axis in search.axes]
    rows = [
        [*(one["point"].get(name, "") for name in names), seed, error]
        for one in refits
        for seed, error in one["seeds"].items()
    ]
    return table(folder / "refits.csv", [*names, "seed", "error"], rows)


# ----------------------------------------------------------------------------------------- pictures


def _importance(folder: Path, study: optuna.Study, title: str) -> list[Path]:
    """Which knob explains the error; none where Optuna cannot tell (all trials alike)."""
    # a rough guide: of 44 trials with a knob that had no effect at all, fANOVA gave it 0.46 and
    # Optuna's default, PED-ANOVA, 0.98
    shares: dict[str, float] = {}
    with suppress(ValueError, RuntimeError):  # what Optuna raises where there is nothing to explain
        fanova = optuna.importance.FanovaImportanceEvaluator(seed=0)
        shares = optuna.importance.get_param_importances(
            study, evaluator=fanova, target=lambda one: one.values[0]
        )
    count = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
    if not shares or not all(math.isfinite(value) for value in shares.values()):
        return []
    page = Page(6.4, 1.25 + 0.34 * len(shares))
    page.text(
        0.35, 0.25, "Which knob explains the validation error", fontsize=LARGE, fontweight="bold"
    )
    page.text(0.35, 0.5, title, fontsize=SMALL, color=FAINT)
    axes = page.axes(1.6, 0.75, 4.4, 0.34 * len(shares))
    names = list(shares)[::-1]
    axes.barh(names, [shares[name] for name in names], color=LINE, height=0.55)
    for place, name in enumerate(names):
        axes.text(
            shares[name] + 0.015,
            place,
            f"{shares[name]:.2f}",
            va="center",
            fontsize=SMALL,
            color=INK,
        )
    axes.set_xlim(0, 1.1)
    axes.set_xticks([])
    axes.tick_params(labelsize=NORMAL, length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    page.text(
        1.6,
        page.height - 0.22,
        f"share of the variance, estimated from {count} trials (fANOVA): a rough guide",
        fontsize=SMALL,
        color=FAINT,
    )
    page.save(folder / "figures" / "importance.png")
    return [
        table(folder / "importance.csv", ["knob", "importance"], list(shares.items())),
        folder / "figures" / "importance.png",
    ]


def _curve(
    folder: Path, axis: Axis, done: Sequence[FrozenTrial], found: Mapping[str, Any], title: str
) -> Path:
    """Error over one knob: every trial, the best at each value, and the refits with the range of
    their seeds.
    """
    pairs = sorted(
        (float(one.params[axis.name]), one.values[0]) for one in done if axis.name in one.params
    )
    best: dict[float, float] = {}
    for value, error in pairs:
        best[value] = min(error, best.get(value, math.inf))
    page, axes = _sheet(f"Validation error over {axis.name}", title)
    axes.plot(*zip(*pairs, strict=True), "o", color=DOT, ms=4, label="a trial")
    axes.plot(
        list(best), list(best.values()), color=LINE, linewidth=1.3, label="best trial at this value"
    )
    bands = [
        (float(one["point"][axis.name]), _finite(one["seeds"].values()))
        for one in found.get("refits", [])
        if axis.name in one["point"]
    ]
    for number, (value, errors) in enumerate(sorted(band for band in bands if band[1])):
        middle = float(np.mean(errors))
        reach = [[middle - min(errors)], [max(errors) - middle]]
        told = f"refit, mean and range of {len(errors)} seeds" if number == 0 else None
        axes.errorbar(
            [value],
            [middle],
            yerr=reach,
            fmt="D",
            color=SEEDS,
            ms=4.5,
            capsize=3,
            linewidth=1.2,
            label=told,
        )
    _scale(axes, axis, [value for value, _ in pairs])
    _finish(axes, axis.name, TITLES["error"], is_log=True)
    path = folder / "figures" / f"over-{axis.name}.png"
    page.save(path)
    return path


def _contour(
    folder: Path,
    across: Axis,
    up: Axis,
    done: Sequence[FrozenTrial],
    found: Mapping[str, Any],
    title: str,
) -> list[Path]:
    """The error between the trials of two knobs, best of the others; needs points that span an
    area.
    """
    best: dict[tuple[float, float], float] = {}
    for one in done:
        if across.name in one.params and up.name in one.params:
            place = (float(one.params[across.name]), float(one.params[up.name]))
            best[place] = min(one.values[0], best.get(place, math.inf))
    x, y = (np.array([place[n] for place in best]) for n in range(2))
    flat = [_flat(axis, values) for axis, values in ((across, x), (up, y))]
    try:
        mesh = Triangulation(*flat)
    except (ValueError, RuntimeError):  # all on one line
        return []
    errors = np.log10(np.array(list(best.values())))
    page, axes = _sheet(f"Validation error over {across.name} and {up.name}", title, width=4.7)
    scale = Scale.spanning(errors, "validation error", FIELD_COLOURS)
    levels = np.linspace(scale.low, scale.high, 13)
    drawn = axes.tricontourf(
        Triangulation(x, y, mesh.triangles), errors, levels=levels, cmap=FIELD_COLOURS
    )
    axes.plot(x, y, "o", color="white", ms=4, mec=INK, mew=0.6, clip_on=False)
    point = (found.get("winner") or found["best"])["point"]
    if across.name in point and up.name in point:
        told = "winner" if "winner" in found else "best"
        axes.plot(
            [point[across.name]],
            [point[up.name]],
            "*",
            color=SEEDS,
            ms=13,
            mec="white",
            label=told,
            clip_on=False,
        )
        axes.legend(frameon=False, fontsize=SMALL, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    bar = page.figure.colorbar(
        drawn,
        cax=page.axes(5.6, 0.85, 0.14, 2.35),
        format=FuncFormatter(lambda v, _: f"{10**v:.3g}"),
    )
    bar.locator = MaxNLocator(5)
    bar.update_ticks()
    bar.ax.tick_params(labelsize=SMALL)
    for axis, values in ((across, x), (up, y)):
        _scale(axes, axis, values, is_vertical=axis is up)
    axes.set_xlabel(across.name, fontsize=NORMAL)
    axes.set_ylabel(up.name, fontsize=NORMAL)
    axes.tick_params(labelsize=SMALL, which="both")
    path = folder / "figures" / "contour.png"
    page.save(path)
    return [
        table(
            folder / "contour.csv",
            [across.name, up.name, "error"],
            [[*place, best[place]] for place in best],
        ),
        path,
    ]


def _pareto(
    folder: Path, search: Search, done: Sequence[FrozenTrial], found: Mapping[str, Any], title: str
) -> list[Path]:
    """The front of error and price, among all trials; the second goal is the price."""
    names = [axis.name for axis in search.axes]
    front = found["pareto"]
    rows = [[*(one["point"].get(name, "") for name in names), *one["values"]] for one in front]
    files = [table(folder / "pareto.csv", [*names, *search.objectives], rows)]
    if not done:
        return files
    price = search.objectives[1]
    page, axes = _sheet(f"Error against {TITLES[price]}", title)
    axes.plot(
        [one.values[1] for one in done],
        [one.values[0] for one in done],
        "o",
        color=DOT,
        ms=4,
        label="a trial",
    )
    steps = sorted((one["values"][1], one["values"][0]) for one in front)
    axes.step(
        *zip(*steps, strict=True),
        where="post",
        color=FRONT,
        linewidth=1.3,
        marker="o",
        ms=4.5,
        label="Pareto front",
    )
    axes.set_xscale("log")
    _plain(axes.xaxis, [one.values[1] for one in done])
    _finish(axes, TITLES[price], TITLES["error"], is_log=True)
    path = folder / "figures" / "pareto.png"
    page.save(path)
    return [*files, path]


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
        subs = (
            (1.0, 2.0, 5.0)
            if high / low > 8
            else tuple(np.arange(1.0, 10.0, 1.0 if high / low > 1.6 else 0.25))
        )
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, which="both")
    axes.legend(
        frameon=False, fontsize=SMALL, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0)
    )


def _scale(
    axes: Axes,
    axis: Axis,
    values: Sequence[float] | np.ndarray[Any, Any],
    *,
    is_vertical: bool = False,
) -> None:
    """Logarithmic where the knob is; whole numbers as they are written."""
    side = axes.yaxis if is_vertical else axes.xaxis
    if axis.knob.log:
        (axes.set_yscale if is_vertical else axes.set_xscale)(
            "log", base=2 if axis.knob.type is int else 10
        )
        _plain(side, values)
        side.set_view_interval(min(values) / 1.1, max(values) * 1.1, ignore=True)
    elif axis.knob.type is int:
        side.set_major_locator(MaxNLocator(8, integer=True))
        reach = 0.05 * (max(values) - min(values) or 1)
        side.set_view_interval(min(values) - reach, max(values) + reach, ignore=True)


def _plain(side: Any, values: Sequence[float] | np.ndarray[Any, Any]) -> None:
    """Numbers instead of powers on a logarithmic side; more of them where it spans little."""
    low, high = min(values), max(values)
    if high / low < 100:
        side.set_major_locator(
            LogLocator(base=2, subs=(1.0,)) if high / low > 3 else MaxNLocator(5)
        )
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    side.set_minor_locator(NullLocator())


def _flat(axis: Axis, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where values lie on paper, in [0, 1]: triangles are made as they are seen."""
    seen: Callable[[Any], Any] = np.log if axis.knob.log else np.asarray
    spread = np.ptp(seen(values)) or 1.0
    return np.asarray((seen(values) - seen(values).min()) / spread)


def _finite(errors: Any) -> list[float]:
    return [float(one) for one in errors if one is not None and math.isfinite(float(one))]
