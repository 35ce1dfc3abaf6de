"""Meshes, fields, tasks and samples: the words in which all data are described."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems import square, steady

import gsnobench as gb
from gsnobench.data import split_named

VECTOR = gb.Task(
    id="flow_fast@2-3",
    dataset="flow",
    fields=(
        gb.Field("u", vector="velocity", boundary={"wall": "dirichlet", "inlet": "dirichlet"}),
        gb.Field("p", reference=5.0, boundary={"wall": "dirichlet"}),
        gb.Field("v", vector="velocity", boundary={"wall": "dirichlet", "inlet": "neumann"}),
    ),
    dim=2,
    static=(gb.Field("source"),),
    scalars=(gb.Field("strength"), gb.Field("angle")),
    tags=("wall", "inlet"),
    t_in=2,
    t_out=3,
    times=tuple(range(12)),
    starts=(0, 5),
)


def test_a_mesh_key_follows_content_not_identity() -> None:
    mesh, same, other = square(5), square(5), square(5, seed=1)
    assert mesh.key == same.key != other.key
    assert gb.Mesh(mesh.points, mesh.cells, {}).key != mesh.key
    assert gb.Mesh(mesh.points, None, mesh.tags).key != mesh.key


def test_a_tag_that_a_mesh_lacks_has_no_node() -> None:
    mesh = square(4)
    matrix = mesh.tag_matrix(("boundary", "inlet"))
    assert matrix.dtype == bool and matrix.shape == (16, 2)
    assert matrix.sum(axis=0).tolist() == [12, 0]
    assert mesh.tag_matrix(()).shape == (16, 0)


@pytest.mark.parametrize(("support", "nodes"), [("all", 16), ("boundary", 12), ("not boundary", 4)])
def test_a_field_is_on_all_nodes_on_a_tag_or_off_it(support: str, nodes: int) -> None:
    assert gb.Field("u", support=support).nodes(square(4)).sum() == nodes


def test_a_support_that_the_mesh_lacks_is_one_line() -> None:
    with pytest.raises(gb.DataError, match=r"u: its support 'not lid' .* known: \['boundary'\]"):
        gb.Field("u", support="not lid").nodes(square(4))


def test_channels_count_all_that_goes_in_and_comes_out() -> None:
    assert VECTOR.in_channels == 2 + 2 * 3 + 1 + 2
    assert VECTOR.out_channels == 3 * 3


def test_a_vector_is_scored_as_a_whole() -> None:
    assert VECTOR.vectors == {"velocity": (0, 2)}
    assert VECTOR.scored == {"p": (1,), "velocity": (0, 2)}


def test_frames_to_predict_follow_the_window_of_every_start() -> None:
    assert VECTOR.predicted_frames() == (2, 3, 4, 7, 8, 9)
    assert VECTOR.predicted_frames(1) == (2, 3, 4)


def test_a_steady_task_has_one_frame_to_predict() -> None:
    assert steady()["train"].task.predicted_frames() == (0,)


def test_the_family_of_a_task_follows_its_meshes_then_its_window() -> None:
    task = gb.Task("t", "t", (gb.Field("u"),), dim=2)
    assert task.family == "steady"
    assert replace(task, t_in=1).family == "unsteady"
    assert replace(task, t_in=1, fixed_mesh=False).family == "varying"


def test_only_where_all_fields_vanish_may_a_basis_vanish() -> None:
    assert VECTOR.dirichlet_tags() == ("wall",)


def test_the_base_of_an_id_has_no_window() -> None:
    assert VECTOR.base == "flow_fast"
    assert replace(VECTOR, id="flow_fast").base == "flow_fast"


def test_a_narrowed_task_differs_in_its_window_alone() -> None:
    narrow = VECTOR.narrowed(1, 1)
    assert (narrow.t_in, narrow.t_out) == (1, 1)
    assert narrow.narrowed(2, 3) == VECTOR


@pytest.mark.parametrize("indices", [[3, 1], slice(1, 4, 2), np.array([0])])
def test_some_samples_keep_their_meshes(indices: object) -> None:
    meshes = tuple(square(3, seed=seed) for seed in range(4))
    frames = np.arange(4.0).reshape(4, 1, 1, 1) * np.ones((4, 1, 9, 1))
    task = gb.Task("v", "v", (gb.Field("u"),), dim=2, fixed_mesh=False)
    samples = gb.Samples(task, meshes, frames, np.zeros((4, 9, 0)), np.zeros((4, 0)))
    expected = np.arange(4)[indices]
    some = samples.take(indices)
    assert len(some) == len(expected)
    assert some.frames[:, 0, 0, 0].tolist() == expected.tolist()
    assert [mesh.key for mesh in some.meshes] == [meshes[index].key for index in expected]


def test_some_samples_of_a_fixed_geometry_share_its_mesh() -> None:
    samples = steady()["train"]
    some = samples.take([5, 2])
    assert some.meshes == samples.meshes and some.mesh(1) is samples.meshes[0]


def test_a_split_is_one_of_four() -> None:
    assert split_named("valid") == "valid"
    with pytest.raises(gb.ParamError, match="did you mean 'train'"):
        split_named("trian")
