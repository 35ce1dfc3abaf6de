"""A table fits the terminal; no number and no name is ever cut."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from gsnobench.cli.table import print_table

HEADER = ["row", *(f"column-{number}" for number in range(12))]
ROWS = [[f"model{row}@compact", *(f"0.{row}{n:03}" for n in range(12))] for row in range(3)]


def printed(title: str, header: Sequence[str], rows: Sequence[list[str]], **how: Any) -> str:
    """What a terminal of 80 columns shows, without its styles."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(out, "isatty", lambda: True)
        patch.setattr(sys, "stdout", out)
        patch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
        print_table(title, header, rows, **how)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def test_a_table_in_a_file_is_aligned_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Title", ["name", "error"], [["a", "0.5"], ["longer", "10.25"]], mark=0)
    assert capsys.readouterr().out == "Title\nname    error\na         0.5\nlonger  10.25\n"
    print_table("Title", HEADER, ROWS, spare=["column-3"])
    assert len(capsys.readouterr().out.splitlines()) == 1 + 1 + 3


def test_a_wide_table_is_cut_into_blocks_that_fit_and_lose_nothing() -> None:
    text = printed("Title", HEADER, ROWS)
    title, *lines = text.splitlines()
    assert title == "Title" and max(map(len, lines)) <= 80 and len(lines) > 4
    for name in HEADER[1:]:
        assert text.count(name) == (3 if name == "column-1" else 1)  # column-10 and column-11
    assert all(cell in text for row in ROWS for cell in row)
    names = [line.split()[0] for line in lines]
    assert names == ["row", *(row[0] for row in ROWS)] * (len(lines) // 4)


def test_headings_are_folded_before_anything_is_lost() -> None:
    header = ["row", *(f"times / best of {number}" for number in range(6))]
    rows = [["gsno@compact", *(f"0.0{number}5" for number in range(6))]]
    lines = printed("Title", header, rows, spare=header[2:]).splitlines()
    assert max(map(len, lines)) <= 80 and "hidden" not in " ".join(lines)
    assert lines[1].split() == ["row", *["times"] * 6], "a word per line"
    assert lines[2].split(" ")[-1] == "/\u00a0best", "a stroke is no word"
    assert lines[-1].split() == rows[0]


def test_columns_that_can_be_spared_go_first_and_are_named() -> None:
    spare = [f"column-{number}" for number in range(11, 3, -1)]
    lines = printed("Title", HEADER, ROWS, spare=spare).splitlines()
    assert max(map(len, lines)) <= 80
    last = " ".join(lines[1 + 4 :])
    remedy, _, hidden = last.partition(": ")
    assert hidden.split(", ") == spare[hidden.count(",") :: -1], "in the order of the table"
    assert remedy == "hidden here, --wide shows all"
    assert remedy not in printed("Title", HEADER, ROWS, spare=spare, wide=True)


def test_a_long_text_is_folded_and_a_long_name_is_not() -> None:
    words = " ".join(["words"] * 40)
    text = printed("Title", ["knob", "default", "what it does"], [["--model.k_s", "8", words]])
    assert max(map(len, text.splitlines())) <= 80 and len(text.splitlines()) > 4
    assert text.count("words") == 40
    text = printed("Title", ["row", "a", "b"], [["x" * 90, "1", "2"]])
    assert text.count("x" * 90) == 2  # one block per column, however narrow


@pytest.mark.parametrize("title", ["[/bold]", "[red]x", "\\["])
def test_a_table_of_the_terminal_takes_no_title_and_no_heading_for_markup(
    title: str,
) -> None:
    assert printed(title, [title], [["1"]]).count(title) == 2


def test_a_long_name_in_a_heading_is_never_broken() -> None:
    name = "burgers2d_lively@5-46"
    cells = ["1 done, 2 missing"] * 3
    text = printed("Title", ["model", "a", "b", "c", name], [["a", *cells, "n/a"]])
    assert name in text and max(map(len, text.splitlines())) <= 80
