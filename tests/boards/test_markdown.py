"""Pages of boards: what is best, what is not ranked, and what the overview counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fake_results import made_result, made_spec, save
from toy_boards import tracks_of

from gsnobench.boards import markdown
from gsnobench.boards.plots.track import track_figures
from gsnobench.records import RunResult

FLOOR = {"preset": "default", "steps": {"fit": 0}}


def cells_of(page: str, row: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_floor_is_not_the_best_of_a_task_that_no_model_has_tried(evidence: Path) -> None:
    save(evidence, made_result("mean", task="car", **FLOOR))
    save(evidence, RunResult(made_spec("mean", task="pipe", **FLOOR), "declined", "no frames"))
    save(evidence, *(made_result(model, task="pipe") for model in ("gsno", "amg")))
    (track,) = tracks_of(evidence, board_tasks=("darcy", "pipe", "car", "swe"))
    page = markdown.overview(track)
    header = page.splitlines()[0]
    assert "[car](#car) floors only |" in header and header.count("floors only") == 1
    floor = cells_of(page, "mean@default")
    assert floor[1] == "2/4" and floor[-2] == "n/a" and floor[-1] == "0.100"
    assert cells_of(page, "gsno@compact")[4].startswith("**0.02")
    lines = page.splitlines()
    order = [line.split("|")[1].strip() for line in lines[2:]]
    assert order[2] == "*rows that lack a compared task*" and order[:2] == [
        "gsno@compact",
        "amg@compact",
    ]
    drawn = track_figures(track)[0]
    assert "only floors have an error: car." in drawn.caption and ">car<" not in drawn.svg


def test_a_track_of_floors_has_a_page_and_no_picture(tmp_path: Path) -> None:
    from gsnobench.boards.build import Target, build

    save(tmp_path / "results", made_result("mean", task="car", track="smoke", **FLOOR))
    build([tmp_path / "results"], Target(tmp_path / "out"))
    assert (tmp_path / "out" / "smoke.md").exists() and not (
        tmp_path / "out" / "smoke.png"
    ).exists()


def test_variants_are_folded_below_the_ranking(evidence: Path) -> None:
    knobs = {"model_params": {"width": 8}, "changed": {"model.width": 8}}
    save(evidence, made_result("gsno", errors=0.001, origin="tuned, 12 trials", **knobs))
    diverged = RunResult(made_spec("amg"), "diverged", "it exploded", changed={"train.lr": 9.0})
    save(evidence, diverged)
    (track,) = tracks_of(evidence)
    section = markdown.board_section(track.boards[0])
    ranking, _, folded = section.partition("<details><summary>Variants: 2, not ranked</summary>")
    assert "tuned" not in ranking and "lr=9" not in ranking
    tuned = cells_of(folded, "gsno@compact \\(tuned, 12 trials\\)")
    assert tuned[1] == "0.00100" and tuned[-1] == "width=8"
    assert cells_of(folded, "amg@compact \\[lr=9.0\\]")[-1] == "diverged, it exploded"
    assert "tuned" not in markdown.overview(track)


def test_rows_that_are_not_converged_have_a_sign_and_mean_ranks_without_them(
    evidence: Path,
) -> None:
    for task in ("darcy", "pipe"):
        for model in ("gsno", "amg", "coral", "gnot", "mgkn"):
            error, epochs = (0.05, 10) if model == "gnot" else (0.03, 100)
            save(evidence, made_result(model, errors=error, seed=7, task=task, epochs=epochs))
    (track,) = tracks_of(evidence)
    page = markdown.track_page(track)
    assert "0.0500°†" in cells_of(markdown.overview(track), "gnot@compact")
    assert "not converged: 10 epochs" in page
    (line,) = [line for line in page.splitlines() if "Over 2 tasks, mean ranks" in line]
    _, found, converged = line.partition("Mean ranks among converged rows only:")
    assert found and "mgkn@compact" in converged and "gnot@compact" not in converged


def test_where_data_come_from_cannot_be_markup(evidence: Path) -> None:
    made = made_result("gsno", task="own")
    hostile = {"origin": "<img src=x onerror=y>", "hash": "[a](b://c)" + "0" * 54}
    save(evidence, replace(made, data={**made.data, **hostile}))
    (track,) = tracks_of(evidence)
    page = markdown.track_page(track)
    assert "<img" not in page and "[a](b" not in page


# ------------------------------------------------------------------------------------------- README


def test_only_the_five_best_models_are_shown_and_rows_with_one_seed_prove_nothing(
    tmp_path: Path,
) -> None:
    models = ["gsno", "amg", "coral", "gnot", "mgkn", "geofno"]
    for number, model in enumerate(models):
        save(tmp_path, made_result(model, errors=0.01 * (number + 1), seed=0))
    (track,) = tracks_of(tmp_path)
    header = next(
        line for line in markdown.readme_part(track, "").splitlines() if line.startswith("| task")
    )
    shown = [f"{model}<br>@compact" for model in models[:5]]
    assert [cell.strip() for cell in header.split("|")][2:7] == shown
    assert "no difference has been tested yet" in markdown.readme_part(track, "")


def test_nothing_run_is_said(tmp_path: Path) -> None:
    save(tmp_path, made_result("mean", **FLOOR))
    (track,) = tracks_of(tmp_path)
    assert markdown.readme_part(track, "") == "No model has been run yet."
