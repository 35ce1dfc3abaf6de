"""`gsnobench doctor --gpu`: parity with double precision, and a clear line without a device."""

from __future__ import annotations

import json

import pytest

from gsnobench.cli.gpu import PARITY, measure
from gsnobench.errors import RunError
from gsnobench.registry import read_registry


def test_the_cpu_agrees_with_itself_in_double_precision() -> None:
    measured = json.loads(json.dumps(measure("cpu", compiled=False)))
    assert measured["ok"]
    rows, cases = zip(*(name.split() for name in measured["parity"]), strict=True)
    assert {row.split("@")[0] for row in rows} == {read_registry().checked_model}
    assert set(cases) == {"steady", "unsteady"}
    assert all(0 < entry["single"] < PARITY for entry in measured["parity"].values())
    throughput = measured["throughput"]
    assert throughput["samples_per_s"] > 0 and throughput["peak_mb"] > 10


@pytest.mark.parametrize("device", ["cuda:99", "toaster"])
def test_a_device_that_is_not_there_is_one_line(device: str) -> None:
    with pytest.raises(RunError, match="device") as error:
        measure(device)
    assert "\n" not in str(error.value)
