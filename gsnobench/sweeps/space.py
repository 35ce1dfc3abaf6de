"""What a sweep varies: knobs as axes, their values, and the conditions between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gsnobench.errors import ParamError, did_you_mean
from gsnobench.params import Knob, Value
from gsnobench.runs.plan import Plan

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

Point = Mapping[str, Value]  # by dotted knob; a knob that does not matter there is left out
STEPS = 8  # values of a range in a grid
FEW = 16  # a range of fewer whole numbers is in a grid as it is
BUDGET = ("train.steps", "train.epochs")


@dataclass(frozen=True)
class Axis:
    """One searched knob and the part of its values that is searched."""

    name: str  # dotted: model.k_s
    knob: Knob
    values: tuple[Value, ...] = ()  # all values; empty: the range from low to high
    low: float = 0.0
    high: float = 0.0

    @property
    def is_number(self) -> bool:
        return self.knob.type in (int, float)

    def describe(self) -> str:
        """The searched values as `--over` reads them."""
        if self.values:
            return f"{self.name}={':'.join(str(value) for value in self.values)}"
        return f"{self.name}={self.low:g}..{self.high:g}"

    def holds(self, value: Value) -> bool:
        """Whether a value is among the searched ones."""
        return value in self.values if self.values else self.low <= float(value) <= self.high

    def distribution(self) -> BaseDistribution:
        """The axis as a distribution of Optuna."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.values:
            return CategoricalDistribution(self.values)
        if self.knob.type is int:
            return IntDistribution(int(self.low), int(self.high), log=self.knob.log)
        return FloatDistribution(self.low, self.high, log=self.knob.log)

    def suggest(self, trial: Trial) -> Value:
        """A value for a trial, from its sampler or from what was enqueued."""
        if self.values:
            chosen = trial.suggest_categorical(self.name, self.values)
            assert chosen is not None
            return chosen
        if self.knob.type is int:
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.knob.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.knob.log)

    def grid(self) -> tuple[Value, ...]:
        """A few values that cover the axis: doublings of a logarithmic whole number, else even."""
        if self.values:
            return self.values
        if self.knob.type is int and self.knob.log:
            count = int(math.log2(self.high / self.low)) + 1
            doublings = [int(self.low) * 2**n for n in range(count)]
            return tuple(dict.fromkeys([*doublings, int(self.high)]))
        if self.knob.type is int:
            low, high = int(self.low), int(self.high)
            if high - low < FEW:
                return tuple(range(low, high + 1))
            return tuple(round(low + n * (high - low) / (STEPS - 1)) for n in range(STEPS))
        ends = (math.log(self.low), math.log(self.high)) if self.knob.log else (self.low, self.high)
        spaced = [ends[0] + n * (ends[1] - ends[0]) / (STEPS - 1) for n in range(STEPS)]
        return tuple(
            min(max(math.exp(x) if self.knob.log else x, self.low), self.high) for x in spaced
        )


# --------------------------------------------------------------------------------------------- axes


def axes_of(over: Sequence[str], plan: Plan, fixed: Mapping[str, str]) -> tuple[Axis, ...]:
    """The axes of `--over`, in declared order, so that a condition precedes what depends on it.

    An entry is a knob (`model.k_s`), a knob with a narrower range (`model.k_s=4..64`) or with
    values (`model.k_s=4:8:16`); with values it may be any knob. Without entries the central knobs
    of the model are searched, or all of its knobs if it declares none as central.
    """
    declared = _declared(plan)
    searched = {name: knob for name, knob in declared.items() if knob.is_searched}
    requested = list(over) or _central(searched, plan)
    requested = requested or [name for name in searched if name.startswith("model.")]
    if not requested:
        raise ParamError(
            f"over: {plan.model.name} declares no knob to search; name one of train: "
            f"{_names(searched)}"
        )
    axes: dict[str, Axis] = {}
    for text in requested:
        name, _, values = text.partition("=")
        is_listed = ":" in values and name in declared  # a person may list values of any knob
        if name not in searched and not is_listed:
            raise ParamError(_refusal(name, declared, searched))
        if name in fixed:
            raise ParamError(
                f"{name}: is both fixed by --{name} and searched by --over; drop one of them"
            )
        if name in axes:
            raise ParamError(f"over: {name} is named twice; name it once")
        axis = _axis(name, declared[name], values)
        axes[name] = axis if values else _with_own_value(axis, _values(plan)[name])
    for axis in axes.values():
        _check_condition(axis, axes, plan)
    return tuple(axes[name] for name in declared if name in axes)


