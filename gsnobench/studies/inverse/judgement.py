"""Numbers about a sampled posterior: has it mixed, is it near the truth, near the reference?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from gsnobench.data import Array
from gsnobench.records import rounded
from gsnobench.studies.inverse.diagnostics import mixing
from gsnobench.studies.inverse.inversion import COEFFICIENTS, Drawn

DIGITS = 6
TRACES, POINTS = 4, 150  # chains of a picture, and points of each


def judged(drawn: Drawn, truth: Array, inputs: Array, exact: Drawn | None) -> dict[str, Any]:
    """All numbers of one sampler on one problem; `exact` is the solver's posterior."""
    state = mixing(drawn.quantities.astype(float))
    error = float(np.linalg.norm(drawn.mean - inputs) / np.linalg.norm(inputs))
    numbers: dict[str, float] = {
        **asdict(state),
        "accepted": drawn.accepted,
        "size": drawn.size,
        "cpu_s": drawn.cpu_s,
        "error": error,
        "negative": drawn.negative,
    }
    if exact is not None:
        numbers |= _compared(drawn, exact)
    plain = {name: rounded(float(value), DIGITS) for name, value in numbers.items()}
    return {**plain, "is_met": state.is_met, "fractions": fractions(drawn, truth)}


def _compared(drawn: Drawn, exact: Drawn) -> dict[str, float]:
    """Means apart in deviations of the exact posterior, and the ratio of deviations."""
    (mean, sd), (right, width) = (_moments(own) for own in (drawn, exact))
    return {
        "offset": float(np.sqrt(np.mean(((mean - right) / width) ** 2))),
        "spread": float(np.exp(np.mean(np.log(sd / width)))),
    }


def _moments(drawn: Drawn) -> tuple[Array, Array]:
    values = drawn.quantities[:, :, :COEFFICIENTS].astype(float)
    return values.mean(axis=(0, 1)), values.std(axis=(0, 1), ddof=1)


def fractions(drawn: Drawn, truth: Array) -> list[float]:
    """Share of draws below the truth per coefficient: uniform if the posterior is right."""
    below = drawn.quantities[:, :, :COEFFICIENTS] < truth[:COEFFICIENTS]
    return [rounded(float(share), DIGITS) for share in below.mean(axis=(0, 1))]


def pictured(drawn: Drawn, inputs: Array) -> dict[str, Any]:
    """What a figure shows: fields at the nodes, and chains of the first coefficient."""

    def short(values: Array) -> list[float]:
        return [rounded(float(value), 4) for value in values]

    step = max(drawn.quantities.shape[1] // POINTS, 1)
    traces = drawn.quantities[:TRACES, ::step, 0]
    fields = {"truth": inputs, "mean": drawn.mean, "deviation": drawn.deviation}
    return {
        **{name: short(values) for name, values in fields.items()},
        "traces": [short(trace) for trace in traces],
        "thinning": step,
    }
