"""The reproduction ledger: every printed number, and verdicts only where they are fair."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_results import made_result, save
from toy_boards import tracks_of

from gsnobench.boards.reproduction.ledger import compare, ledger
from gsnobench.boards.reproduction.paper import PaperNumber, read_paper

AS_PRINTED = {"track": "workstation", "resolution": 1184}  # the paper's nodes of darcy


def number_of(model: str, metric: str) -> PaperNumber:
    """The first printed number of a model on darcy."""
    return next(
        number
        for number in read_paper().numbers
        if (number.dataset, number.model, number.metric) == ("darcy", model, metric)
    )


def test_every_printed_number_is_in_the_ledger_with_a_verdict(evidence: Path) -> None:
    paper = read_paper()
    assert len(paper.numbers) == 1086
    page = ledger(tracks_of(evidence), paper)
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
    assert f"| **all** | 1086 |  |  |  |  | {counts[0]} | {counts[1]} |" in summary
    assert "a cost of the authors' set-up" in page and "part of a study" in page


def test_a_verdict_looks_at_the_interval_of_the_very_number(tmp_path: Path) -> None:
    """A printed RMSE inside the interval of the relative error is not reproduced by it."""
    printed = number_of("gsno", "rmse")
    spec = {**AS_PRINTED, "preset": "paper", "epochs": 1000}
    # made results have an RMSE of twice their relative error
    for seed, share in enumerate((0.9, 1.0, 1.1)):
        save(tmp_path, made_result("gsno", errors=share * printed.value, seed=seed, **spec))
    line = compare(printed, tracks_of(tmp_path))
    assert line.verdict == "worse" and line.value == pytest.approx(2 * printed.value, rel=0.01)
    assert line.interval is not None and line.interval[0] > printed.value
    assert "epochs" not in line.differences and "3 seeds" in line.differences


@pytest.mark.parametrize(
    ("ours", "verdict", "short"),
    [
        (0.0083, "reproduced", "reproduced"),
        (0.004, "better", "better"),
        (0.02, "worse", "budget short"),
    ],
)
def test_a_verdict_needs_the_papers_nodes_and_budget(
    tmp_path: Path, ours: float, verdict: str, short: str
) -> None:
    printed = number_of("gsno", "rel_l2")
    assert printed.value == 0.0083
    shared = {"errors": ours, "preset": "paper"}
    save(tmp_path, made_result("gsno", **shared, epochs=1000, **AS_PRINTED))
    assert compare(printed, tracks_of(tmp_path)).verdict == verdict
    coarse = {**AS_PRINTED, "resolution": 600}
    save(tmp_path / "coarse", made_result("gsno", **shared, epochs=1000, **coarse))
    assert compare(printed, tracks_of(tmp_path / "coarse")).verdict == "not comparable"
    save(tmp_path / "short", made_result("gsno", **shared, epochs=187, **AS_PRINTED))
    line = compare(printed, tracks_of(tmp_path / "short"))
    assert line.verdict == short and "187 epochs, not 1000" in line.differences


def test_a_variant_is_no_counterpart_of_a_printed_number(tmp_path: Path) -> None:
    printed = number_of("gsno", "rel_l2")
    swept = {
        "changed": {"train.batch": 4},
        "train_params": {"batch": 4},
        "origin": "tuned, 9 trials",
    }
    spec = {"preset": "paper", "epochs": 1000, **AS_PRINTED}
    for seed in range(5):
        save(tmp_path, made_result("gsno", errors=printed.value, seed=seed, **swept, **spec))
    assert compare(printed, tracks_of(tmp_path)).verdict == "not run"
    save(tmp_path, made_result("gsno", errors=2 * printed.value, **spec))
    line = compare(printed, tracks_of(tmp_path))
    assert (line.verdict, line.row) == ("worse", "gsno@paper")


def test_a_row_with_computed_inputs_is_no_counterpart_of_a_printed_number(tmp_path: Path) -> None:
    printed = number_of("gnot", "rel_l2")
    better, worse = 0.9 * printed.value, 2 * printed.value
    save(tmp_path, made_result("gnot", errors=better, preset="compact+features", **AS_PRINTED))
    assert compare(printed, tracks_of(tmp_path)).verdict == "not run"
    save(tmp_path, made_result("gnot", errors=worse, preset="compact", **AS_PRINTED))
    assert compare(printed, tracks_of(tmp_path)).row == "gnot@compact"
    (board,) = tracks_of(tmp_path)[0].boards
    assert {row.name: row.published is None for row in board.rows} == {
        "gnot@compact": False,
        "gnot@compact+features": True,
    }
