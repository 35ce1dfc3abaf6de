"""What a task id means."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy_datasets import DISC, HEAT
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets.tasks import resolve
from gsnobench.plugins import dataset_name


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
    for name in ("fields", "static", "scalars", "tags", "times"):
        assert getattr(task, name) == getattr(HEAT, name)
    assert task.sizes == {"train": 20, "valid": 4, "test": 4, "test_ood": 2}
    assert task.resolution == 121 and task.fixed_mesh
    assert task.data == {"conductivity": 1.0, "smooth": True}
    assert resolve(HEAT, "heat", track="tiny").sizes == {"train": 3, "valid": 2, "test": 2}


def test_more_training_samples_leave_the_other_splits() -> None:
    task = resolve(HEAT, "heat", track="smoke", samples=9)
    assert task.sizes == {"train": 9, "valid": 2, "test": 3}


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
    for text in ("swe", "swe@10-41", "swe_deep@1-2"):
        assert dataset_name(text, known) == "swe"
    assert dataset_name("burgers2d_x", known) == "burgers2d"
    listed = "known: burgers, burgers2d, swe"
    for text, hint in (("sew", "did you mean 'swe'"), ("burgers3d", listed), ("", "known")):
        with pytest.raises(gb.PluginError) as error:
            dataset_name(text, known)
        one_line(error, hint)
