"""Boards from results: what is grouped, what is never mixed, who is ranked above whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_results import made_result, made_spec, save, spread
from toy_boards import board_of, tracks_of

from gsnobench.boards import markdown
from gsnobench.boards.board import Board
from gsnobench.boards.evidence import NOWHERE, Installation
from gsnobench.boards.plots.task import board_figures
from gsnobench.boards.plots.track import overview_png
from gsnobench.records import RunResult, StepsFrom
from gsnobench.registry import Published, Track

LAPTOP = {"tracks": {"laptop": Track("laptop", train_cpu_s=120, counts_steps=True)}}


def test_rows_are_ranked_by_their_mean_over_seeds_beside_the_floors(evidence: Path) -> None:
    board = board_of(evidence)
    names = ["gsno@compact", "amg@compact", "coral@compact", "mean@default"]
    assert [row.name for row in board.rows] == names
    assert [row.rank.low for row in board.rows if row.rank] == [1, 2, 3, 4]
    assert [row.is_floor for row in board.rows] == [False, False, False, True]
    assert board.rows[-1].is_exact and not board.rows[-1].has_few_seeds
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
def test_results_on_another_task_or_data_appear_on_another_board(
    evidence: Path, change: dict[str, object]
) -> None:
    save(evidence, made_result("gsno", errors=0.001, seed=0, **change))
    (track,) = tracks_of(evidence)
    first, second = (board.slug for board in track.boards)
    assert first == "darcy" and second.startswith("darcy-")
    assert (second == "darcy-data-seed-1") == ("data_seed" in change), "said where it is all"
    for board in track.boards:
        assert len({entry.error < 0.002 for row in board.rows for entry in row.entries}) == 1


def test_tracks_and_data_origins_are_never_mixed(evidence: Path) -> None:
    save(evidence, made_result("gsno", errors=0.001, track="workstation"))
    official = made_result("gsno", errors=0.001, seed=7)
    save(evidence, replace(official, data={**official.data, "origin": "official"}))
    counts = {track.name: len(track.boards) for track in tracks_of(evidence)}
    assert counts == {"laptop": 2, "workstation": 1}


def test_another_setting_of_the_knobs_is_a_variant_of_its_own(evidence: Path) -> None:
    for width in (16, 64):
        knobs = {"model_params": {"width": width}, "changed": {"model.width": width}}
        save(evidence, made_result("gsno", errors=0.001, **knobs))
    board = board_of(evidence)
    variants = [row for row in board.rows if row.is_variant]
    names = ["gsno@compact [width=16]", "gsno@compact [width=64]"]
    assert [row.name for row in variants] == names == [row.name for row in board.variants]
    assert all(row.rank is None for row in variants)
    assert board.rows[0].name == "gsno@compact" and board.rows[0].seeds == 3


def test_results_of_an_older_revision_are_left_out_and_counted(evidence: Path) -> None:
    save(evidence, made_result("gsno", errors=0.3, revision=51))
    board = board_of(evidence)
    assert board.outdated == 3
    assert next(row for row in board.rows if row.model == "gsno").error == pytest.approx(0.3)


def test_results_of_an_older_revision_than_the_installed_one_are_left_out(evidence: Path) -> None:
    """Else a row that was changed would be ranked by what it was until somebody runs it again."""
    models = {row.model for row in board_of(evidence).rows}
    board = board_of(evidence, here=Installation(revisions={"gsno": 51}))
    assert {row.model for row in board.rows} == models - {"gsno"} and board.outdated == 3
    assert not tracks_of(evidence, here=Installation(revisions=dict.fromkeys(models, 51)))


def test_rows_without_an_error_stay_with_their_reason(evidence: Path) -> None:
    save(evidence, RunResult(made_spec("gnot"), "declined", "it cannot"))
    save(evidence, RunResult(made_spec("mgkn"), "failed", "memory"))
    save(evidence, RunResult(made_spec("gsno", seed=3), "diverged", "the loss was inf"))
    board = board_of(evidence)
    assert {row.name: (row.state, row.reason) for row in board.rows if not row.seeds} == {
        "gnot@compact": ("declined", "it cannot"),
        "mgkn@compact": ("failed", "memory"),
    }
    assert board.rows[0].reason == "1 of 4 seeds diverged: the loss was inf"
    assert "memory" in markdown.board_section(board)


def test_a_closed_form_run_twice_has_no_spread_over_seeds(evidence: Path) -> None:
    form = {"preset": "default", "steps": {"fit": 0}, "seed": 1}
    save(evidence, made_result("mean", errors=spread(0.5, 99), **form))
    floor = board_of(evidence).compared[-1]
    assert floor.seeds == 2 and floor.is_exact and floor.interval is None


def test_a_single_seed_is_marked_and_says_what_it_needs(evidence: Path) -> None:
    save(evidence, made_result("gnot", errors=spread(0.03, 5)))
    row = next(row for row in board_of(evidence).rows if row.model == "gnot")
    assert row.has_few_seeds and row.rank is None and row.needs == "2 more seeds"


def test_wins_count_separated_tasks_and_mean_ranks_span_them(evidence: Path) -> None:
    for index, (model, mean) in enumerate((("gsno", 0.2), ("amg", 0.1), ("coral", 0.4))):
        for seed in range(3):
            errors = spread(mean, 50 + 10 * index + seed)
            save(evidence, made_result(model, errors=errors, seed=seed, task="pipe"))
    (track,) = tracks_of(evidence)
    assert track.wins["gsno@compact", "coral@compact"] == (2, 2)
    assert track.wins["gsno@compact", "amg@compact"] == (1, 2)
    comparison = track.comparison
    assert comparison is not None and comparison.tasks == 2
    mean_ranks = dict(zip(comparison.rows, comparison.mean_ranks, strict=True))
    assert mean_ranks["coral@compact"] == 3


# ----------------------------------------------------------------------------------------- variants


def names_of(board: Board) -> tuple[list[str], list[str]]:
    """Ranked rows and variants."""
    return [row.name for row in board.compared], [row.name for row in board.variants]


def test_no_number_of_seeds_lets_a_changed_run_take_the_place_of_the_preset(evidence: Path) -> None:
    """More steps, other knobs, a study: seven seeds each, all better than the honest row."""
    honest = board_of(evidence)
    (before,) = tracks_of(evidence)
    abuses = ({"steps.fit": 300}, {"train.lr": 0.004, "train.batch": 4}, {"model.width": 64})
    for number, changed in enumerate(abuses):
        knobs = {
            "steps": {"fit": changed.get("steps.fit", 100)},
            "train_params": {"lr": changed.get("train.lr", 0.001), "batch": 4},
            "model_params": {"width": changed.get("model.width", 32)},
        }
        for seed in range(7):
            errors = spread(0.001 * (1 + number), 70 + seed)
            save(evidence, made_result("gsno", errors=errors, seed=seed, changed=changed, **knobs))
    board = board_of(evidence)
    assert names_of(board) == (
        names_of(honest)[0],
        ["gsno@compact [steps=300]", "gsno@compact [lr=0.004, batch=4]", "gsno@compact [width=64]"],
    )
    assert [row.rank for row in board.compared] == [row.rank for row in honest.compared]
    assert (board.p_values == honest.p_values).all() and board.promotion == honest.promotion
    assert [figure.svg for figure in board_figures(board)] == [
        figure.svg for figure in board_figures(honest)
    ]
    (track,) = tracks_of(evidence)
    assert track.standings == before.standings and set(track.rows) == set(names_of(honest)[0])
    assert markdown.overview(track) == markdown.overview(before)
    assert overview_png(track) == overview_png(before)


def test_a_swept_winner_has_the_name_of_its_sweep_and_settings_only_where_two_share_it(
    evidence: Path,
) -> None:
    def swept(width: int, seed: int, trials: int = 12) -> RunResult:
        knobs = {"model_params": {"width": width}, "changed": {"model.width": width}}
        return made_result("gsno", seed=seed, origin=f"tuned, {trials} trials", **knobs)

    save(evidence, *(swept(48, seed) for seed in range(3)))
    (alone,) = board_of(evidence).variants
    assert alone.name == "gsno@compact (tuned, 12 trials)" and alone.seeds == 3
    assert (alone.settings, alone.untold) == ("width=48", "width=48")
    save(evidence, swept(64, 0), swept(80, 0, trials=30))
    rows = {row.name: row.untold for row in board_of(evidence).variants}
    assert rows == {
        "gsno@compact (tuned, 12 trials) [width=48]": "",
        "gsno@compact (tuned, 12 trials) [width=64]": "",
        "gsno@compact (tuned, 30 trials)": "width=80",
    }


def test_a_knob_that_two_sections_have_keeps_its_section(evidence: Path) -> None:
    knobs = {"model_params": {"width": 8, "lr": 1}, "changed": {"train.lr": 0.1, "model.width": 8}}
    save(evidence, made_result("gsno", **knobs))
    assert names_of(board_of(evidence))[1] == ["gsno@compact [train.lr=0.1, width=8]"]


def test_steps_that_nobody_counted_are_ranked_on_no_counting_track(evidence: Path) -> None:
    guessed = replace(made_result("own", errors=0.001), steps_from="track")
    declined = RunResult(made_spec("other", steps={}), "declined", "it cannot")
    failed = RunResult(made_spec("third"), "failed", "memory")
    save(evidence, guessed, declined, failed)
    board = board_of(evidence, **LAPTOP)
    assert names_of(board)[1] == ["own@compact (steps not counted)"]
    assert [row.name for row in board.blank] == ["other@compact", "third@compact"]
    assert names_of(board_of(evidence))[0][0] == "own@compact", "a track that counts nothing"


@pytest.mark.parametrize("counted_by", ["home", "registry"])
def test_steps_counted_by_another_home_or_registry_are_shown_and_not_ranked(
    evidence: Path, tmp_path: Path, counted_by: StepsFrom
) -> None:
    counted = replace(made_result("own", errors=0.001), steps_from=counted_by)
    form = {"preset": "default", "steps": {"fit": 0}}
    save(evidence, counted, replace(made_result("closed", **form), steps_from=counted_by))
    ranked, variants = names_of(board_of(evidence, here=Installation(evidence), **LAPTOP))
    assert ranked[0] == "own@compact" and variants == []
    for here in (Installation(), Installation(tmp_path / "elsewhere")):
        ranked, variants = names_of(board_of(evidence, here=here, **LAPTOP))
        assert variants == ["own@compact (steps counted on another machine)"]
        assert "closed@default" in ranked, "a closed form has no steps to count"


def test_a_result_at_steps_of_an_earlier_count_is_no_longer_the_row(evidence: Path) -> None:
    def counts(steps: int) -> dict[str, object]:
        return {"laptop": {"darcy": {"gsno@compact": {"fit": steps, "features": 0}}}}

    form = {"steps": {"features": 0, "fit": 100}, "preset": "compact+features"}
    save(evidence, made_result("gsno", errors=0.001, **form))
    same = board_of(evidence, **LAPTOP, steps={"laptop": {"darcy": {"gsno@compact": {"fit": 100}}}})
    assert same.variants == []
    other = board_of(evidence, **LAPTOP, steps=counts(120))
    assert sorted(names_of(other)[1]) == [
        "gsno@compact (steps of an earlier count)",
        "gsno@compact+features (steps of an earlier count)",
    ]
    assert names_of(other)[0][0] == "amg@compact"


def test_seeds_of_two_settings_are_never_averaged_though_neither_is_marked_as_changed(
    evidence: Path,
) -> None:
    """A preset that was edited without a new revision."""
    save(evidence, made_result("gsno", errors=0.001, seed=9, model_params={"width": 48}))
    board = board_of(evidence)
    assert board.compared[0].name == "gsno@compact" and board.compared[0].seeds == 3
    (variant,) = board.variants
    assert (variant.name, variant.untold) == ("gsno@compact (other settings)", "width=48")


def coded(code: str, **changes: Any) -> RunResult:
    return replace(made_result("gsno", **changes), code={"model": code})


def test_seeds_of_two_codes_are_never_averaged(tmp_path: Path) -> None:
    """A plugin that was edited without a new revision: its many seeds do not move the row."""
    for seed in range(3):
        save(tmp_path, coded("honest", errors=spread(0.02, seed), seed=seed))
    before = board_of(tmp_path).compared[0]
    for seed in range(10, 12):
        save(tmp_path, coded("edited", errors=spread(0.001, seed), seed=seed))
    here = Installation(None, {("model", "gsno"): "honest"})
    save(tmp_path, coded("third", errors=0.003, seed=20))
    for installation in (NOWHERE, here):
        board = board_of(tmp_path, here=installation)
        (row,) = board.compared
        assert (row.name, row.seeds, row.error) == (before.name, 3, before.error)
        assert [(row.name, row.seeds) for row in board.variants] == [
            ("gsno@compact (other code) [code=edited]", 2),
            ("gsno@compact (other code) [code=third]", 1),
        ]
    for seed in range(30, 40):
        save(tmp_path, coded("edited", errors=spread(0.001, seed), seed=seed))
    assert board_of(tmp_path, here=here).compared[0].error == before.error
    edited = Installation(None, {("model", "gsno"): "edited"})
    assert board_of(tmp_path, here=edited).compared[0].seeds == 12, "the code that is installed"


def test_a_preset_that_was_edited_with_the_code_does_not_take_the_row(evidence: Path) -> None:
    """Nor do results of which the code is not known stand back."""
    for seed in range(10, 15):
        knobs = {"model_params": {"width": 48}, "seed": seed}
        save(evidence, coded("edited", errors=0.001, **knobs))
    for seed in range(3, 5):
        save(evidence, coded("honest", errors=spread(0.02, seed), seed=seed))
    board = board_of(evidence, here=Installation(None, {("model", "gsno"): "honest"}))
    assert (board.compared[0].name, board.compared[0].seeds) == ("gsno@compact", 5)
    assert [row.name for row in board.variants] == ["gsno@compact (other code)"]


def test_results_on_other_data_are_not_ranked(evidence: Path) -> None:
    """A solver that was edited: the data are another draw, or easier."""
    easier = {"hash": "b" * 64, "fingerprint": '{"field_head": [0, 1]}', "origin": "generated"}
    elsewhere = {**easier, "fingerprint": "{}"}  # other last digits: another machine
    save(evidence, replace(made_result("own", errors=0.001), data=easier))
    save(evidence, replace(made_result("gnot", errors=0.01), data=elsewhere))
    ranked, variants = names_of(board_of(evidence))
    assert variants == ["own@compact (other data)"] and ranked[0] == "gnot@compact"


EASIER = {"hash": "b" * 64, "fingerprint": '{"field_head": [0, 1]}', "origin": "generated"}


@pytest.mark.parametrize(
    ("edited", "variant"),
    [
        ({"code": {"model": "edited"}}, "other code"),
        ({"data": EASIER}, "other data"),
        ({"model_params": {"width": 48}}, "other settings"),
    ],
    ids=["code", "data", "preset"],
)
@pytest.mark.parametrize("first", [0, 10], ids=["the same seeds", "more seeds"])
def test_no_run_of_a_home_takes_the_place_of_the_benchmark(
    tmp_path: Path, edited: dict[str, Any], variant: str, first: int
) -> None:
    """A bundled plugin, edited without a new revision: run with the seeds on record, or more."""
    committed, home = tmp_path / "committed", tmp_path / "home"
    for seed in range(3):
        save(committed, coded("honest", errors=spread(0.02, seed), seed=seed))
    before = board_of(committed).compared[0]
    settings = {name: edited[name] for name in edited if name == "model_params"}
    entries = {name: edited[name] for name in edited if name != "model_params"}
    for seed in range(first, first + 6):
        result = coded("honest", errors=0.001, seed=seed, **settings)
        save(home, replace(result, **entries))
    for code in ("honest", "edited", "later"):
        board = board_of(home, committed, here=Installation(home, {("model", "gsno"): code}))
        (row,) = board.compared
        assert (row.name, row.seeds, row.error) == (before.name, 3, before.error)
        assert not row.is_own
        assert [(row.name, row.seeds) for row in board.variants] == [
            (f"gsno@compact ({variant})", 6)
        ]
    assert board_of(home).compared[0].seeds == 6, "on a board of its own"


def test_a_knob_at_its_default_that_older_results_do_not_name_changes_no_row(
    evidence: Path,
) -> None:
    knobs = {"model_params": {"width": 32, "later": 0}, "defaults": ("model.later",)}
    save(evidence, made_result("gsno", errors=spread(0.02, 3), seed=3, **knobs))
    board = board_of(evidence)
    assert board.variants == [] and board.compared[0].seeds == 4


# -------------------------------------------------------------------------------------------- marks


def marks_of(board: Board, name: str) -> dict[str, str]:
    (row,) = [row for row in board.rows if row.name == name]
    return {mark.name: mark.why for mark in row.marks}


def test_a_model_above_the_blind_floor_did_not_learn(tmp_path: Path) -> None:
    for name, error in (("gnot", 0.3), ("amg", 0.5), ("ridge", 0.9)):
        save(tmp_path, made_result(name, errors=error))
    save(tmp_path, made_result("mean", errors=0.36, preset="default", steps={}))
    board = board_of(tmp_path, floors=("mean", "ridge"), blind_floor="mean@default")
    why = "mean@default, which uses no input but the last given frame, if any, has 0.36"
    marked = {row.model: [str(mark) for mark in row.marks] for row in board.rows}
    assert marked == {"gnot": [], "mean": [], "amg": [f"did not learn: {why}"], "ridge": []}
    unnamed = board_of(tmp_path, floors=("mean", "ridge"))
    assert not any(row.marks for row in unnamed.rows), "a registry that names no such floor"


def spent(model: str, cpu_s: float, reference_s: float = 0.0, **changes: object) -> RunResult:
    result = made_result(model, **changes)
    costs = {**result.costs, "train_cpu_s": cpu_s}
    return replace(
        result, costs={**costs, **({"reference_step_s": reference_s} if reference_s else {})}
    )


@pytest.mark.parametrize(
    ("cpu_s", "reference_s", "why"),
    [
        (120.0, 0.0, None),
        (103.0, 0.0, None),
        (137.0, 0.0, None),
        (101.0, 0.0, "101 of 120 CPU-s"),
        (139.0, 0.0, "139 of 120 CPU-s"),
        # a machine of half the speed: 240 seconds there are 120 here
        (240.0, 0.03, None),
        (120.0, 0.03, "60 of 120 normalised CPU-s"),
    ],
)
def test_a_row_more_than_15_per_cent_off_its_budget_is_marked_and_ranked(
    tmp_path: Path, cpu_s: float, reference_s: float, why: str | None
) -> None:
    for seed in range(2):
        save(tmp_path, spent("gsno", cpu_s, reference_s, seed=seed, errors=0.1 + 0.001 * seed))
    board = board_of(tmp_path, **LAPTOP, reference_step_s=0.015)
    assert marks_of(board, "gsno@compact").get("off the budget") == why
    assert board.compared[0].rank is not None and board.compared[0].rank.place == 1
    if reference_s:
        expected = cpu_s * 0.015 / reference_s
        assert board.compared[0].normalised_cpu_s == pytest.approx(expected)


def test_rows_that_take_the_steps_of_another_or_none_have_no_budget(tmp_path: Path) -> None:
    save(tmp_path, spent("gsno", 500.0, preset="compact+features"))
    save(tmp_path, spent("mean", 500.0, preset="default", steps={"fit": 0}))
    gpu = replace(spent("amg", 5.0), environment={"device": "cuda"})
    save(tmp_path, gpu, spent("coral", 500.0))
    save(tmp_path, spent("gnot", 500.0, changed={"steps.fit": 100}))
    marked = [row.name for row in board_of(tmp_path, **LAPTOP).rows if row.marks]
    assert marked == ["coral@compact"]
    assert not any(row.marks for row in board_of(tmp_path).rows), "a track without a budget"


def test_code_that_changed_since_a_result_was_computed_is_marked(evidence: Path) -> None:
    code = {"model": "m1", "dataset": "d1"}
    for model in ("own", "other"):
        save(evidence, replace(made_result(model, task="darcy_threshold"), code=code))
    save(evidence, made_result("old", task="darcy_threshold"))

    def changed(**installed: str) -> dict[str, str]:
        names = {("dataset", "darcy"): "d1", ("model", "own"): "m1", ("model", "old"): "m9"}
        names |= {
            ("dataset" if name == "darcy" else "model", name): d for name, d in installed.items()
        }
        board = board_of(evidence, slug="darcy_threshold", here=Installation(None, names))
        marks = {row.model: {m.name: m.why for m in row.marks} for row in board.rows}
        return {model: why["code changed"] for model, why in marks.items() if "code changed" in why}

    since = "since the results were computed"
    assert changed() == {}, "what is not installed or not recorded is no change"
    assert changed(own="m2") == {"own": f"own {since}"}
    assert changed(darcy="d2") == {"own": f"darcy {since}", "other": f"darcy {since}"}
    assert changed(own="m2", darcy="d2")["own"] == f"darcy, own {since}"


def test_a_row_that_is_not_converged_is_marked_with_epochs_and_fall_and_stays_ranked(
    evidence: Path,
) -> None:
    for seed in range(3):
        save(evidence, made_result("gnot", errors=spread(0.03, seed), seed=seed, epochs=31))
    board = board_of(evidence)
    row = next(row for row in board.compared if row.model == "gnot")
    assert row.rank is not None and row.rank.place == 2
    words = "31 epochs, validation fell by 0.0 % over the last tenth"
    assert marks_of(board, "gnot@compact") == {"not converged": words}
    assert not any(row.marks for row in board.rows if row.model != "gnot")


def test_scores_of_authors_on_the_same_files_are_shown_with_their_source(evidence: Path) -> None:
    score = Published(0.0064, nodes=972, cite="Wu et al., Transolver, ICML 2024")
    published = {"cells_official": {"transolver": score}}
    for resolution in (972, 160):
        changes = {"task": "cells_official", "source": "f" * 64, "resolution": resolution}
        save(evidence, made_result("transolver", errors=0.01, **changes))
    (track,) = tracks_of(evidence, published=published)
    boards = [board for board in track.boards if board.task == "cells_official"]
    rows = {board.resolution: board.rows[0] for board in boards}
    assert rows[972].published == 0.0064 and rows[160].published is None
    notes = [str(mark) for mark in rows[972].marks]
    assert f"published: 0.0064 on the same files, {score.cite}" in notes
    assert not any(str(mark).startswith("published") for mark in rows[160].marks)
