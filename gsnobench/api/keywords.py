"""Misspelt options of a Python call: one line that names the nearest known one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from gsnobench.errors import ParamError, did_you_mean


def refuse_unknown(function: Callable[..., Any], unknown: Mapping[str, object]) -> None:
    """Refuse keywords that the function does not declare."""
    declared = signature(function).parameters.values()
    known = [entry.name for entry in declared if entry.kind is not Parameter.VAR_KEYWORD]
    for name in unknown:
        raise ParamError(f"{function.__name__}: no option {name!r}; {did_you_mean(name, known)}")
