"""Boards as CSV, JSON, parquet and LaTeX: the same rows, and inert whatever a name holds."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from fake_results import made_result, made_spec, save, spread
from toy_boards import tracks_of

from gsnobench.boards import markdown, tables, terminal
from gsnobench.records import RunResult

HOSTILE = "<script>alert(1)</script>\"'`|*_[x](javascript:1)\\..\n=1+1"


def test_hostile_names_are_inert_in_every_text_form(evidence: Path) -> None:
    bad = made_result("gnot", errors=spread(0.03, 5), preset=HOSTILE, seed=0)
    save(evidence, replace(bad, spec=replace(bad.spec, model_params={"width": HOSTILE})))
    save(evidence, RunResult(made_spec("mgkn"), "failed", HOSTILE))
    tracks = tracks_of(evidence)
    page = markdown.track_page(tracks[0])
    assert "<script" not in page and "javascript:1)" not in page.replace("\\)", "")
    rows = [line.replace("\\|", "") for line in page.splitlines()]
    widths = [len(row.split("|")) if row.startswith("|") else 0 for row in rows]
    tables_of_page = [{*group} for is_table, group in groupby(widths, key=bool) if is_table]
    assert len(tables_of_page) == 3 and all(len(widths) == 1 for widths in tables_of_page), (
        "a bar or a line break in a name broke a table"
    )
    parsed = list(csv.DictReader(io.StringIO(tables.to_csv(tracks))))
    assert any(HOSTILE in row["row"] for row in parsed)
    assert json.loads(tables.to_json(tracks))
    text = tables.latex(tracks[0])
    assert "\\textbackslash{}" in text and "\n=1+1" not in text
    assert all("\n" not in cell for row in terminal.overview(tracks[0])[1] for cell in row)


def test_a_formula_is_not_handed_to_a_spreadsheet(evidence: Path) -> None:
    save(evidence, RunResult(made_spec("mgkn"), "failed", "=HYPERLINK(1)"))
    rows = list(csv.DictReader(io.StringIO(tables.to_csv(tracks_of(evidence)))))
    assert [row["reason"] for row in rows if row["state"] == "failed"] == ["'=HYPERLINK(1)"]


def test_latex_sets_bold_what_no_row_is_significantly_better_than(evidence: Path) -> None:
    text = tables.latex(tracks_of(evidence)[0])
    assert text.count("\\textbf") == 1 and "% Bold: no row" in text
    assert "\\toprule" in text and text.count("{") == text.count("}")
    assert "Promotion & 49\\% \\\\" in text


def test_latex_puts_a_promotion_that_seeds_leave_open_in_parentheses(tmp_path: Path) -> None:
    for model, mean in (("gsno", 0.02), ("amg", 0.04)):
        save(tmp_path, made_result(model, errors=spread(mean, 1)))
    assert "Promotion & (50\\%) \\\\" in tables.latex(tracks_of(tmp_path)[0])
    save(tmp_path / "alone", made_result("gsno", errors=spread(0.02, 1)))
    assert "Promotion &" not in tables.latex(tracks_of(tmp_path / "alone")[0])


def test_parquet_holds_the_same_records(evidence: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    tracks = tracks_of(evidence)
    tables.write_parquet(tracks, tmp_path / "boards.parquet")
    assert parquet.read_table(tmp_path / "boards.parquet").to_pylist() == tables.flat_rows(tracks)
