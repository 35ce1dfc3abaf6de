"""Knobs: one declaration gives checks, options, a search space and documentation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self, dataclass_transform, get_args, get_origin, get_type_hints

from gsnobench.errors import ParamError, did_you_mean
from gsnobench.reading import InputFile

Value = int | float | bool | str


def is_whole(text: str) -> bool:
    """Whether a text is a whole number in plain digits: `²` is a digit to Python."""
    return text.isascii() and text.isdigit()


@dataclass(frozen=True)
class Knob:
    """One declared knob."""

    name: str
    type: type
    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    log: bool = False  # searched on a logarithmic scale
    choices: tuple[Value, ...] = ()
    geometry: bool = False  # changes what `Model.geometry` returns, so it is part of the cache key
    search: bool = True  # False: the range is a limit, no sweep varies the knob
    usual: tuple[float, float] | None = None  # a sweep's range, where the limits are far apart
    central: bool = False  # what a sweep or a study varies if nobody names knobs
    fits_mesh: bool = False  # counts nodes: a preset's value is at most a third of a mesh's
    # the knob has an effect only where these knobs have one of these values
    when: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    def is_active(self, values: Mapping[str, Value]) -> bool:
        """Whether the knob has an effect beside these values; a search skips it where not."""
        return all(values[name] in allowed for name, allowed in self.when)

    @property
    def is_searched(self) -> bool:
        """Whether a sweep may vary the knob: it must have choices or a range."""
        has_range = self.low is not None and self.high is not None
        return self.search and (bool(self.choices) or self.type is bool or has_range)

    @property
    def searched_range(self) -> tuple[float, float]:
        """Where a sweep looks if nobody says: the usual range, else all that is allowed."""
        assert self.low is not None and self.high is not None
        return self.usual or (float(self.low), float(self.high))

    @property
    def range(self) -> str:
        """The allowed values, as a person writes them."""
        if self.choices:
            return " | ".join(str(choice) for choice in self.choices)
        if self.type is bool:
            return "true | false"
        low = "" if self.low is None else f"{self.low:g}"
        high = "" if self.high is None else f"{self.high:g}"
        name = "a file" if self.type is InputFile else self.type.__name__
        return f"{low}..{high}" if low or high else name

    def check(self, value: object, section: str = "") -> Value:
        """The value in the knob's type, or a ParamError that says what is allowed."""
        label = f"{section}.{self.name}" if section else self.name
        converted = self._convert(value, label)
        if self.choices and converted not in self.choices:
            raise ParamError(f"{label}: {value!r} is not allowed; expected {self.range}")
        if isinstance(converted, float) and not math.isfinite(converted):
            raise ParamError(f"{label}: {value!r} is not a finite number; expected {self.range}")
        if not isinstance(converted, (bool, str)):
            is_below = self.low is not None and converted < self.low
            is_above = self.high is not None and converted > self.high
            if is_below or is_above:
                raise ParamError(f"{label}: {converted!r} is out of range; expected {self.range}")
        return converted

    def _convert(self, value: object, label: str) -> Value:
        message = f"{label}: {value!r} is not {_ARTICLE[self.type]}; expected {self.range}"
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in _BOOLEANS:
                return _BOOLEANS[value.lower()]
            raise ParamError(message)
        if issubclass(self.type, str):
            if isinstance(value, str):
                return InputFile.of(value) if self.type is InputFile else value
            raise ParamError(message)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ParamError(message)
        try:
            number = float(value)
        except (ValueError, OverflowError):  # a whole number may be too large for a float
            raise ParamError(message) from None
        if self.type is int:
            if not number.is_integer():
                raise ParamError(message)
            return int(number)
        return number


_BOOLEANS = dict.fromkeys(("true", "yes", "on", "1"), True)
_BOOLEANS |= dict.fromkeys(("false", "no", "off", "0"), False)
_ARTICLE = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    InputFile: "a file",
}


def knob(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    log: bool = False,
    help: str = "",
    geometry: bool = False,
    search: bool = True,
    usual: tuple[float, float] | None = None,
    central: bool = False,
    fits_mesh: bool = False,
    when: Mapping[str, Value | tuple[Value, ...]] | None = None,
) -> Any:
    """Declare a knob of a `Params` class.

    `geometry=True`: it changes what the model precomputes on a mesh. `search=False`: the range is
    only a limit, no sweep should vary the knob. `usual=(1e-4, 1e-2)`: where a sweep looks if the
    limits are far apart. `central=True`: a sweep varies it if nobody names knobs. `fits_mesh=True`:
    on a small mesh a preset's value is lowered to a third of the nodes. `when={"basis": "knn"}`: it
    has an effect only with these values of knobs declared above.
    """
    if low is not None and high is not None and low > high:
        raise ParamError(f"knob: low {low!r} is above high {high!r}; swap them")
    if log and (low is None or low <= 0):
        raise ParamError(f"knob: a logarithmic range needs low > 0; got {low!r}")
    if usual is not None and not (low or 0) <= usual[0] < usual[1] <= (high or usual[1]):
        raise ParamError(f"knob: usual {usual!r} is no range within {low!r}..{high!r}")
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
        "usual": usual,
        "central": central,
        "fits_mesh": fits_mesh,
        "when": conditions,
    }
    return dataclasses.field(default=default, metadata=settings)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(knob,))
