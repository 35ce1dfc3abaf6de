"""An honest result passes every tier; an edited one fails at the first tier that can know."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import pytest
from command_line import Ended, command, run_folder
from safetensors.torch import load_file, save_file

from gsnobench.files import digest
from gsnobench.records import RunResult, RunSpec
from gsnobench.runs.bundle import pack, unpack

Body = dict[str, Any]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def folder(unsteady_file: Path, home: Path) -> Path:
    # a preset with an error that rounding does not explain
    return run_folder("gsno", unsteady_file, home, "--preset", "paper", "--train.steps", "5")


@pytest.fixture(scope="module")
def darcy(home: Path) -> Path:
    """A run whose data come from a recipe."""
    return run_folder("mean", "darcy", home)


def verified(capsys: Capture, subject: Path, tier: int, home: Path, *options: object) -> Ended:
    common = ("--tier", tier, "--device", "cpu", "--home", home, "--json")
    ended = command(capsys, "verify", subject, *common, *options)
    assert ended.err == ""
    return ended


def failures(ended: Ended) -> dict[str, int]:
    """What failed, and at which tier."""
    checks = ended.json["checks"]
    return {check["what"]: check["tier"] for check in checks if check["state"] == "FAIL"}


def repacked(folder: Path, out: Path, change: Callable[[Path], None]) -> Path:
    """A bundle that somebody changed and gave a fitting manifest."""
    inside = out / "inside"
    inside.mkdir()
    unpack(folder / "bundle.zip", inside)
    change(inside)
    pack(
        out / "changed.zip",
        {path.name: path for path in inside.iterdir() if path.name != "manifest.json"},
    )
    return out / "changed.zip"


def test_an_honest_run_passes_every_tier(
    folder: Path, unsteady_file: Path, home: Path, capsys: Capture
) -> None:
    for subject, tier in ((folder, 3), (folder / "bundle.zip", 2), (folder / "result.json", 1)):
        ended = verified(capsys, subject, tier, home, "--data", unsteady_file)
        assert ended.code == 0, ended.out
        assert ended.json["passed"]
        assert {check["state"] for check in ended.json["checks"]} == {"pass"}
        assert {check["tier"] for check in ended.json["checks"]} == set(range(tier + 1))


def test_an_almost_exact_model_is_not_failed_for_rounding(
    unsteady_file: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = run_folder("modal", unsteady_file, tmp_path)
    # of waves of centimetres on a height of 5 m
    assert RunResult.load(folder / "result.json").headline < 1e-4
    ended = verified(capsys, folder, 2, tmp_path, "--data", unsteady_file)
    assert (ended.code, failures(ended)) == (0, {})


def test_data_by_recipe_are_made_again_and_the_training_is_exact(
    darcy: Path, home: Path, capsys: Capture
) -> None:
    evidence = next((home / "results").rglob(f"{darcy.name}.json"))
    ended = verified(capsys, evidence, 3, home, "--jobs", "1")
    checks = ended.json["checks"]
    states = {(check["tier"], check["what"]): check["state"] for check in checks}
    # a result alone has neither predictions nor weights, yet it can be trained again
    assert ended.code == 0
    assert (
        states[1, "metrics from stored predictions"]
        == states[2, "predictions from stored weights"]
        == "not possible"
    )
    assert states[3, "data"] == states[3, "scores"] == "pass"
    assert verified(capsys, darcy / "bundle.zip", 2, home).code == 0


def test_a_tier_that_cannot_be_checked_is_exit_2(
    folder: Path, darcy: Path, home: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copy(darcy / "result.json", tmp_path / "alone.json")
    (home / "files.json").rename(tmp_path / "files.json")  # where the home remembers its data
    for subject, tier in (
        (tmp_path / "alone.json", 1),
        (tmp_path / "alone.json", 2),
        (folder, 2),
        (folder, 3),
    ):
        ended = verified(capsys, subject, tier, home)  # the last two lack --data
        assert (ended.code, failures(ended)) == (2, {})
        assert ended.json["passed"] is False
    assert "--data FILE.nc" in json.dumps(ended.json["checks"])
    (tmp_path / "files.json").rename(home / "files.json")


def signed(body: Body) -> str:
    """The JSON of a result with the digest that fits it: what a careful forger writes."""
    rest = {name: value for name, value in body.items() if name != "digest"}
    return json.dumps({**rest, "digest": digest(rest)})


def edit_score(body: Body) -> None:
    body["scores"]["test"]["headline"]["rel_l2"] *= 0.99


def edit_sample(body: Body) -> None:
    body["samples"]["test"]["height"]["rel_l2"][3] *= 0.9


def edit_raw(body: Body) -> None:
    body["scores"]["test"]["height"]["rel_l2_raw"] *= 0.99


def drop_sample(body: Body) -> None:
    body["samples"]["test"]["height"]["rel_l2"].remove(
        max(body["samples"]["test"]["height"]["rel_l2"])
    )


def edit_spec(body: Body) -> None:
    body["spec"]["seed"] = 7


def edit_spec_and_key(body: Body) -> None:
    body["spec"]["seed"] = 7
    body["key"] = RunSpec.from_dict(body["spec"]).key


def edit_status(body: Body) -> None:
    body["status"] = "diverged"


def edit_schema(body: Body) -> None:
    body["schema"] = 3


def spoil_entry(body: Body) -> None:
    body["samples"] = {"test": {"height": {"rel_l2": "small"}}}


def fatten(body: Body) -> None:
    body["reason"] = "x" * 30_000


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (edit_score, "headline"),
        (edit_sample, "height rel_l2"),
        (edit_raw, "height rel_l2_raw"),
        (drop_sample, "height rel_l2"),
        (edit_spec, "key"),
        (edit_spec_and_key, "name"),
        (edit_status, "headline"),
        (edit_schema, "schema"),
        (spoil_entry, "entries"),
        (fatten, "size"),
    ],
)
def test_an_edit_by_hand_fails_at_tier_0(
    folder: Path,
    home: Path,
    tmp_path: Path,
    change: Callable[[Body], None],
    failed: str,
    capsys: Capture,
) -> None:
    body = json.loads((folder / "result.json").read_text())
    change(body)
    path = tmp_path / f"{folder.name}.json"
    path.write_text(signed(body))
    ended = verified(capsys, path, 2, home)
    assert ended.code == 3
    assert failures(ended)[failed] == 0


def test_steps_that_are_not_those_counted_here_fail_with_a_reason(
    home: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = run_folder("deeponet", "darcy", home, "--train.steps", "5")
    body = json.loads((folder / "result.json").read_text())
    assert body["changed"] == {"steps.fit": 5}
    body["changed"] = {}  # what a result says whose steps were counted anew after it
    path = tmp_path / f"{folder.name}.json"
    path.write_text(signed(body))
    ended = verified(capsys, path, 3, home, "--jobs", "1")
    assert failures(ended) == {"changed settings": 3}
    (check,) = [check for check in ended.json["checks"] if check["what"] == "changed settings"]
    assert check["detail"] == (
        "nothing, here {'steps.fit': 5}; the steps of this pair were counted anew, or requested"
    )


def better(folder: Path) -> None:
    """All numbers of a result a tenth smaller, so that they fit together."""
    result = json.loads((folder / "result.json").read_text())
    for table in result["scores"]["test"].values():
        table |= {metric: 0.9 * value for metric, value in table.items()}
    for table in result["samples"]["test"].values():
        table |= {
            metric: [float(f"{0.9 * value:.4g}") for value in values]
            for metric, values in table.items()
        }
    (folder / "result.json").write_text(signed(result))


def smoother(folder: Path) -> None:
    """A metric of a plugin made better, all else as it was."""
    result = json.loads((folder / "result.json").read_text())
    result["scores"]["test"]["headline"]["rel_h1"] *= 0.99
    (folder / "result.json").write_text(signed(result))


def nicer_frames(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    result["frames"]["height"]["q50"][-1] *= 0.9
    (folder / "result.json").write_text(signed(result))


def other_predictions(folder: Path) -> None:
    with netCDF4.Dataset(folder / "predictions.nc", "a") as file:
        file["field_height"][2] = 5.0


def other_weights(folder: Path) -> None:
    weights = load_file(folder / "weights.safetensors")
    save_file(
        {name: 1.5 * value for name, value in weights.items()}, folder / "weights.safetensors"
    )


@pytest.mark.parametrize(
    ("change", "tier", "failed"),
    [
        (better, 1, "test headline, 3 metrics"),
        (smoother, 1, "test headline, 3 metrics"),
        (nicer_frames, 1, "test errors of single frames"),
        (other_predictions, 1, "test errors of single samples"),
        (other_weights, 2, "stored predictions"),
    ],
)
def test_a_bundle_that_fits_together_but_is_not_true_fails_at_the_tier_that_knows(
    folder: Path,
    unsteady_file: Path,
    home: Path,
    tmp_path: Path,
    change: Callable[[Path], None],
    tier: int,
    failed: str,
    capsys: Capture,
) -> None:
    bundle = repacked(folder, tmp_path, change)
    assert verified(capsys, bundle, tier - 1, home, "--data", unsteady_file).code == 0
    ended = verified(capsys, bundle, tier, home, "--data", unsteady_file)
    assert ended.code == 3
    assert failures(ended)[failed] == tier


def test_a_metric_that_is_not_installed_cannot_be_checked(
    folder: Path, unsteady_file: Path, home: Path, tmp_path: Path, capsys: Capture
) -> None:
    def with_own_metric(inside: Path) -> None:
        result = json.loads((inside / "result.json").read_text())
        result["scores"]["test"]["headline"]["vorticity"] = 0.1
        (inside / "result.json").write_text(signed(result))

    bundle = repacked(folder, tmp_path, with_own_metric)
    for tier, code in ((1, 2), (3, 0)):  # a training that can be repeated decides
        ended = verified(capsys, bundle, tier, home, "--data", unsteady_file)
        states = {check["what"]: check["state"] for check in ended.json["checks"]}
        assert states["test headline vorticity"] == "not possible"
        assert states["test headline, 3 metrics"] == "pass"
        assert ended.code == code
    assert states["scores"] == "pass"


def test_a_result_from_before_a_metric_was_installed_stays_true(
    folder: Path, unsteady_file: Path, home: Path, tmp_path: Path, capsys: Capture
) -> None:
    def without_plugins(inside: Path) -> None:
        result = json.loads((inside / "result.json").read_text())
        for table in result["scores"].values():
            table["headline"] = {"rel_l2": table["headline"]["rel_l2"]}
        (inside / "result.json").write_text(signed(result))

    bundle = repacked(folder, tmp_path, without_plugins)
    ended = verified(capsys, bundle, 3, home, "--data", unsteady_file)
    assert (ended.code, failures(ended)) == (0, {})


def test_a_member_changed_without_its_checksum_fails_at_tier_0(
    folder: Path, home: Path, tmp_path: Path, capsys: Capture
) -> None:
    with (
        zipfile.ZipFile(folder / "bundle.zip") as whole,
        zipfile.ZipFile(tmp_path / "b.zip", "w") as copy,
    ):
        for name in whole.namelist():
            copy.writestr(name, whole.read(name) + (b" " if name == "task.json" else b""))
    ended = verified(capsys, tmp_path / "b.zip", 0, home)
    assert (ended.code, failures(ended)) == (3, {"checksums": 0})


def test_other_data_are_recognised_by_their_fingerprint(
    darcy: Path, home: Path, tmp_path: Path, capsys: Capture
) -> None:
    def elsewhere(folder: Path, **data: str) -> None:
        result = json.loads((folder / "result.json").read_text())
        result["data"] |= {"hash": "0" * 64, **data}
        (folder / "result.json").write_text(signed(result))

    ended = verified(capsys, repacked(darcy, tmp_path, elsewhere), 1, home)
    assert ended.code == 0
    assert "the rounded fingerprint is the same" in ended.out
    shutil.rmtree(tmp_path / "inside")
    false = repacked(darcy, tmp_path, lambda folder: elsewhere(folder, fingerprint="{}"))
    assert failures(verified(capsys, false, 1, home)) == {"data": 1}


def test_a_training_elsewhere_is_compared_within_a_tolerance(
    steady_file: Path, tmp_path: Path, capsys: Capture
) -> None:
    home = tmp_path / "home"
    body = json.loads((run_folder("ridge", steady_file, home) / "result.json").read_text())
    body["environment"]["torch"] = "0.4"
    (tmp_path / "elsewhere.json").write_text(signed(body))
    ended = verified(capsys, tmp_path / "elsewhere.json", 3, home, "--data", steady_file)
    assert ended.code == 0
    assert "tolerance 10% since torch may round otherwise" in ended.out
    for table in (body["scores"]["test"]["headline"], body["scores"]["test"]["head"]):
        table["rel_l2"] *= 0.8
    body["samples"]["test"]["head"]["rel_l2"] = [
        float(f"{0.8 * value:.4g}") for value in body["samples"]["test"]["head"]["rel_l2"]
    ]
    (tmp_path / "elsewhere.json").write_text(signed(body))
    ended = verified(capsys, tmp_path / "elsewhere.json", 3, home, "--data", steady_file)
    assert failures(ended) == {"headline": 3}


def test_a_declined_run_is_declined_again(tmp_path: Path, capsys: Capture) -> None:
    options = ("--track", "smoke", "--no-floors", "--home", tmp_path)
    ended = command(capsys, "run", "--model", "persistence", "--dataset", "darcy", *options)
    assert ended.code == 0
    (path,) = (tmp_path / "results").rglob("*.json")
    assert verified(capsys, path, 3, tmp_path).code == 0
    body = json.loads(path.read_text())
    (tmp_path / "other.json").write_text(signed({**body, "reason": "it was raining"}))
    assert failures(verified(capsys, tmp_path / "other.json", 3, tmp_path)) == {"declined": 3}


def test_what_is_no_result_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text("[1]")
    (tmp_path / "c.zip").write_text("hello")
    for subject in (
        tmp_path / "a.json",
        tmp_path / "b.json",
        tmp_path / "c.zip",
        tmp_path / "none.json",
        "0000",
    ):
        assert str(subject) in command(capsys, "verify", subject, "--home", tmp_path).mistake
    assert "tier" in command(capsys, "verify", "0000", "--tier", "4", "--home", tmp_path).mistake


def test_the_report_is_readable(folder: Path, home: Path, capsys: Capture) -> None:
    ended = command(capsys, "verify", folder, "--home", home)
    assert ended.out.isascii()
    for part in ("tier 0: the file itself", "headline  ", "0 FAIL, 0 not possible"):
        assert part in ended.out
    assert RunResult.load(folder / "result.json").spec.short in ended.out
