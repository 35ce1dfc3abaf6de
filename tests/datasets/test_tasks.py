"""What a task id means, and where its data are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_datasets import DISC, HEAT
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import store
from gsnobench.datasets.ensure import data_path, ensure, estimate
from gsnobench.datasets.tasks import resolve
from gsnobench.plugins import dataset_name

TESTS = Path(__file__).parents[1] / "support"


# ----------------------------------------------------------------------------------------- task ids


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("heat", "heat@2-5"),
        ("heat@2-5", "heat@2-5"),
        ("heat@1-3", "heat@1-3"),
        ("heat_rough", "heat_rough@2-5"),
        ("heat_rough@1-6", "heat_rough@1-6"),
    ],
)
def test_the_canonical_id_spells_the_window(text: str, canonical: str) -> None:
    task = resolve(HEAT, text, track="smoke")
    assert task.id == canonical and resolve(HEAT, task.id, track="smoke") == task
    window = canonical.split("@")[1].split("-")
    assert (task.t_in, task.t_out) == (int(window[0]), int(window[1]))


def test_a_single_frame_has_no_window_to_spell() -> None:
    task = resolve(DISC, "disc", track="smoke")
    assert (task.id, task.t_in, task.t_out) == ("disc", 0, 1)
    assert resolve(DISC, "disc@0-1", track="smoke") == task


def test_options_and_id_say_the_same() -> None:
    assert resolve(HEAT, "heat", track="smoke", t_in=3).id == "heat@3-4"
    assert resolve(HEAT, "heat", track="smoke", t_in=3, t_out=2) == resolve(
        HEAT, "heat@3-2", track="smoke"
    )
    assert resolve(HEAT, "heat@3-2", track="smoke", t_in=3).id == "heat@3-2"


def test_knobs_that_equal_a_variant_become_that_variant() -> None:
    assert resolve(HEAT, "heat", track="smoke", knobs={"smooth": "false"}) == resolve(
        HEAT, "heat_rough", track="smoke"
    )
    assert resolve(HEAT, "heat_rough", track="smoke", knobs={"smooth": True}).id == "heat@2-5"
    other = resolve(HEAT, "heat", track="smoke", knobs={"conductivity": 3})
    assert (other.id, other.data["conductivity"]) == ("heat@2-5", 3.0)


def test_a_task_holds_what_its_dataset_declares() -> None:
    task = resolve(HEAT, "heat", track="laptop", data_seed=7)
    assert (task.dataset, task.version, task.dim, task.data_seed) == ("heat", 3, 2, 7)
    assert (task.fields, task.static, task.scalars, task.tags) == (
        HEAT.fields,
        HEAT.static,
        HEAT.scalars,
        HEAT.tags,
    )
    assert (
        task.sizes == {"train": 20, "valid": 4, "test": 4, "test_ood": 2} and task.resolution == 121
    )
    assert (
        task.data == {"conductivity": 1.0, "smooth": True}
        and task.times == HEAT.times
        and task.fixed_mesh
    )
    assert resolve(HEAT, "heat", track="tiny").sizes == {"train": 3, "valid": 2, "test": 2}


def test_more_training_samples_leave_the_other_splits() -> None:
    assert resolve(HEAT, "heat", track="smoke", samples=9).sizes == {
        "train": 9,
        "valid": 2,
        "test": 3,
    }


def test_the_resolution_is_an_option_or_a_knob() -> None:
    assert resolve(HEAT, "heat", track="smoke", resolution=25).resolution == 25
    assert resolve(HEAT, "heat", track="smoke", knobs={"resolution": "121"}).resolution == 121


def test_windows_are_evaluated_from_every_start_where_they_fit() -> None:
    pairs = replace(HEAT, t_in=1, starts=tuple(range(6)))
    assert resolve(pairs, "heat", track="smoke").id == "heat@1-1"
    assert resolve(pairs, "heat", track="smoke").starts == (0, 1, 2, 3, 4, 5)
    assert resolve(pairs, "heat@2-3", track="smoke").starts == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        ("heat_ruogh", {}, "did you mean 'heat_rough'"),
        ("heat_", {}, "no variant"),
        ("heat@", {}, "'' is not a window"),
        ("heat@2", {}, "'2' is not a window"),
        ("heat@-1-5", {}, "not a window"),
        ("heat@2-5@3", {}, "not a window"),
        ("heat@4-4", {}, "t_in 4 + t_out 4 does not fit; a trajectory of heat has 7 frames"),
        ("heat@7-0", {}, "does not fit"),
        ("heat", {"t_in": 7}, "does not fit"),
        ("heat", {"t_in": -1}, "does not fit"),
        ("heat@2-5", {"t_in": 3}, "the id says t_in 2, the option 3"),
        ("heat", {"track": "lapptop"}, "did you mean 'laptop'"),
        ("heat", {"resolution": 50}, "no mesh of 50 nodes; known: 25, 49, 121"),
        (
            "heat",
            {"knobs": {"resolution": "many"}},
            "data.resolution: 'many' is not a whole number",
        ),
        ("heat", {"samples": 0}, "at least 1 training sample"),
        ("heat", {"data_seed": -1}, "data.seed: -1 is out of range"),
        ("heat", {"knobs": {"conductivty": 2}}, "did you mean 'conductivity'"),
        ("heat", {"knobs": {"conductivity": 99}}, "out of range"),
    ],
)
def test_a_mistake_in_a_task_is_one_line(text: str, options: dict, line: str) -> None:
    with pytest.raises(gb.ParamError) as error:
        resolve(HEAT, text, **{"track": "smoke", **options})
    one_line(error, line)


def test_a_steady_problem_refuses_a_window_that_it_has_not() -> None:
    with pytest.raises(gb.ParamError) as error:
        resolve(DISC, "disc", track="smoke", t_in=5)
    one_line(error, "disc has 1 frame,")


def test_the_dataset_of_an_id_is_matched_and_not_guessed() -> None:
    known = ["swe", "burgers", "burgers2d"]
    assert [
        dataset_name(text, known) for text in ("swe", "swe@10-41", "swe_deep@1-2", "burgers2d_x")
    ] == ["swe"] * 3 + ["burgers2d"]
    for text, hint in (
        ("sew", "did you mean 'swe'"),
        ("burgers3d", "known: burgers, burgers2d, swe"),
        ("", "known"),
    ):
        with pytest.raises(gb.PluginError) as error:
            dataset_name(text, known)
        one_line(error, hint)


# ------------------------------------------------------------------------------------- data on disk


def test_data_are_made_once_and_hold_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    task = resolve(HEAT, "heat", track="smoke")
    steps: list[tuple[int, int]] = []
    path = ensure(
        HEAT, task, home=tmp_path, jobs=1, progress=lambda done, total: steps.append((done, total))
    )
    assert path == data_path(task, tmp_path) and path.parent == tmp_path / "data" / "heat" / "v3"
    assert steps == [(0, 11), (2, 11), (4, 11), (6, 11), (8, 11), (10, 11), (11, 11)]
    assert ensure(HEAT, task, home=tmp_path, jobs=1) == path
    assert len((tmp_path / "log").read_text().splitlines()) == 11
    assert [
        one.name for one in path.parent.iterdir() if one.name != path.with_suffix(".lock").name
    ] == [path.name]
    store.verify(path)
    with store.open_file(path, task) as opened:
        assert opened.task == replace(
            task, split_hashes=opened.task.split_hashes
        ) and opened.task.tags == ("wall", "left")
        made = next(HEAT.generate(HEAT.setup(HEAT.params(), 49, gb.Cache()), 0, "valid", [1]))
        np.testing.assert_array_equal(opened.split("valid").frames[1], made.frames.astype("f4"))


def test_the_file_says_where_it_comes_from(tmp_path: Path) -> None:
    task = resolve(HEAT, "heat_fast@1-2", track="tiny", data_seed=5)
    with store.open_file(ensure(HEAT, task, home=tmp_path, jobs=1)) as opened:
        said = opened.attributes
        assert said["title"] == "Heat on a square" and said["source"].startswith("implicit Euler")
        assert (said["licence"], said["references"]) == ("CC-BY-4.0", "Fourier 1822")
        assert (said["data_seed"], said["resolution"], said["dataset_revision"]) == ("5", "25", "3")
        assert (
            "conductivity=4.0" in said["history"]
            and said["data_knobs"] == '{"conductivity": 4.0, "smooth": true}'
        )
        # the file states the default window, whichever asked first
        assert opened.task.id == "heat_fast@2-5"


def test_windows_share_one_file_and_nothing_else_does(tmp_path: Path) -> None:
    base = resolve(HEAT, "heat", track="smoke")
    assert data_path(resolve(HEAT, "heat@1-3", track="smoke"), tmp_path) == data_path(
        base, tmp_path
    )
    others = [
        resolve(HEAT, "heat_rough", track="smoke"),
        resolve(HEAT, "heat", track="smoke", knobs={"conductivity": 2}),
        resolve(HEAT, "heat", track="smoke", resolution=25),
        resolve(HEAT, "heat", track="smoke", samples=5),
        resolve(HEAT, "heat", track="smoke", data_seed=1),
        resolve(replace(HEAT, revision=4), "heat", track="smoke"),
    ]
    assert len({data_path(task, tmp_path) for task in (base, *others)}) == 7


def test_what_a_kill_left_of_the_file_is_removed(tmp_path: Path) -> None:
    task = resolve(DISC, "disc", track="tiny")
    path = data_path(task, tmp_path)
    path.parent.mkdir(parents=True)
    left_over = path.parent / f".{path.name}.abc.part"
    left_over.write_bytes(b"half a file")
    ensure(DISC, task, home=tmp_path, jobs=1)
    assert not left_over.exists()


def test_an_unusable_home_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(gb.DataError) as error:
        ensure(DISC, resolve(DISC, "disc", track="tiny"), home=tmp_path / "file", jobs=1)
    one_line(error, "--home")


def test_the_estimate_is_the_size_of_the_arrays(tmp_path: Path) -> None:
    task = resolve(HEAT, "heat", track="smoke")
    guess = estimate(HEAT, task)
    with store.open_file(ensure(HEAT, task, home=tmp_path, jobs=1)) as opened:
        variables = opened.handle.file.variables.values()
        actual = sum(
            int(np.prod(variable.shape)) * variable.dtype.itemsize for variable in variables
        )
    assert guess.samples == 11 and guess.disk_bytes == pytest.approx(actual, rel=0.1)
    assert (
        estimate(HEAT, resolve(HEAT, "heat", track="laptop")).memory_bytes > 4 * guess.memory_bytes
    )
