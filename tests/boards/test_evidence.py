"""Evidence: files that cannot be used are named and skipped, the rest is read."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fake_results import made_result, save, with_ood

from gsnobench.boards.build import read_tracks
from gsnobench.boards.evidence import read_evidence
from gsnobench.errors import DataError
from gsnobench.files import digest
from gsnobench.records import RunSpec

OOD_SIZES = {"train": 128, "valid": 32, "test": 64, "test_ood": 3}


def rewritten(body: dict[str, object]) -> str:
    """A changed file with its digest made anew, so that later checks see the change."""
    rest = {name: value for name, value in body.items() if name != "digest"}
    return json.dumps({**rest, "digest": digest(rest)})


def test_unusable_files_are_named_and_skipped_and_the_rest_is_read(
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
    short["samples"]["test"]["head"]["rel_l2"].pop()
    good[2].write_text(rewritten(short))
    result = read_evidence([evidence])
    assert len(result.entries) == len(good) - 1
    for name in ("damaged", "foreign", "future", "copy", "edited", good[2].stem):
        assert sum(f"{name}.json" in line for line in result.problems) == 1, name
    problems = "\n".join(result.problems)
    assert "schema 99" in problems and str(tmp_path) not in problems
    assert "its digest does not match" in problems and "without its test errors" in problems
    assert len(result.problems) == 6


@pytest.mark.parametrize(
    "change",
    [
        {"costs": {"parameters": "many"}},
        {"data": {"hash": 3, "origin": "generated"}},
        {"frames": {"head": {"q50": "all"}}},
        {"samples": {"test": {"head": [1, 2]}}},
        {"samples": {"test": {"head": {"rel_l2": ["a"] * 64}}}},
        {"scores": []},
        {"scores": {"test": {"head": {"rmse": "small"}, "headline": {"rel_l2": 0.1}}}},
        {"curve": [{"phase": "fit"}]},
        {"curve": [{"phase": "other", "step": 1, "epoch": 1}]},
        {"changed": 3},
        {"code": "none"},
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
    body |= {**change, "spec": spec, "key": RunSpec(**spec).key}
    (evidence / "wrong.json").write_text(rewritten(body))
    result = read_evidence([evidence])
    (problem,) = result.problems
    assert problem.startswith("wrong.json: ") and "digest" not in problem and "key" not in problem
    assert len(result.entries) == 10


def test_the_copy_at_its_proper_path_counts_whatever_the_order(evidence: Path) -> None:
    path = sorted(evidence.rglob("*.json"))[0]
    shutil.copy(path, evidence / "0.json")
    (problem,) = read_evidence([evidence]).problems
    assert problem.startswith("0.json: the same result")


def test_the_first_folder_counts_where_two_hold_the_same_key(
    evidence: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    save(mine, made_result("gsno", errors=0.5, seed=0))
    result = read_evidence([mine, evidence])
    assert not result.problems
    shared = [
        entry for entry in result.entries if (entry.spec.model, entry.spec.seed) == ("gsno", 0)
    ]
    assert [entry.error for entry in shared] == [0.5]


def test_results_of_other_code_or_data_under_the_same_key_both_stay(tmp_path: Path) -> None:
    """Else a result of edited code would hide the one of the benchmark that it imitates."""
    result = replace(made_result("gsno", errors=0.02), code={"model": "honest"})
    save(tmp_path / "theirs", result)
    others = {
        "code": replace(result, code={"model": "edited"}),
        "data": replace(result, data={**result.data, "fingerprint": "another"}),
        "same": result,
        "old": replace(result, code={}),
    }
    for name, other in others.items():
        save(tmp_path / name, other)
        entries = read_evidence([tmp_path / name, tmp_path / "theirs"]).entries
        assert len(entries) == (2 if name in ("code", "data") else 1), name


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder; expected result files"):
        read_evidence([tmp_path / "nothing"])


def test_a_run_whose_test_errors_are_not_numbers_stays_as_diverged(evidence: Path) -> None:
    frames = {"head": {f"q{q}": [math.nan] * 3 for q in (10, 50, 90)}}
    bands = {"head": {"truth": [1.0], "error": [math.nan]}}
    result = made_result("mgkn", frames=3)
    diverged = replace(result, status="diverged", reason="not finite", frames=frames, bands=bands)
    save(evidence, diverged)
    tracks, problems = read_tracks([evidence])
    states = {row.name: row.state for row in tracks[0].boards[0].rows}
    assert problems == () and states["mgkn@compact"] == "diverged"


def test_a_result_without_bands_is_read_and_one_with_wrong_bands_is_named(evidence: Path) -> None:
    (path,) = save(evidence, made_result("mgkn"))
    body = json.loads(path.read_text())
    path.write_text(rewritten({**body, "bands": {}}))
    assert read_tracks([evidence])[1] == ()
    for wrong in ({"truth": [1.0]}, {"truth": [1.0], "error": [None]}, 3):
        path.write_text(rewritten({**body, "bands": {"head": wrong}}))
        (problem,) = read_tracks([evidence])[1]
        assert path.name in problem and "digest" not in problem


def test_errors_out_of_distribution_must_be_complete_and_agree_with_their_mean(
    evidence: Path,
) -> None:
    (path,) = save(evidence, with_ood(made_result("mgkn", sizes=OOD_SIZES), [0.1, 0.2, 0.6]))
    body = json.loads(path.read_text())
    assert read_evidence([evidence]).problems == ()
    wrong_mean = {**body["scores"], "test_ood": {"headline": {"rel_l2": 0.2}}}
    short = {**body["samples"], "test_ood": {"head": {"rel_l2": [0.1, 0.2]}}}
    for change, words in (
        ({"scores": wrong_mean}, "states 0.2 on test_ood, but its samples have 0.3"),
        ({"samples": short}, "without its test_ood errors; expected 3"),
    ):
        path.write_text(rewritten({**body, **change}))
        (problem,) = read_evidence([evidence]).problems
        assert words in problem
    # a model may leave all bounds there and still be done; results of schema 1 have no samples
    wild = {**body["scores"], "test_ood": {"headline": {"rel_l2": None}}}
    lost = {**body["samples"], "test_ood": {"head": {"rel_l2": [0.1, 0.2, None]}}}
    old = {"test": body["samples"]["test"]}
    for change in ({"scores": wild, "samples": lost}, {"samples": old}):
        path.write_text(rewritten({**body, **change}))
        assert read_evidence([evidence]).problems == ()


def test_a_finished_run_without_test_samples_is_refused(evidence: Path) -> None:
    body = json.loads(made_result("mgkn").to_json())
    spec = {**body["spec"], "sizes": {"train": 128, "test": 0}}
    samples = {"test": {"head": {"rel_l2": []}}}
    body |= {"spec": spec, "key": RunSpec.from_dict(spec).key, "samples": samples}
    (evidence / "wrong.json").write_text(rewritten(body))
    (problem,) = read_evidence([evidence]).problems
    assert "without its test errors" in problem


def test_only_results_of_the_given_home_are_its_own(evidence: Path, tmp_path: Path) -> None:
    mine = tmp_path / "home" / "results"
    save(mine, made_result("mine", errors=0.5))
    entries = read_evidence([mine, evidence], tmp_path / "home" / ".." / "home" / "results").entries
    assert {entry.spec.model for entry in entries if entry.is_own} == {"mine"}
    assert not any(entry.is_own for entry in read_evidence([mine, evidence]).entries)


def test_a_link_publishes_no_file_of_this_machine(evidence: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    first, second, third, *_ = sorted(evidence.rglob("*.json"))
    first.with_suffix(".png").symlink_to(secret)
    second.with_suffix(".png").write_text("password")  # no picture at all
    third.with_suffix(".png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"picture")
    linked = tmp_path / "linked.json"
    fourth = sorted(evidence.rglob("*.json"))[3]
    fourth.rename(linked)
    fourth.symlink_to(linked)
    result = read_evidence([evidence])
    assert [entry.picture for entry in result.entries if entry.picture] == [
        third.with_suffix(".png")
    ]
    assert len(result.problems) == 1 and "is a symbolic link" in result.problems[0]


def test_a_folder_of_results_may_itself_be_a_link(evidence: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(evidence)
    assert read_evidence([tmp_path / "link"]).problems == ()
