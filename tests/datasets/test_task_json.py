"""Tasks as JSON: the same task comes back, and a wrong one is refused in one line."""

from __future__ import annotations

import pytest
from toy_samples import TASK, one_line

import gsnobench as gb
from gsnobench.datasets.task_json import task_from_json, task_to_json


def test_a_task_comes_back_as_it_was() -> None:
    assert task_from_json(task_to_json(TASK)) == TASK


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ("{}", "id, fields, dim missing"),
        ('{"id": "a", "fields": ["p"], "dim": 2, "tin": 3}', "did you mean 't_in'"),
        ('{"id": "a", "fields": "p", "dim": 2}', "expected a list"),
        ('{"id": "a", "fields": [], "dim": 2}', "fields is empty"),
        ('{"id": "a", "fields": [{"nam": "p"}], "dim": 2}', "is not a field"),
        (
            '{"id": "a", "fields": [{"name": "p", "boundary": {"wall": "open"}}], "dim": 2}',
            "dirichlet | neumann | none",
        ),
        ('{"id": "a", "fields": ["p", "p"], "dim": 2}', "each name once"),
        ('{"id": "../a", "fields": ["p"], "dim": 2}', "id is '../a'"),
        ('{"id": "a", "fields": ["p"], "dim": 4}', "expected 1, 2 or 3"),
        ('{"id": "a", "fields": ["p"], "dim": true}', "expected a whole number"),
        ('{"id": "a", "fields": ["p"], "dim": 2, "times": ["x"]}', "expected a list of numbers"),
    ],
)
def test_a_wrong_task_is_one_line(text: str, line: str) -> None:
    with pytest.raises(gb.DataError) as error:
        task_from_json(text)
    one_line(error, "gsnobench_task: ", line)
