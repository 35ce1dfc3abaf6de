"""The numbers of the paper: read as they are, and means over fields where a board shows one."""

from __future__ import annotations

import pytest

from gsnobench.boards.reproduction.paper import PaperNumber, PaperNumbers, read_paper


def number(field: str, value: float, **changes: object) -> PaperNumber:
    entries = {"table": "1", "dataset": "swe", "t_in": 5, "t_out": 46, "nodes": 100}
    entries |= {"model": "gsno", "metric": "rel_l2", **changes}
    return PaperNumber(field=field, value=value, **entries)  # type: ignore[arg-type]


def test_the_score_of_a_task_is_the_mean_over_its_fields() -> None:
    paper = PaperNumbers(
        (
            number("height", 0.1),
            number("velocity", 0.3),
            number("height", 9.0),  # a later table repeats it
            number("height", 9.0, metric="rmse"),
            number("height", 9.0, t_out=10),
            number("k=4", 9.0),  # a study of a knob
        )
    )
    assert paper.scores("swe@5-46") == {"gsno": pytest.approx(0.2)}
    assert paper.scores("swe@5-7") == {}


def test_a_number_without_frames_belongs_to_every_task_of_its_dataset() -> None:
    paper = PaperNumbers((number("height", 0.1, t_in=None, t_out=None),))
    assert paper.scores("swe@5-46") == paper.scores("swe") == {"gsno": 0.1}


def test_the_shipped_numbers_name_tasks_and_are_positive() -> None:
    numbers = read_paper().numbers
    assert all(number.value > 0 and number.dataset in number.task for number in numbers)