class Params:
    """Base of classes of knobs: subclasses become frozen dataclasses of checked values."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for knob in self.knobs():
            value = getattr(self, knob.name)
            object.__setattr__(self, knob.name, knob.check(value, type(self).__name__))

    @classmethod
    def knobs(cls) -> tuple[Knob, ...]:
        """The declared knobs in their order: int, float, bool, str, InputFile, or a Literal."""
        return _knobs_of(cls)  # type: ignore[arg-type]  # a class is hashable, whatever mypy says

    @classmethod
    def make(cls, *layers: Mapping[str, object], label: str = "model") -> Self:
        """Defaults, overridden by layers of rising precedence (preset, registry, command line)."""
        known = {knob.name: knob for knob in cls.knobs()}
        values: dict[str, Value] = {}
        for layer in layers:
            for name, value in layer.items():
                if name not in known:
                    raise ParamError(f"{label}.{name}: no such knob; {did_you_mean(name, known)}")
                values[name] = known[name].check(value, label)
        return cls(**values)

    def to_dict(self) -> dict[str, Value]:
        """All values by name, in declared order."""
        return {knob.name: getattr(self, knob.name) for knob in self.knobs()}

    def at_default(self) -> list[str]:
        """Names of the knobs that have their declared default."""
        return [
            knob.name
            for knob in self.knobs()
            if getattr(self, knob.name) == knob.check(knob.default, knob.name)
        ]

    def geometry_dict(self) -> dict[str, Value]:
        """The values that change what a model precomputes on a mesh."""
        return {knob.name: getattr(self, knob.name) for knob in self.knobs() if knob.geometry}


@cache  # reading the type hints of a class takes longer than anything else about its knobs
def _knobs_of(params: type) -> tuple[Knob, ...]:
    if not dataclasses.is_dataclass(params):
        return ()
    types = get_type_hints(params)
    knobs = tuple(_knob_of(field, types[field.name]) for field in dataclasses.fields(params))
    for position, knob in enumerate(knobs):
        above = {other.name for other in knobs[:position]}
        if unknown := [name for name, _ in knob.when if name not in above]:
            raise ParamError(
                f"{knob.name}: depends on {unknown[0]!r}, which is no knob above it; declare "
                f"{unknown[0]!r} first"
            )
    return knobs


def _knob_of(field: dataclasses.Field[Any], hint: Any) -> Knob:
    choices: tuple[Value, ...] = get_args(hint) if get_origin(hint) is Literal else ()
    kind = type(choices[0]) if choices else hint
    if kind not in _ARTICLE:
        raise ParamError(
            f"{field.name}: a knob cannot be of type {hint!r}; use int, float, bool, str, "
            "gb.InputFile or Literal"
        )
    if field.default is dataclasses.MISSING:
        raise ParamError(f"{field.name}: a knob needs a default; write gb.knob(default=...)")
    settings = {"help": "", **field.metadata}
    return Knob(name=field.name, type=kind, default=field.default, choices=choices, **settings)


class NoParams(Params):
    """For plugins without knobs."""


# -------------------------------------------------------------------------------------------- lists


def words_of(text: str) -> list[str]:
    """`a, b` -> [a, b]."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers_of(text: str, name: str) -> list[int]:
    """`0,1,2` -> [0, 1, 2]."""
    words = words_of(text)
    for word in words:
        if not is_whole(word):
            raise ParamError(f"{name}: {word!r} is not a whole number; expected for example 0,1,2")
    return [int(word) for word in words]


def above_zero(text: str, name: str, *, least: int = 1) -> list[int]:
    """Different whole numbers above 0 of an option, in rising order."""
    numbers = sorted(set(numbers_of(text, name)))
    if len(numbers) < least or numbers[0] < 1:
        words = "two different numbers" if least > 1 else "one number"
        raise ParamError(
            f"{name}: {text!r} has fewer than {words} above 0; expected for example 16,32"
        )
    return numbers
