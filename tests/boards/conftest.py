"""Evidence that most tests of boards start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_results import made_evidence


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Three models and a floor on one task, clearly apart."""
    return made_evidence(tmp_path / "results")
