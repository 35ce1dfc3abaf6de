"""Names of boards and rows as file names."""

from __future__ import annotations

import pytest

from gsnobench.boards.board import safe_name


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "", ".", "..", "x" * 300, "<b>", "CON\0", "ä"]
)
def test_a_file_name_cannot_leave_its_folder(name: str) -> None:
    made = safe_name(name)
    assert "/" not in made and "\0" not in made and made not in ("", ".", "..") and len(made) < 100
    assert safe_name("darcy_threshold") == "darcy_threshold" and safe_name("swe@5-46") == "swe@5-46"
    assert safe_name("a/b") != safe_name("a-b")
