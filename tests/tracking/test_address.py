"""The address of the store: from the environment, shown without its password."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsnobench.tracking.address import Address


def test_an_address_is_shown_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:secret@host:5432/runs")
    address = Address.of(tmp_path)
    assert address is not None
    assert address.label == "postgresql://host:5432/runs"
    assert "secret" not in address.id
