"""Boards: what is grouped and what is never mixed, odd evidence, every rendered form, the same
bytes, hostile names.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest
from fake_results import made_evidence, made_result, made_spec, save, spread

from gsnobench.boards import markdown, tables, terminal
from gsnobench.boards import wording as texts
from gsnobench.boards.assemble import make_tracks
from gsnobench.boards.board import Board, Track, safe_name
from gsnobench.boards.build import Target, build, embedded, read_tracks, stale
from gsnobench.boards.diff import diff
from gsnobench.boards.evidence import read_evidence
from gsnobench.boards.ledger import compare, ledger
from gsnobench.boards.paper import read_published
from gsnobench.boards.site.task_page import board_page
from gsnobench.cli.console import print_table
from gsnobench.cli.verbs_board import show_boards
from gsnobench.records import RunResult

HOSTILE = "<script>alert(1)</script>\"'`|*_[x](javascript:1)\\..\n=1+1"


def tracks_of(root: Path) -> list[Track]:
    return make_tracks(read_evidence([root]), ("mean",), read_published())


def board_of(root: Path, slug: str = "darcy") -> Board:
    return next(board for track in tracks_of(root) for board in track.boards if board.slug == slug)


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    return made_evidence(tmp_path / "results")


# ----------------------------------------------------------------------------------------- grouping


def test_rows_are_ranked_by_their_mean_over_seeds_beside_the_floors(evidence: Path) -> None:
    board = board_of(evidence)
    assert [row.name for row in board.rows] == [
        "gsno@compact",
        "amg@compact",
        "coral@compact",
        "mean@default",
    ]
    assert [row.rank.low for row in board.rows if row.rank] == [1, 2, 3, 4]
    assert [row.is_floor for row in board.rows] == [False, False, False, True]
    assert board.rows[-1].is_exact and not board.rows[-1].is_thin
    assert board.promotion is not None
    assert (board.promotion.first, board.promotion.second) == ("gsno@compact", "amg@compact")
    assert board.promotion.percent == pytest.approx(50, abs=3) and board.promotion.is_separated


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"resolution": 1184},
        {"data_seed": 1},
        {"data": {"psi": "threshold"}},
        {"source": "f" * 64},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_asks_another_question_stands_on_another_board(
    evidence: Path, change: dict[str, object]
) -> None:
    save(evidence, made_result("gsno", errors=0.001, seed=0, **change))
    (track,) = tracks_of(evidence)
    assert len(track.boards) == 2
    assert all(
        len({entry.error < 0.002 for row in board.rows for entry in row.entries}) == 1
        for board in track.boards
    )
    assert len({board.slug for board in track.boards}) == 2


def test_tracks_and_data_origins_are_never_mixed(evidence: Path) -> None:
    save(evidence, made_result("gsno", errors=0.001, track="workstation"))
    official = made_result("gsno", errors=0.001, seed=7)
    save(evidence, replace(official, data={**official.data, "origin": "official"}))
    tracks = {track.name: track for track in tracks_of(evidence)}
    assert {name: len(track.boards) for name, track in tracks.items()} == {
        "laptop": 2,
        "workstation": 1,
    }


def test_another_setting_of_the_knobs_is_a_variant_of_its_own(evidence: Path) -> None:
    for width in (16, 64):
        save(evidence, made_result("gsno", errors=0.001, model_params={"width": width}))
    board = board_of(evidence)
    variants = [row for row in board.rows if row.is_variant]
    assert [row.name for row in variants] == [
        "gsno@compact [model.width=16]",
        "gsno@compact [model.width=64]",
    ]
    assert all(row.rank is None for row in variants)
    assert board.rows[0].name == "gsno@compact" and board.rows[0].seeds == 3


def test_results_of_an_older_revision_are_left_out_and_counted(evidence: Path) -> None:
    save(evidence, made_result("gsno", errors=0.3, revision=2))
    board = board_of(evidence)
    assert board.outdated == 3
    assert next(row for row in board.rows if row.model == "gsno").error == pytest.approx(0.3)


def test_rows_without_an_error_stay_with_their_reason(evidence: Path) -> None:
    save(
        evidence,
        RunResult(made_spec("gnot"), "declined", "it cannot"),
        RunResult(made_spec("mgkn"), "failed", "memory"),
    )
    save(evidence, RunResult(made_spec("gsno", seed=3), "diverged", "the loss was inf"))
    board = board_of(evidence)
    assert {row.name: (row.state, row.reason) for row in board.rows if not row.seeds} == {
        "gnot@compact": ("declined", "it cannot"),
        "mgkn@compact": ("failed", "memory"),
    }
    assert board.rows[0].reason == "1 of 4 seeds diverged: the loss was inf"
    assert "memory" in markdown.board_section(board)


def test_a_single_seed_is_marked_and_says_what_it_needs(evidence: Path) -> None:
    save(evidence, made_result("gnot", errors=spread(0.03, 5)))
    row = next(row for row in board_of(evidence).rows if row.model == "gnot")
    assert row.is_thin and row.rank is None and row.needs == "2 more seeds"


def test_the_pictures_of_the_best_models_are_part_of_the_page(evidence: Path) -> None:
    for path in evidence.rglob("*.json"):
        path.with_suffix(".png").write_bytes(b"\x89PNG " + path.parent.name.encode())
    (track,) = tracks_of(evidence)
    page = board_page(track, track.boards[0], [])
    shown = [b64decode(code) for code in re.findall(r"data:image/png;base64,([^\"]+)", page)]
    assert shown == [b"\x89PNG gsno@compact", b"\x89PNG amg@compact"]


def test_wins_count_separated_tasks_and_mean_ranks_span_them(evidence: Path) -> None:
    for place, (model, mean) in enumerate((("gsno", 0.2), ("amg", 0.1), ("coral", 0.4))):
        results = [
            made_result(model, errors=spread(mean, 50 + 10 * place + seed), seed=seed, task="pipe")
            for seed in range(3)
        ]
        save(evidence, *results)
    (track,) = tracks_of(evidence)
    assert track.wins["gsno@compact", "coral@compact"] == (2, 2)
    assert track.wins["gsno@compact", "amg@compact"] == (1, 2)
    assert track.comparison is not None and track.comparison.tasks == 2
    assert (
        dict(zip(track.comparison.rows, track.comparison.mean_ranks, strict=True))["coral@compact"]
        == 3
    )


# -------------------------------------------------------------------------------------------- forms


def test_building_twice_gives_the_same_bytes_and_then_does_nothing(
    evidence: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    build([evidence], Target(first, tmp_path / "ledger.md"))
    build([evidence], Target(second))
    names = sorted(
        path.relative_to(first)
        for path in first.rglob("*")
        if path.is_file() and path.name != ".build.json"
    )
    assert len(names) > 6
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)
    assert build([evidence], Target(first, tmp_path / "ledger.md")).was_fresh


def test_a_new_result_is_noticed_and_what_is_no_longer_made_is_removed(
    evidence: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    extra = save(evidence, made_result("gsno", track="smoke"))[0]
    build([evidence], Target(out))
    assert (out / "smoke.md").exists() and not stale([evidence], Target(out))
    (out / "README.md").write_text("by hand\n")
    extra.unlink()
    assert out / "smoke.md" in stale([evidence], Target(out))
    built = build([evidence], Target(out))
    assert str(out / "smoke.md") in built.removed and not (out / "smoke.md").exists()
    assert (out / "README.md").read_text() == "by hand\n"
    (out / "laptop.md").write_text("edited\n")
    assert stale([evidence], Target(out)) == [out / "laptop.md"]


def test_an_overview_is_brought_up_to_date_between_its_marks(evidence: Path) -> None:
    text = "before\n<!-- overview of laptop -->\nold\n<!-- end of overview -->\nafter\n"
    (track,) = tracks_of(evidence)
    once = embedded(text, [track], "boards")
    assert "[darcy](boards/laptop.md#darcy)" in once
    assert (
        once.startswith("before\n")
        and once.endswith("after\n")
        and "old" not in once
        and "gsno@compact" in once
    )
    assert (
        embedded(once, [track], "boards") == once
        and embedded("no marks\n", [track], "") == "no marks\n"
    )


def test_hostile_names_are_inert_in_every_text_form(evidence: Path) -> None:
    bad = made_result("gnot", errors=spread(0.03, 5), preset=HOSTILE, seed=0)
    save(evidence, replace(bad, spec=replace(bad.spec, model_params={"width": HOSTILE})))
    save(evidence, RunResult(made_spec("mgkn"), "failed", HOSTILE))
    tracks = tracks_of(evidence)
    page = markdown.track_page(tracks[0])
    assert "<script" not in page and "javascript:1)" not in page.replace("\\)", "")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    widths = {len([c for c in line.replace("\\|", "").split("|")]) for line in rows}
    assert len(widths) == 2, "a bar or a line break in a name broke a table"
    parsed = list(csv.DictReader(io.StringIO(tables.to_csv(tracks))))
    assert any(HOSTILE in row["row"] for row in parsed)
    assert json.loads(tables.to_json(tracks))
    text = tables.latex(tracks[0])
    assert "\\textbackslash{}" in text and "\n=1+1" not in text
    assert all("\n" not in cell for row in terminal.overview(tracks[0])[1] for cell in row)


def test_a_name_cannot_steer_a_terminal_a_page_or_the_row_before(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steering = "\x1b[31m\u202e\r[/bold]"
    save(
        evidence,
        made_result(
            "*[4cm]",
            errors=spread(0.01, 5),
            preset=f"{steering}https://x.org",
            task=steering,
            track=steering,
        ),
    )
    (evidence / "odd\x1b[2J.json").write_text(json.dumps({"schema": steering, "key": ""}))
    track = next(one for one in tracks_of(evidence) if one.name == steering)
    assert show_boards([evidence], track=steering, task="", form="text", out=None, home=None) == 3
    assert (
        show_boards(
            [evidence], track=steering, task=track.boards[0].slug, form="text", out=None, home=None
        )
        == 3
    )
    said = capsys.readouterr()
    for text in (said.out, said.err, markdown.track_page(track), tables.latex(track)):
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


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "", ".", "..", "x" * 300, "<b>", "CON\0", "ä"]
)
def test_a_file_name_cannot_leave_its_folder(name: str) -> None:
    made = safe_name(name)
    assert "/" not in made and "\0" not in made and made not in ("", ".", "..") and len(made) < 100
    assert safe_name("darcy_threshold") == "darcy_threshold" and safe_name("swe@5-46") == "swe@5-46"
    assert safe_name("a/b") != safe_name("a-b")


def test_a_formula_is_not_handed_to_a_spreadsheet(evidence: Path) -> None:
    save(evidence, RunResult(made_spec("mgkn"), "failed", "=HYPERLINK(1)"))
    rows = list(csv.DictReader(io.StringIO(tables.to_csv(tracks_of(evidence)))))
    assert [row["reason"] for row in rows if row["state"] == "failed"] == ["'=HYPERLINK(1)"]


def test_latex_marks_best_and_second(evidence: Path) -> None:
    text = tables.latex(tracks_of(evidence)[0])
    assert text.count("\\textbf") == 1 and text.count("\\underline") == 1
    assert "\\toprule" in text and text.count("{") == text.count("}")
    assert "Promotion & 49\\% \\\\" in text


def test_latex_puts_a_promotion_that_seeds_leave_open_in_parentheses(tmp_path: Path) -> None:
    save(
        tmp_path,
        made_result("gsno", errors=spread(0.02, 1)),
        made_result("amg", errors=spread(0.04, 1)),
    )
    assert "Promotion & (50\\%) \\\\" in tables.latex(tracks_of(tmp_path)[0])
    save(tmp_path / "alone", made_result("gsno", errors=spread(0.02, 1)))
    assert "Promotion &" not in tables.latex(tracks_of(tmp_path / "alone")[0])


def test_parquet_holds_the_same_records(evidence: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    tracks = tracks_of(evidence)
    tables.write_parquet(tracks, tmp_path / "boards.parquet")
    assert parquet.read_table(tmp_path / "boards.parquet").to_pylist() == tables.records(tracks)


# ---------------------------------------------------------------------------------- diff and ledger


def test_diff_tells_better_worse_new_and_gone(evidence: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(evidence, other)
    for path in (other / "laptop" / "darcy" / "amg@compact").glob("*.json"):
        path.unlink()
    for path in (other / "laptop" / "darcy" / "coral@compact").glob("*.json"):
        path.unlink()
    save(
        other, *(made_result("amg", errors=spread(0.06, 30 + seed), seed=seed) for seed in range(3))
    )
    save(other, made_result("gnot", errors=0.1))
    before, after = (read_tracks([root])[0] for root in (evidence, other))
    verdicts = {one.row: one.verdict for one in diff(before, after)}
    expected = {"amg@compact": "worse", "coral@compact": "gone", "gnot@compact": "new"}
    assert verdicts == {**expected, "gsno@compact": "same", "mean@default": "same"}
    assert {one.row: one.verdict for one in diff(after, before)}["amg@compact"] == "better"
    assert {one.verdict for one in diff(before, before)} == {"same"}


def test_every_printed_number_is_in_the_ledger_with_a_verdict(evidence: Path) -> None:
    published = read_published()
    assert len(published.numbers) == 1086
    page = ledger(tracks_of(evidence), published)
    summary, *sections = re.split(r"^## ", page.partition("## Summary")[2], flags=re.MULTILINE)
    rows = [
        line
        for line in "".join(sections).splitlines()
        if line.startswith("| ") and not line.startswith(("| task", "| ---"))
    ]
    assert len(rows) == 1086
    verdicts = [row.split(" | ")[4] for row in rows]
    assert set(verdicts) == {"not run", "not comparable"}, "laptop numbers are not compared"
    counts = [verdicts.count("not comparable"), verdicts.count("not run")]
    assert f"| **all** | 1086 |  |  |  | {counts[0]} | {counts[1]} |" in summary
    assert "a cost of the authors' set-up" in page and "asked by a study" in page


def test_a_verdict_looks_at_the_interval_of_the_very_number(tmp_path: Path) -> None:
    """A printed RMSE that happens to lie in the interval of the relative error is not reproduced by
    it.
    """
    wanted = ("darcy", "gsno", "rmse")
    printed = next(
        one for one in read_published().numbers if (one.dataset, one.model, one.metric) == wanted
    )
    asked = {
        "preset": "paper",
        "track": "workstation",
        "resolution": 1184,
        "steps": {"fit": 400},
        "train_params": {"batch": 32},
    }
    # made results have an RMSE of twice their relative error
    for seed, share in enumerate((0.9, 1.0, 1.1)):
        save(tmp_path, made_result("gsno", errors=share * printed.value, seed=seed, **asked))
    line = compare(printed, tracks_of(tmp_path))
    assert line.verdict == "worse" and line.value == pytest.approx(2 * printed.value, rel=0.01)
    assert line.interval is not None and line.interval[0] > printed.value
    assert "100 epochs, not 1000" in line.differences and "3 seeds" in line.differences


@pytest.mark.parametrize(
    ("ours", "verdict"), [(0.0083, "reproduced"), (0.004, "better"), (0.02, "worse")]
)
def test_a_verdict_needs_the_papers_nodes_and_budget(
    tmp_path: Path, ours: float, verdict: str
) -> None:
    printed = next(
        one
        for one in read_published().numbers
        if (one.dataset, one.model, one.metric) == ("darcy", "gsno", "rel_l2")
    )
    assert printed.value == 0.0083
    save(
        tmp_path,
        made_result("gsno", errors=ours, preset="paper", track="workstation", resolution=1184),
    )
    assert compare(printed, tracks_of(tmp_path)).verdict == verdict
    save(
        tmp_path / "coarse",
        made_result("gsno", errors=ours, preset="paper", track="workstation", resolution=600),
    )
    assert compare(printed, tracks_of(tmp_path / "coarse")).verdict == "not comparable"


def test_computed_inputs_are_no_answer_to_a_printed_number(tmp_path: Path) -> None:
    printed = next(
        one
        for one in read_published().numbers
        if (one.dataset, one.model, one.metric) == ("darcy", "gnot", "rel_l2")
    )
    asked = {"track": "workstation", "resolution": 1184}
    save(
        tmp_path,
        made_result("gnot", errors=0.9 * printed.value, preset="compact+features", **asked),
    )
    assert compare(printed, tracks_of(tmp_path)).verdict == "not run"
    save(tmp_path, made_result("gnot", errors=2 * printed.value, preset="compact", **asked))
    assert compare(printed, tracks_of(tmp_path)).row == "gnot@compact"
    (board,) = tracks_of(tmp_path)[0].boards
    assert {row.name: row.published is None for row in board.rows} == {
        "gnot@compact": False,
        "gnot@compact+features": True,
    }


def test_a_board_says_what_computed_inputs_change(tmp_path: Path) -> None:
    """Only of rows that were asked the same otherwise, be they variants; there is nothing to
    compare amg with.
    """
    asked = [
        ("gnot", "compact", 0.08, 100),
        ("gnot", "compact+features", 0.02, 100),
        ("amg", "compact+features", 0.05, 100),
    ]
    for seed in (0, 1):
        save(
            tmp_path,
            made_result("gnot", errors=0.04, preset="compact", seed=seed, steps={"fit": 5000}),
        )
    for name, preset, error, steps in asked:
        save(tmp_path, made_result(name, errors=error, preset=preset, steps={"fit": steps}))
    (track,) = tracks_of(tmp_path)
    (board,) = track.boards
    (line,) = texts.offered(board)
    assert line[0].startswith("gnot@compact [") and (line[2], line[4]) == ("1", "1")
    assert float(line[5]) == pytest.approx(0.25, abs=0.02)
    assert f"| {' | '.join(line[1:])} |" in markdown.board_section(board)
    assert "Layers or inputs" in board_page(track, board, ())
