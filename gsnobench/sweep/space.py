"""What a sweep varies: knobs as Optuna's distributions, the values of a grid, and the conditions
between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsnobench.errors import ParamError, did_you_mean
from gsnobench.params import Knob, Value
from gsnobench.runs.plan import Plan

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

# dotted knob -> value; a knob that does not matter at this point is not in it
Point = Mapping[str, Value]
# what is searched where nothing is said and the model has them
CENTRAL = ("model.k_s", "model.k_t")
STEPS = 8  # values of a whole-number range in a grid, if it holds many more
FEW = 16
BUDGET = ("train.steps", "train.epochs")


@dataclass(frozen=True)
class Axis:
    """One searched knob and the part of its values that is searched."""

    name: str  # dotted: model.k_s
    knob: Knob
    # all of them, if they can be told; empty: the range from low to high
    values: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0

    @property
    def is_number(self) -> bool:
        return self.knob.type in (int, float)

    def describe(self) -> str:
        """The searched values as `--over` takes them."""
        told = (
            ":".join(str(one) for one in self.values)
            if self.values
            else f"{self.low:g}..{self.high:g}"
        )
        return f"{self.name}={told}"

    def holds(self, value: Value) -> bool:
        """Whether a value can be asked for."""
        return value in self.values if self.values else self.low <= float(value) <= self.high

    def distribution(self) -> BaseDistribution:
        """The axis in Optuna's words."""
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
        """A few values that cover the axis: doublings of a logarithmic whole number, else evenly
        spaced ones.
        """
        if self.values:
            return self.values
        if self.knob.type is int and self.knob.log:
            doublings = [
                int(self.low) * 2**n for n in range(int(math.log2(self.high / self.low)) + 1)
            ]
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
    """The axes of `--over`, in declared order, so that a condition stands before what depends on
    it.

    An entry is a knob (`model.k_s`), a knob with a narrower range (`model.k_s=4..64`) or with
    values (`model.k_s=4:8:16`).
    """
    declared = _declared(plan)
    searched = {name: knob for name, knob in declared.items() if knob.is_searched}
    wanted = list(over) or [name for name in _central(plan) if name in searched]
    wanted = wanted or [name for name in searched if name.startswith("model.")]
    if not wanted:
        raise ParamError(
            f"over: {plan.model.name} declares no knob to search; name one of train: "
            f"{_names(searched)}"
        )
    axes: dict[str, Axis] = {}
    for text in wanted:
        name, _, values = text.partition("=")
        if name not in searched:
            raise ParamError(_refusal(name, declared, searched))
        if name in fixed:
            raise ParamError(
                f"{name}: is both fixed by --{name} and searched by --over; drop one of them"
            )
        if name in axes:
            raise ParamError(f"over: {name} is named twice; name it once")
        axes[name] = _axis(name, searched[name], values)
    for axis in axes.values():
        _check_condition(axis, axes, plan)
    return tuple(axes[name] for name in declared if name in axes)


def _central(plan: Plan) -> tuple[str, ...]:
    """The two central knobs; a single frame has no temporal modes to count."""
    return CENTRAL if plan.task.t_out > 1 else CENTRAL[:1]


def _check_condition(axis: Axis, axes: Mapping[str, Axis], plan: Plan) -> None:
    """Refuse to search what can never matter."""
    section = axis.name.split(".")[0]
    for name, allowed in axis.knob.when:
        other = axes.get(f"{section}.{name}")
        value = _values(plan)[f"{section}.{name}"]
        if not any(other.holds(one) if other else one == value for one in allowed):
            told = " or ".join(str(one) for one in allowed)
            raise ParamError(
                f"over: {axis.name} matters only where {section}.{name} is {told}; fix or search "
                "that one as well"
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
        return f"over: {name} is not a knob to search (no range, or kept fixed by its author); searchable: {_names(searched)}"
    if name in BUDGET:
        return f"over: {name} is the budget of every trial, not a knob; fix it with --{name}; searchable: {_names(searched)}"
    if name.startswith("data."):
        return f"over: {name} would change the question; searchable: {_names(searched)}"
    return f"over: no knob {name!r}; {did_you_mean(name, searched)}"


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
        return Axis(
            name,
            knob,
            values=tuple(dict.fromkeys(knob.check(word, section) for word in text.split(":"))),
        )
    if knob.choices or knob.type is bool:
        return Axis(name, knob, values=knob.choices or (False, True))
    assert knob.low is not None and knob.high is not None
    return Axis(name, knob, low=float(knob.low), high=float(knob.high))


# ------------------------------------------------------------------------------------------- points


def suggest(trial: Trial, axes: Sequence[Axis], plan: Plan) -> Point:
    """A point for a trial: an axis whose condition does not hold is not asked for."""
    point: dict[str, Value] = {}
    for axis in axes:
        if _matters(axis, point, plan):
            point[axis.name] = axis.suggest(trial)
    return point


def own_point(axes: Sequence[Axis], plan: Plan) -> Point:
    """Where the preset itself lies: the first trial, so that the answer is never worse than no
    search; empty if outside.
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
    section, values = axis.name.split(".")[0], {**_values(plan), **point}
    return axis.knob.is_active(
        {
            name.split(".", 1)[1]: one
            for name, one in values.items()
            if name.startswith(f"{section}.")
        }
    )
