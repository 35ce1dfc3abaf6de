"""Boards on a terminal, which no name can steer."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from fake_results import made_result, save, spread
from toy_boards import tracks_of

from gsnobench.boards import markdown, tables
from gsnobench.cli.boards import show_boards
from gsnobench.cli.console import print_table


def test_a_name_cannot_steer_a_terminal_a_page_or_the_row_before(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steering = "\x1b[31m\u202e\r[/bold]"
    names = {"preset": f"{steering}https://x.org", "task": steering, "track": steering}
    save(evidence, made_result("*[4cm]", errors=spread(0.01, 5), **names))
    (evidence / "wrong\x1b[2J.json").write_text(json.dumps({"schema": steering, "key": ""}))
    track = next(track for track in tracks_of(evidence) if track.name == steering)
    for task in ("", track.boards[0].slug):
        code = show_boards(track=steering, task=task, results=[evidence])
        assert code == 3
    printed = capsys.readouterr()
    for text in (printed.out, printed.err, markdown.track_page(track), tables.latex(track)):
        assert not set("\x1b\u202e\r") & set(text)
    assert "https\\://x" in markdown.track_page(track), "a bare address must not become a link"
    assert not re.search(r"\\\\\s*[\[*]", tables.latex(track)), (
        "LaTeX would take it for an option of the line break"
    )


@pytest.mark.parametrize("title", ["[/bold]", "[red]x", "\\["])
def test_a_table_of_the_terminal_takes_no_title_and_no_heading_for_markup(
    title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", out)
    print_table(title, [title], [["1"]])
    assert out.getvalue().count(title) == 2
