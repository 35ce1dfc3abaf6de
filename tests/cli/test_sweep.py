"""What `gsnobench sweep` prints at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsnobench.cli.sweep import _print_sweep


def test_trials_that_are_not_done_are_counted_by_how_they_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ends = {"answered": 5, "done": 3, "pruned": 2, "diverged": 0, "failed": 0}
    result = {"row": "gsno@plus", "task": "nse@5-46", "track": "smoke", "trials": ends}
    best = {"best": {"point": {"model.k_s": 8}, "valid": 0.5}, "tried": []}
    _print_sweep({**result, "status": "done", **best}, Path("folder"))
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == "gsno@plus on nse@5-46, track smoke: 3 of 5 trials done, 2 pruned"
