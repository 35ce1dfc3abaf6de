"""Who leads a track: what `reading` claims follows from the tests, and what is open is said."""

from __future__ import annotations

from pathlib import Path

from fake_results import made_result, save, spread
from toy_boards import tracks_of

from gsnobench.boards import markdown
from gsnobench.boards.board import BoardTrack
from gsnobench.boards.reading import verdict

FLOOR = {"preset": "default", "steps": {"fit": 0}}


def said_of(track: BoardTrack) -> str:
    return " ".join(verdict(track, is_long=True))


def filled(evidence: Path, task: str, errors: dict[str, float]) -> None:
    """Three seeds of every model, close to one another; floors have a closed form."""
    for model, error in errors.items():
        if model == "ridge":
            save(evidence, made_result(model, errors=error, task=task, **FLOOR))
            continue
        for seed in range(3):
            samples = spread(error, 10 * len(model) + seed)
            save(evidence, made_result(model, errors=samples, task=task, seed=seed))


def test_a_clear_lead_is_significant(tmp_path: Path) -> None:
    for task in ("darcy", "pipe"):
        filled(tmp_path, task, {"gsno": 0.01, "amg": 0.05, "ridge": 0.1})
    (track,) = tracks_of(tmp_path, board_tasks=("darcy", "pipe", "car"), floors=("ridge",))
    said = said_of(track)
    assert said.startswith(
        "gsno@compact leads. It has the best mean rank of all models (1.00) and the lowest "
        "error of all models on 2 of 2"
    )
    assert "every other model on 2 of 2 tasks (darcy, pipe)" in said
    assert "every floor on 2 of 2 tasks" in said and "not differ" not in said
    assert "No row is significantly better than it on any task." in said
    assert said.endswith("On the other task no model has been ranked yet.")
    save(tmp_path, made_result("gsno", task="car"))
    (track,) = tracks_of(tmp_path, board_tasks=("darcy", "pipe", "car"), floors=("ridge",))
    assert "On the other task fewer than two models have been ranked" in said_of(track)


def test_a_near_row_and_a_better_floor_are_named(tmp_path: Path) -> None:
    filled(tmp_path, "darcy", {"gsno": 0.0500, "amg": 0.0501, "coral": 0.2, "ridge": 0.01})
    (track,) = tracks_of(tmp_path, board_tasks=("darcy",), floors=("ridge",))
    said = said_of(track)
    assert "every other model on none of 1 tasks, and than every floor on none of 1 tasks" in said
    assert "differ significantly from gsno@compact (p = " in said and ") on darcy (p after" in said
    assert "coral@" not in said
    assert "Other rows are significantly better than it on 1 of 1 tasks (darcy)." in said
    assert "A floor has a lower error on 1 of 1 tasks (darcy)." in said
    assert "The best floor over all tasks, ridge@default, has 0.203 times its error" in said
    assert said.endswith("and a better mean rank (1.00).")
    page = markdown.readme_part(track, "boards.md")
    assert page.startswith("**amg@compact leads.** It has")
    (line,) = [line for line in page.splitlines() if line.startswith("| [darcy](boards.md#darcy)")]
    assert "ridge 0.0100" in line
    assert "**" not in line, "the floor is significantly better than all of them"


def test_a_leader_with_one_seed_is_said_to_be_untested(tmp_path: Path) -> None:
    for model, error in (("gsno", 0.01), ("amg", 0.1)):
        save(tmp_path, made_result(model, errors=error, seed=0))
    (track,) = tracks_of(tmp_path, board_tasks=("darcy",))
    said = said_of(track)
    assert said.endswith("It has one seed on each of them, so no difference has been tested yet.")
    assert "significant" not in said


def test_nobody_is_ahead_of_a_row_with_one_seed(tmp_path: Path) -> None:
    filled(tmp_path, "darcy", {"gsno": 0.01, "amg": 0.1})
    (track,) = tracks_of(tmp_path, board_tasks=("darcy",))
    assert "every other model on 1 of 1 tasks" in said_of(track)
    save(tmp_path, made_result("coral", errors=0.2, seed=0))
    (track,) = tracks_of(tmp_path, board_tasks=("darcy",))
    assert "every other model on none of 1 tasks" in said_of(track)
    assert "On 1 of 1 tasks some other models have one seed and have not" in said_of(track)


def test_many_rows_that_do_not_differ_are_counted(tmp_path: Path) -> None:
    near = ("gsno", "amg", "coral", "gnot", "geofno")
    filled(tmp_path, "darcy", {model: 0.05 + 1e-5 * i for i, model in enumerate(near)})
    (track,) = tracks_of(tmp_path, board_tasks=("darcy",))
    said = said_of(track)
    assert "does not differ significantly from 4 of 4 other rows on darcy." in said


def test_a_short_verdict_counts_tasks_and_does_not_list_them(tmp_path: Path) -> None:
    filled(tmp_path, "darcy", {"gsno": 0.01, "amg": 0.1})
    (track,) = tracks_of(tmp_path, board_tasks=("darcy",))
    said = " ".join(verdict(track))
    assert (
        "lowest error of all models on 1 of 1 tasks. gsno@compact is" in said
        and "darcy" not in said
    )
