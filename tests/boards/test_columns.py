"""Columns of boards: right numbers over samples and seeds, and none that no row fills."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_results import made_result, save, spread, with_ood
from toy_boards import board_of

from gsnobench.boards import markdown
from gsnobench.boards.board import Board
from gsnobench.boards.columns import cost_columns, error_columns
from gsnobench.boards.tables import flat_rows
from gsnobench.records import RunResult

SIZES = {"train": 128, "valid": 32, "test": 64, "test_ood": 5}


def values_of(board: Board, row: int = 0) -> dict[str, float]:
    columns = [*error_columns(board.compared), *cost_columns(board.compared)]
    return {column.name: column.value(board.compared[row]) for column in columns}


def test_tails_and_errors_out_of_distribution_are_taken_per_seed_then_averaged(
    tmp_path: Path,
) -> None:
    draw = np.random.default_rng(0)
    tests = [np.round(spread(0.02, seed, scatter=0.3), 6) for seed in range(3)]
    outside = [np.exp(draw.normal(size=5)) for _ in range(3)]
    for seed, (errors, further) in enumerate(zip(tests, outside, strict=True)):
        result = made_result("gsno", errors=errors, seed=seed, sizes=SIZES)
        save(tmp_path, with_ood(result, further.tolist()))
    values = values_of(board_of(tmp_path))
    assert values["error"] == pytest.approx(np.mean(tests))
    assert values["OOD error"] == pytest.approx(np.mean(outside))
    assert values["OOD median"] == pytest.approx(np.mean([sorted(seed)[2] for seed in outside]))
    assert values["worst"] == pytest.approx(np.mean([sorted(seed)[-1] for seed in tests]))
    # by hand: 63 gaps between 64 sorted samples, the quantile is at 59.85
    ordered = [sorted(seed) for seed in tests]
    by_hand = [0.15 * seed[59] + 0.85 * seed[60] for seed in ordered]
    assert values["95th pct"] == pytest.approx(np.mean(by_hand))


def test_a_seed_without_a_finite_error_out_of_distribution_is_not_averaged_away(
    tmp_path: Path,
) -> None:
    for seed, further in enumerate(([0.1] * 5, [0.1, 0.1, 0.1, 0.1, float("nan")])):
        save(tmp_path, with_ood(made_result("gsno", seed=seed, sizes=SIZES), further))
    save(tmp_path, with_ood(made_result("amg", errors=0.5, sizes=SIZES), [0.2] * 5))
    assert np.isnan(values_of(board_of(tmp_path))["OOD error"])


def test_old_results_have_a_mean_out_of_distribution_but_no_median(tmp_path: Path) -> None:
    result = with_ood(made_result("gsno", sizes=SIZES), [0.1, 0.2, 0.3, 0.4, 0.5])
    save(tmp_path, replace(result, samples={"test": result.samples["test"]}))
    values = values_of(board_of(tmp_path))
    assert values["OOD error"] == pytest.approx(0.3) and "OOD median" not in values


def test_columns_that_no_row_fills_are_left_out(tmp_path: Path) -> None:
    save(tmp_path, made_result("mean", preset="default", steps={"fit": 0}))
    names = values_of(board_of(tmp_path)).keys()
    assert (
        not {"OOD error", "OOD median", "published", "steps", "epochs", "normalised CPU-s"} & names
    )
    assert {"error", "95th pct", "worst", "train CPU-s"} <= names


def test_steps_are_those_of_all_phases_and_epochs_those_of_the_run(tmp_path: Path) -> None:
    save(tmp_path, made_result("coral", steps={"start": 0, "codec": 90, "fit": 10}, epochs=64))
    values = values_of(board_of(tmp_path))
    assert values["steps"] == 100 and values["epochs"] == pytest.approx(64)


def scored(model: str, seed: int, **metrics: float | None) -> RunResult:
    """With metrics of the headline; those that begin with head_ are of the field."""
    result = made_result(model, errors=spread(0.1, seed), seed=seed)
    of_field = {n.removeprefix("head_"): v for n, v in metrics.items() if n.startswith("head_")}
    of_all = {name: value for name, value in metrics.items() if not name.startswith("head_")}
    test = result.scores["test"]
    tables = {
        "head": {**test["head"], **of_field, "boundary_rim": 0.3},
        "headline": {**test["headline"], **of_all},
    }
    return replace(result, scores={**result.scores, "test": tables})  # type: ignore[arg-type]


def test_metrics_of_plugins_are_columns_and_the_usual_ones_are_not(tmp_path: Path) -> None:
    for seed, drag in enumerate((0.2, 0.6)):
        save(tmp_path, scored("gsno", seed, drag=drag, head_rel_h1=2 * drag))
    save(tmp_path, scored("amg", 5, drag=None))
    board = board_of(tmp_path)
    (index,) = [i for i, row in enumerate(board.compared) if row.model == "gsno"]
    values = values_of(board, index)
    assert values["drag"] == pytest.approx(0.4) and values["rel_h1 of head"] == pytest.approx(0.8)
    assert not any("rmse" in name or "boundary" in name for name in values)
    assert np.isnan(values_of(board, 1 - index)["drag"]), "null is no number"
    assert "| rel\\_h1 of head |" in markdown.board_section(board)
    records = [record for record in _records(tmp_path) if record["row"] == "gsno@compact"]
    assert [metric["name"] for metric in records[0]["metrics"]] == ["rel_h1", "drag"]


def _records(root: Path) -> list[dict[str, object]]:
    from toy_boards import tracks_of

    return flat_rows(tracks_of(root))
