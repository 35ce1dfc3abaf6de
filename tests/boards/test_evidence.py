"""Evidence: what is odd is named and skipped, what is whole is read, and the rest is built."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fake_results import made_evidence, made_result, save

from gsnobench.boards.build import read_tracks
from gsnobench.boards.evidence import read_evidence
from gsnobench.errors import DataError
from gsnobench.files import digest


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    return made_evidence(tmp_path / "results")


def test_odd_files_are_named_and_skipped_and_the_rest_is_built(
    evidence: Path, tmp_path: Path
) -> None:
    good = sorted(evidence.rglob("*.json"))
    (evidence / "damaged.json").write_bytes(good[0].read_bytes()[:500])
    (evidence / "foreign.json").write_text('{"accuracy": 1}')
    future = json.loads(good[0].read_text())
    (evidence / "future.json").write_text(json.dumps({**future, "schema": 99}))
    shutil.copy(good[0], evidence / "copy.json")
    (evidence / "edited.json").write_text(good[1].read_text().replace('"seed":', '"seed":1'))
    short = json.loads(good[2].read_text())
    short["samples"]["head"]["rel_l2"].pop()
    good[2].write_text(json.dumps(short))
    found = read_evidence([evidence])
    assert len(found.entries) == len(good) - 1
    told = "\n".join(found.problems)
    for name in (
        "damaged.json",
        "foreign.json",
        "future.json",
        "copy.json",
        "edited.json",
        good[2].name,
    ):
        assert sum(name in line for line in found.problems) == 1, name
    assert "schema 99" in told and str(tmp_path) not in told
    assert len(found.problems) == 6


@pytest.mark.parametrize(
    "change",
    [
        {"costs": {"parameters": "many"}},
        {"data": {"hash": 3, "origin": "generated"}},
        {"frames": {"head": {"q50": "all"}}},
        {"samples": {"head": [1, 2]}},
        {"samples": {"head": {"rel_l2": ["a"] * 64}}},
        {"scores": []},
        {"spec": {"resolution": "fine"}},
        {"spec": {"sizes": [1]}},
        {"spec": {"steps": 3}},
        {"reason": {}},
    ],
    ids=str,
)
def test_entries_of_the_wrong_kind_are_named_and_skipped(
    evidence: Path, change: dict[str, object]
) -> None:
    body = json.loads(made_result("gnot").to_json())
    spec = {**body["spec"], **change.pop("spec", {})}  # type: ignore[dict-item]
    body |= {**change, "spec": spec, "key": digest(spec)}
    (evidence / "odd.json").write_text(json.dumps(body))
    found = read_evidence([evidence])
    assert len(found.problems) == 1 and found.problems[0].startswith("odd.json: ")
    assert len(found.entries) == 10


def test_the_copy_in_its_place_counts_whatever_the_order(evidence: Path) -> None:
    path = sorted(evidence.rglob("*.json"))[0]
    shutil.copy(path, evidence / "0.json")
    found = read_evidence([evidence])
    assert len(found.problems) == 1 and found.problems[0].startswith("0.json: the same answer")


def test_the_first_folder_has_the_first_word(evidence: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    save(mine, made_result("gsno", errors=0.5, seed=0))
    found = read_evidence([mine, evidence])
    assert not found.problems
    assert [
        one.error for one in found.entries if one.spec.model == "gsno" and one.spec.seed == 0
    ] == [0.5]


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder; expected result files"):
        read_evidence([tmp_path / "nothing"])


def test_a_run_whose_test_errors_are_not_numbers_stays_as_diverged(evidence: Path) -> None:
    nowhere = {"head": {f"q{q}": [math.nan] * 3 for q in (10, 50, 90)}}
    blown = replace(
        made_result("mgkn", frames=3), status="diverged", reason="not finite", frames=nowhere
    )
    save(evidence, replace(blown, bands={"head": {"truth": [1.0], "error": [math.nan]}}))
    tracks, problems = read_tracks([evidence])
    assert problems == () and ("mgkn@compact", "diverged") in {
        (row.name, row.state) for row in tracks[0].boards[0].rows
    }


def test_a_result_without_bands_is_read_and_one_with_odd_bands_is_named(evidence: Path) -> None:
    (path,) = save(evidence, made_result("mgkn"))
    body = json.loads(path.read_text())
    del body["bands"]
    path.write_text(json.dumps(body))
    assert read_tracks([evidence])[1] == ()
    for odd in (
        {"head": {"truth": [1.0]}},
        {"head": {"truth": [1.0], "error": [None]}},
        {"head": 3},
    ):
        path.write_text(json.dumps({**body, "bands": odd}))
        (problem,) = read_tracks([evidence])[1]
        assert path.name in problem
