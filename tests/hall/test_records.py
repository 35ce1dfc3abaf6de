"""A spec and a result survive their JSON; what was edited or damaged is refused in one line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from fake_results import made_result, made_spec

import gsnobench as gb
from gsnobench.files import digest
from gsnobench.records import RunResult, RunSpec, evidence_path, plain, rounded


def test_a_spec_and_a_result_survive_their_json(tmp_path: Path) -> None:
    spec, result = made_spec(), made_result()
    assert RunSpec.from_json(json.dumps(spec.to_dict())) == spec
    result.save(tmp_path / "result.json")
    assert RunResult.load(tmp_path / "result.json") == result


def test_a_key_depends_on_every_entry_of_a_spec_and_on_nothing_else() -> None:
    spec = made_spec()
    shuffled = dict(reversed(spec.to_dict().items()))
    assert RunSpec.from_dict(shuffled).key == spec.key
    changed = [
        replace(spec, **{name: "x" if isinstance(value, str) else {"x": 1}})
        if isinstance(value, (str, dict))
        else replace(spec, **{name: value + 1})
        for name, value in spec.to_dict().items()
        if name not in ("defaults", "origin")
    ]
    assert len({spec.key, *(other.key for other in changed)}) == 1 + len(changed)
    assert replace(spec, origin="tuned, 12 trials").key == spec.key
    assert replace(spec, defaults=("model.width",)).key != spec.key


def test_the_key_of_a_known_spec_is_what_it_always_was() -> None:
    assert (
        made_spec(revision=1).key
        == "a7900f35c9a4c8fe02ef7b58f8ac3ec53d2f58dedc1b1fabfde5d7a59c36e98a"
    )


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        ({"schema": 99}, "schema 99 is not 2"),
        ({"status": "fine"}, "status 'fine' is unknown"),
        ({"key": "0" * 64}, "the key does not match the spec"),
        ({"surprise": 1}, "entries surprise are unknown or missing"),
        ({"schema": 1}, "`gsnobench migrate FOLDER` brings old results to it"),
    ],
)
def test_a_damaged_result_is_one_line(damage: dict[str, object], part: str) -> None:
    body = {**json.loads(made_result().to_json()), **damage}
    del body["digest"]
    with pytest.raises(gb.DataError) as caught:
        RunResult.from_json(json.dumps({**body, "digest": digest(body)}))
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_an_edited_result_does_not_match_its_digest() -> None:
    body = json.loads(made_result().to_json())
    body["scores"]["test"]["headline"]["rel_l2"] /= 2
    with pytest.raises(gb.DataError, match="its digest does not match"):
        RunResult.from_json(json.dumps(body))


def test_what_is_no_number_is_null_in_json_and_a_missing_headline_is_nan() -> None:
    assert plain({"a": [1.0, math.nan], 2: math.inf}) == {"a": [1.0, None], "2": None}
    assert math.isnan(RunResult(made_spec(), "declined", "no").headline)


def test_evidence_is_sorted_by_track_task_and_row() -> None:
    spec = made_spec()
    path = evidence_path(Path("results"), spec)
    assert path == Path("results", "laptop", "darcy", "gsno@compact", f"{spec.short}.json")


def test_errors_are_kept_with_four_digits() -> None:
    assert rounded(0.0123456) == 0.01235
