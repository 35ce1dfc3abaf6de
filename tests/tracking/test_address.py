"""The address of the store: from the environment, shown without its password."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsnobench.tracking.address import Address, without_password


def test_an_address_is_shown_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:secret@host:5432/runs")
    address = Address.of(tmp_path)
    assert address is not None
    assert address.label == "postgresql://host:5432/runs"
    assert "secret" not in address.id


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://127.0.0.1/x?user=bob&password=s3cret", "postgresql://127.0.0.1/x"),
        ("postgresql:/bob:s3cret@host/x", "postgresql://host/x"),
        ("http://bob:s3cret@[::1", "http://[::1"),
        ("http://host/x#s3cret", "http://host/x"),
        ("journal:/bob:s3cret", "journal://..."),
        ("postgresql://bob:s3cret/x", "postgresql://.../x"),
        ("postgresql+psycopg://bob:5s3cret/x", "postgresql+psycopg://.../x"),
        ("http://[::1]:5000/x", "http://[::1]:5000/x"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("sqlite:////folder/b@c.db", "sqlite:////folder/b@c.db"),
    ],
)
def test_mistyped_and_query_forms_are_shown_without_secrets_too(address: str, shown: str) -> None:
    assert without_password(address) == shown
    store = Address(Path("/home"), address, is_default=False)
    for reason in (
        address,
        "password=s3cret refused",
        "http://bob:s3cret@other/ is away",
        "http://bob:s3cret is away",
    ):
        line = store.error_line(ValueError(f"cannot reach {reason}"))
        assert "s3cret" not in line and line.startswith("cannot reach")
