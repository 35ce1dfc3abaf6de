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


_passed: dict[str, float] = {}  # test -> seconds of its call


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test has passed when what comes after it has, too: there it is seen what was written."""
    if report.when == "setup":
        campaign.begin()
    if report.when == "call" and report.passed:
        _passed[report.nodeid] = report.duration
    if report.when == "teardown" and report.passed and report.nodeid in _passed:
        campaign.record(report.nodeid, _passed[report.nodeid])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if campaign.COUNTS:
        terminalreporter.section(f"campaign, seed {campaign.SEED}")
        for line in campaign.lines():
            terminalreporter.write_line(line)
