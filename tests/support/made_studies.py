"""Made-up runs of studies, for tests of what is concluded from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsnobench.params import Value
from gsnobench.studies.base import Measured, Row


def made_run(
    point: Mapping[str, Value], *, seed: int = 0, error: float = 0.1, **changes: Any
) -> Measured:
    """A finished run with this test error; any entry can be changed."""
    values: dict[str, Any] = {
        "point": point,
        "row": "toy@default",
        "task": "darcy",
        "nodes": 298,
        "samples": 16,
        "seed": seed,
        "steps": 100,
        "key": f"{abs(hash((str(point), seed))):012x}"[:12],
        "state": "done",
        "errors": {"test": error, "valid": error, "test_ood": 2 * error},
        "by_sample": [error] * 4,
        "costs": {"parameters": 1000.0, "train_cpu_s": 2.0},
    }
    return Measured(**{**values, **changes})


def made_row(point: Mapping[str, Value], errors: Sequence[float], **changes: Any) -> Row:
    """A row whose seeds have these test errors."""
    runs = [made_run(point, seed=seed, error=error, **changes) for seed, error in enumerate(errors)]
    return Row(point, tuple(runs))
