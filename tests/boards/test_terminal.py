"""Boards on a terminal, which no name can steer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fake_results import made_evidence, made_result, made_spec, save, spread
from toy_boards import tracks_of

from gsnobench.boards import markdown, tables, terminal
from gsnobench.cli.boards import show_boards
from gsnobench.errors import ParamError
from gsnobench.records import RunResult


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


def test_variants_are_shown_on_request_with_their_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence, knobs = tmp_path, {"model_params": {"width": 8}, "changed": {"model.width": 8}}
    save(evidence, made_result("gsno", task="own"))
    tuned = {"origin": "tuned, 12 trials", "task": "own", "errors": 0.001}
    save(evidence, made_result("gsno", **tuned, **knobs))
    show_boards(task="own", results=[evidence])
    usual = capsys.readouterr().out
    assert "tuned" not in usual and "Variants, not ranked: 1; --variants shows them." in usual
    show_boards(task="own", variants=True, results=[evidence])
    shown = capsys.readouterr().out
    assert "gsno@compact (tuned, 12 trials): width=8" in shown
    table = shown.partition("Variants of")[2]
    assert table.splitlines()[2].startswith("gsno@compact (tuned, 12 trials)  0.00100°  ")
    with pytest.raises(ParamError, match="name it with --task"):
        show_boards(variants=True, results=[evidence])


def test_rows_with_the_same_note_share_a_line(tmp_path: Path) -> None:
    models = ("gsno", "amg", "gnot")
    lost = [RunResult(made_spec(model, seed=7), "failed", "no memory") for model in models]
    save(tmp_path, *(made_result(model) for model in models), *lost)
    (track,) = tracks_of(tmp_path)
    (board,) = track.boards
    lines = [line for line in terminal.remarks(board, board.compared) if "no memory" in line]
    names = ", ".join(row.name for row in board.compared)
    assert lines == [f"{names}: 1 of 2 seeds failed: no memory"]


def test_the_overview_shows_tasks_of_models_and_names_those_of_floors_only(evidence: Path) -> None:
    form = {"preset": "default", "steps": {"fit": 0}}
    save(evidence, made_result("mean", task="car", **form))
    save(evidence, RunResult(made_spec("mean", task="pipe", **form), "declined", "no"))
    save(evidence, *(made_result(model, task="pipe") for model in ("gsno", "amg")))
    (track,) = tracks_of(evidence)
    header, lines = terminal.overview(track)
    assert header == ["row", "tasks", "mean rank", "times the best", "darcy", "pipe"]
    cells = {line[0]: line for line in lines}
    assert cells["mean@default"][-1] == "n/a", "a floor that declines does not apply"
    assert cells["coral@compact"][1:3] == ["1/3", "–"] and cells["gsno@compact"][1] == "2/3"
    remarks = list(terminal.overview_remarks(track))
    assert remarks[0] == "Floors only, shown with --wide: car."
    assert "car" in terminal.overview(track, wide=True)[0]
    (alone,) = tracks_of(_floors_only(evidence.parent / "floors"))
    assert terminal.overview(alone)[0][-1] == "car", "where floors are all there is"


def _floors_only(root: Path) -> Path:
    save(root, made_result("mean", task="car", preset="default", steps={"fit": 0}))
    return root


def test_a_board_shows_the_factor_to_the_best_floor_and_marks_own_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = made_evidence(tmp_path / "results", task="own")  # no steps of it are committed
    (track,) = tracks_of(evidence)
    (board,) = track.boards
    floor = min((row for row in board.compared if row.is_floor), key=lambda row: row.error)
    header, lines = terminal.board(board)
    factors = {line[1]: line[header.index("/ best floor")] for line in lines}
    assert float(factors[floor.name]) == 1
    best = board.compared[0]
    assert float(factors[best.name]) == pytest.approx(best.error / floor.error, rel=0.05)
    show_boards(track=track.name, task=board.slug, results=[evidence], home=evidence)
    assert "(yours)" not in capsys.readouterr().out
    home = evidence.parent  # whose results these are
    show_boards(track=track.name, task=board.slug, results=[evidence], home=home)
    assert f"{best.name} (yours)" in capsys.readouterr().out
