"""`gb.bench` and `gb.sweep` do what the commands do, and return tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import gsnobench as gb

pytestmark = pytest.mark.usefixtures("untracked")


def test_a_matrix_is_a_table_of_cells(steady_file: Path, tmp_path: Path) -> None:
    options = {"seeds": [0], "track": "smoke", "executor": "local", "home": tmp_path}
    table = gb.bench("mean,ridge", str(steady_file), device="cpu", jobs=1, **options)
    assert set(table["row"]) == {"mean@default", "ridge@default"}
    assert (table["state"] == "done").all()
    ridge = gb.run("ridge", steady_file, track="smoke", home=tmp_path, device="cpu")
    found = table.set_index("row").loc["ridge@default"]
    assert found["error"] == ridge.headline and found["key"] == ridge.spec.short


def test_a_missing_folder_of_results_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(gb.DataError, match="no such folder"):
        gb.bench("mean", "darcy", results=tmp_path / "nowhere", home=tmp_path)


def test_a_sweep_returns_its_best_point_and_all_trials(
    steady_file: Path, tmp_path: Path, drawn: None
) -> None:
    options = {"trials": 2, "refit_top": 0, "sampler": "grid", "track": "smoke", "device": "cpu"}
    found = gb.sweep(
        "gsno",
        steady_file,
        "model.k_s=4:8",
        knobs={"train.steps": 3},
        home=tmp_path,
        **options,
    )
    assert found.status == "done" and len(found.trials) == 2
    best = found.trials.sort_values("error").iloc[0]
    assert found.best == {"model.k_s": best["model.k_s"]}
    assert len(repr(found)) < 160 and f"model.k_s {best['model.k_s']}" in found._repr_html_()
    with pytest.raises(gb.RunError, match="has no picture"):
        found.plot()
