"""Hyperparameters: one declaration gives checks, command-line flags, search space, registry
validation and docs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, dataclass_transform, get_args, get_origin, get_type_hints

from gsnobench.errors import ParamError, did_you_mean

Value = int | float | bool | str


@dataclass(frozen=True)
class Knob:
    """One declared hyperparameter."""

    name: str
    type: type
    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Value, ...] = ()
    geometry: bool = False  # changes what `Model.geometry` returns, so it is part of the cache key
    search: bool = True
    central: bool = False  # among the few that decide most: searched unless others are named
    # it matters only where these knobs have one of these values
    when: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    def is_active(self, values: Mapping[str, Value]) -> bool:
        """Whether the other knobs let this one matter: a search leaves it alone where they do not."""
        return all(values[name] in allowed for name, allowed in self.when)

    @property
    def is_searched(self) -> bool:
        """A knob without a range is not searched."""
        return self.search and (
            bool(self.choices)
            or self.type is bool
            or (self.low is not None and self.high is not None)
        )

    @property
    def range(self) -> str:
        """The allowed values, as a person writes them."""
        if self.choices:
            return " | ".join(str(choice) for choice in self.choices)
        if self.type is bool:
            return "true | false"
        low = "" if self.low is None else f"{self.low:g}"
        high = "" if self.high is None else f"{self.high:g}"
        return f"{low}..{high}" if low or high else self.type.__name__

    def check(self, value: object, section: str = "") -> Value:
        """The value in the knob's type, or a ParamError that says what is allowed."""
        label = f"{section}.{self.name}" if section else self.name
        converted = self._convert(value, label)
        if self.choices and converted not in self.choices:
            raise ParamError(f"{label}: {value!r} is not allowed; expected {self.range}")
        if isinstance(converted, float) and not math.isfinite(converted):
            raise ParamError(f"{label}: {value!r} is not a finite number; expected {self.range}")
        if not isinstance(converted, (bool, str)):
            outside = (self.low is not None and converted < self.low) or (
                self.high is not None and converted > self.high
            )
            if outside:
                raise ParamError(f"{label}: {converted!r} is out of range; expected {self.range}")
        return converted

    def _convert(self, value: object, label: str) -> Value:
        wanted = f"{label}: {value!r} is not {_ARTICLE[self.type]}; expected {self.range}"
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in _BOOLEANS:
                return _BOOLEANS[value.lower()]
            raise ParamError(wanted)
        if self.type is str:
            if isinstance(value, str):
                return value
            raise ParamError(wanted)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ParamError(wanted)
        try:
            number = float(value)
        except ValueError:
            raise ParamError(wanted) from None
        if self.type is int:
            if not number.is_integer():
                raise ParamError(wanted)
            return int(number)
        return number


_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_ARTICLE = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def knob(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    log: bool = False,
    help: str = "",
    geometry: bool = False,
    search: bool = True,
    central: bool = False,
    when: Mapping[str, Value | tuple[Value, ...]] | None = None,
) -> Any:
    """Declare a hyperparameter of a `Params` class; `geometry=True` where it changes the
    preprocessing, `search=False` where the range is only a limit and no sweep should vary it,
    `central=True` where a sweep varies it unless told otherwise (first those that act in space),
    `when={"kernel": "hats"}` where it matters only with certain values of knobs that are declared
    above it."""
    if low is not None and high is not None and low > high:
        raise ParamError(f"knob: low {low!r} is above high {high!r}; swap them")
    if log and (low is None or low <= 0):
        raise ParamError(f"knob: a logarithmic range needs low > 0; got {low!r}")
    conditions = tuple(
        (name, allowed if isinstance(allowed, tuple) else (allowed,))
        for name, allowed in (when or {}).items()
    )
    settings = {
        "low": low,
        "high": high,
        "log": log,
        "help": help,
        "geometry": geometry,
        "search": search,
        "central": central,
        "when": conditions,
    }
    return dataclasses.field(default=default, metadata=settings)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(knob,))
class Params:
    """Base of every hyperparameter class: subclasses become frozen dataclasses whose values are
    checked when made.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for declared in self.knobs():
            value = getattr(self, declared.name)
            object.__setattr__(self, declared.name, declared.check(value, type(self).__name__))

    @classmethod
    def knobs(cls) -> tuple[Knob, ...]:
        """The declared knobs in their order; types are int, float, bool, str or a Literal of one of
        them.
        """
        if not dataclasses.is_dataclass(cls):
            return ()
        hints = get_type_hints(cls)
        found = tuple(_knob_of(field, hints[field.name]) for field in dataclasses.fields(cls))
        for place, declared in enumerate(found):
            above = {other.name for other in found[:place]}
            if odd := [name for name, _ in declared.when if name not in above]:
                raise ParamError(
                    f"{declared.name}: depends on {odd[0]!r}, which is no knob above it; declare "
                    f"{odd[0]!r} first"
                )
        return found

    @classmethod
    def make(cls, *layers: Mapping[str, object], label: str = "model") -> Self:
        """Values from layers of rising precedence (preset, registry, command line) over the
        declared defaults.
        """
        known = {declared.name: declared for declared in cls.knobs()}
        values: dict[str, Value] = {}
        for layer in layers:
            for name, value in layer.items():
                if name not in known:
                    raise ParamError(f"{label}.{name}: no such knob; {did_you_mean(name, known)}")
                values[name] = known[name].check(value, label)
        return cls(**values)

    def to_dict(self) -> dict[str, Value]:
        """All values by name, in declared order."""
        return {declared.name: getattr(self, declared.name) for declared in self.knobs()}

    def geometry_dict(self) -> dict[str, Value]:
        """The values that decide the preprocessing of a mesh."""
        return {
            declared.name: getattr(self, declared.name)
            for declared in self.knobs()
            if declared.geometry
        }


def _knob_of(field: dataclasses.Field[Any], hint: Any) -> Knob:
    choices: tuple[Value, ...] = get_args(hint) if get_origin(hint) is Literal else ()
    kind = type(choices[0]) if choices else hint
    if kind not in _ARTICLE:
        raise ParamError(
            f"{field.name}: a knob cannot be of type {hint!r}; use int, float, bool, str or Literal"
        )
    if field.default is dataclasses.MISSING:
        raise ParamError(f"{field.name}: a knob needs a default; write gb.knob(default=...)")
    return Knob(
        name=field.name,
        type=kind,
        default=field.default,
        choices=choices,
        **{"help": "", **field.metadata},
    )


class NoParams(Params):
    """For plugins without hyperparameters."""
