"""The counts of the campaign, printed at its end, and its record."""

from __future__ import annotations

from typing import Any

import campaign
import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A campaign that was interrupted goes on: what has passed is not run again."""
    if campaign.record_path() is None:
        return
    passed = campaign.passed_before()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        campaign.record(report.nodeid, report.duration)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if campaign.COUNTS:
        terminalreporter.section(f"campaign, seed {campaign.SEED}")
        for line in campaign.lines():
            terminalreporter.write_line(line)