def _with_own_value(axis: Axis, value: Value) -> Axis:
    """A range that was not asked for holds the preset's own value too."""
    if axis.values or isinstance(value, str):
        return axis
    return replace(axis, low=min(axis.low, float(value)), high=max(axis.high, float(value)))


def _central(searched: Mapping[str, Knob], plan: Plan) -> list[str]:
    """The central knobs; the first alone if one frame is predicted: the others act in time."""
    names = [name for name, knob in searched.items() if knob.central]
    return names if plan.task.t_out > 1 else names[:1]


def _check_condition(axis: Axis, axes: Mapping[str, Axis], plan: Plan) -> None:
    """Refuse to search what can never matter."""
    section = axis.name.split(".")[0]
    for name, allowed in axis.knob.when:
        other = axes.get(f"{section}.{name}")
        value = _values(plan)[f"{section}.{name}"]
        if not any(other.holds(choice) if other else choice == value for choice in allowed):
            choices = " or ".join(str(choice) for choice in allowed)
            raise ParamError(
                f"over: {axis.name} matters only where {section}.{name} is {choices}; fix or "
                "search that one as well"
            )


def _values(plan: Plan) -> dict[str, Value]:
    """All knobs of the plan itself."""
    sections = {"model": plan.params.to_dict(), "train": plan.train.to_dict()}
    return {
        f"{section}.{name}": value
        for section, knobs in sections.items()
        for name, value in knobs.items()
    }


def _declared(plan: Plan) -> dict[str, Knob]:
    sections = {"model": plan.model.params.knobs(), "train": type(plan.train).knobs()}
    return {f"{section}.{knob.name}": knob for section, knobs in sections.items() for knob in knobs}


def _names(searched: Mapping[str, Knob]) -> str:
    return ", ".join(searched)


def _refusal(name: str, declared: Mapping[str, Knob], searched: Mapping[str, Knob]) -> str:
    if name in declared:
        reason = f"is not a knob to search by its range; list values, as in {name}=1:2"
    elif name in BUDGET:
        reason = f"is the budget of every trial, not a knob; fix it with --{name}"
    elif name.startswith("data."):
        reason = "would change the question"
    else:
        return f"over: no knob {name!r}; {did_you_mean(name, searched)}"
    return f"over: {name} {reason}; searchable: {_names(searched)}"


def _axis(name: str, knob: Knob, text: str) -> Axis:
    """The whole knob, or the part of it that the text names."""
    section = name.split(".")[0]
    if ".." in text and knob.low is not None and not knob.choices:
        low, high = (knob.check(end, section) for end in text.split("..", 1))
        if not float(low) < float(high):
            raise ParamError(
                f"over: {name}={text} is no range; expected the lower end first, for example "
                f"{name}={knob.range}"
            )
        return Axis(name, knob, low=float(low), high=float(high))
    if text:
        values = [knob.check(word, section) for word in text.split(":")]
        return Axis(name, knob, values=tuple(dict.fromkeys(values)))
    if knob.choices or knob.type is bool:
        return Axis(name, knob, values=knob.choices or (False, True))
    low, high = knob.searched_range
    return Axis(name, knob, low=low, high=high)


# ------------------------------------------------------------------------------------------- points


def suggest(trial: Trial, axes: Sequence[Axis], plan: Plan) -> Point:
    """A point for a trial: an axis whose condition does not hold is left out."""
    point: dict[str, Value] = {}
    for axis in axes:
        if _matters(axis, point, plan):
            point[axis.name] = axis.suggest(trial)
    return point


def own_point(axes: Sequence[Axis], plan: Plan) -> Point:
    """The point of the preset itself, empty if it is not among the searched values.

    It is the first trial, so that the result is never worse than no search.
    """
    point: dict[str, Value] = {}
    values = _values(plan)
    for axis in axes:
        if _matters(axis, point, plan):
            if not axis.holds(values[axis.name]):
                return {}
            point[axis.name] = values[axis.name]
    return point


def grid_points(axes: Sequence[Axis], plan: Plan) -> list[Point]:
    """All points of the grid, each once."""
    points: list[dict[str, Value]] = [{}]
    for axis in axes:
        longer = []
        for point in points:
            values = axis.grid() if _matters(axis, point, plan) else ()
            longer += [{**point, axis.name: value} for value in values] or [point]
        points = longer
    return list(points)


def _matters(axis: Axis, point: Point, plan: Plan) -> bool:
    """Whether the condition of an axis holds at a point."""
    prefix = axis.name.split(".")[0] + "."
    values = {**_values(plan), **point}
    own = {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }
    return axis.knob.is_active(own)
