"""The counts of the campaign, printed at its end."""

from __future__ import annotations

from typing import Any

import campaign


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if campaign.COUNTS:
        terminalreporter.section(f"campaign, seed {campaign.SEED}")
        for line in campaign.lines():
            terminalreporter.write_line(line)
