"""meshio meshes and folders of mesh files become samples; a damaged file is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pytest
from toy_datasets import square
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import store
from gsnobench.datasets.interchange.mesh_files import natural_order

DRAW = np.random.default_rng(0)
MESHES = [square(side) for side in (3, 4, 5, 3, 4)]
STRESS = [DRAW.normal(size=mesh.size) for mesh in MESHES]
FLOW = [DRAW.normal(size=(3, mesh.size, 2)) for mesh in MESHES]  # three frames
SPLITS = (3, 1, 1)


def solid(index: int, **data: Any) -> meshio.Mesh:
    """A mesh as a VTU writer makes it: points in space, boundary lines beside the triangles."""
    mesh = MESHES[index]
    points = np.column_stack([mesh.points, np.zeros(mesh.size)])
    cells = [("triangle", mesh.cells[:2]), ("line", [[0, 1]]), ("triangle", mesh.cells[2:])]
    return meshio.Mesh(points, cells, point_data=data)


def in_space(flow: Any) -> Any:
    return np.concatenate([flow, np.zeros((*flow.shape[:-1], 1))], axis=-1)


def check_stress(path: Path) -> None:
    with store.open_file(path) as opened:
        train = opened.read("train")
    assert train.task.dim == 2 and not train.task.fixed_mesh
    for index in range(3):
        np.testing.assert_array_equal(train.mesh(index).points, MESHES[index].points)
        np.testing.assert_array_equal(train.mesh(index).cells, MESHES[index].cells)
        own = train.frames[index, 0, : MESHES[index].size, 0]
        np.testing.assert_array_equal(own, STRESS[index].astype("f4"))


def test_meshio_meshes_become_samples(tmp_path: Path) -> None:
    meshes = [solid(index, stress=STRESS[index]) for index in range(5)]
    check_stress(gb.write_file(tmp_path / "s.nc", meshes, fields="stress", splits=SPLITS))


@pytest.mark.parametrize("ending", ["vtu", "vtk", "xdmf"])
def test_a_folder_of_files_becomes_samples_in_natural_order(tmp_path: Path, ending: str) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    for index, number in enumerate((1, 2, 3, 10, 20)):
        solid(index, stress=STRESS[index]).write(folder / f"case_{number}.{ending}")
    (folder / "notes.txt").write_text("other files are left alone")
    (folder / f"._case_1.{ending}").write_text("and what a system hides")
    check_stress(gb.write_file(tmp_path / "s.nc", folder, fields="stress", splits=SPLITS))


def check_flow(path: Path) -> None:
    with store.open_file(path) as opened:
        train = opened.read("train")
    names = [field.name for field in train.task.fields]
    assert names == ["flow_x", "flow_y"] and [f.name for f in train.task.static] == ["bed"]
    for index in range(3):
        size = MESHES[index].size
        np.testing.assert_array_equal(train.frames[index, :, :size], FLOW[index].astype("f4"))
        np.testing.assert_array_equal(train.static[index, :size, 0], STRESS[index].astype("f4"))


def test_subfolders_are_trajectories(tmp_path: Path) -> None:
    for index in range(5):
        run = tmp_path / "runs" / f"run{index}"
        run.mkdir(parents=True)
        for frame in range(3):
            mesh = solid(index, flow=in_space(FLOW[index][frame]), bed=STRESS[index])
            mesh.write(run / f"frame_{frame}.vtu")
    path = tmp_path / "f.nc"
    options = {"fields": "flow", "inputs": "bed", "splits": SPLITS, "t_in": 1}
    check_flow(gb.write_file(path, tmp_path / "runs", **options))


def test_xdmf_series_are_trajectories_with_their_times(tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    monkeypatch.chdir(folder)  # meshio puts the .h5 file beside the working folder
    for index in range(5):
        mesh = solid(index)
        with meshio.xdmf.TimeSeriesWriter(f"run{index}.xdmf") as writer:
            triangles = MESHES[index].cells  # meshio cannot write lines into a series
            writer.write_points_cells(mesh.points, [("triangle", triangles)])
            for frame in range(3):
                data = {"flow": in_space(FLOW[index][frame]), "bed": STRESS[index]}
                writer.write_data(0.5 * frame, point_data=data)
    options = {"fields": "flow", "inputs": "bed", "splits": SPLITS, "t_in": 1}
    path = gb.write_file(tmp_path / "f.nc", folder, **options)
    check_flow(path)
    with store.open_file(path) as opened:
        assert opened.task.times == (0.0, 0.5, 1.0)


def written(folder: Path, index: int, **data: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    solid(index, **data).write(folder / f"{index}.vtu")
    return folder / f"{index}.vtu"


def test_a_truncated_file_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    for index in range(5):
        last = written(folder, index, stress=STRESS[index])
    last.write_bytes(last.read_bytes()[:400])
    with pytest.raises(gb.DataError) as error:
        gb.write_file(tmp_path / "x.nc", folder, fields="stress")
    one_line(error, "4.vtu: not a readable mesh file")
    assert not (tmp_path / "x.nc").exists()


@pytest.mark.parametrize(
    ("meshes", "line"),
    [
        ([solid(0, strain=STRESS[0])], "mesh 0 has no point data 'stress' but strain"),
        ([meshio.Mesh(np.zeros((8, 3)), [("hexahedron", [range(8)])])], "kind hexahedron"),
    ],
)
def test_a_mesh_that_does_not_fit_is_one_line(tmp_path: Path, meshes: Any, line: str) -> None:
    with pytest.raises(gb.DataError) as error:
        gb.write_file(tmp_path / "x.nc", meshes, fields="stress")
    one_line(error, line)


@pytest.mark.parametrize("other", [4, 1])
def test_a_mesh_that_changes_in_a_trajectory_is_one_line(tmp_path: Path, other: int) -> None:
    for index in range(3):
        written(tmp_path / "runs" / f"run{index}", 0, stress=STRESS[0])
        written(tmp_path / "runs" / f"run{index}", other, stress=STRESS[other])
    with pytest.raises(gb.DataError) as error:
        gb.write_file(tmp_path / "x.nc", tmp_path / "runs", fields="stress", t_in=1)
    one_line(error, "run0 has another mesh in frame 1 than in frame 0")


@pytest.mark.parametrize("kind", ["meshes", "folder"])
def test_another_mesh_beside_that_of_the_files_is_refused(tmp_path: Path, kind: str) -> None:
    written(tmp_path / "cases", 0, stress=STRESS[0])
    data = {"meshes": [solid(0, stress=STRESS[0])], "folder": tmp_path / "cases"}[kind]
    with pytest.raises(gb.ParamError) as error:
        gb.write_file(tmp_path / "x.nc", data, fields="stress", mesh=MESHES[0])
    one_line(error, "mesh: a mesh")


def test_names_of_all_kinds_have_an_order() -> None:
    names = ["case_10", "case_2", "²", "b", "3"]
    ordered = sorted(map(Path, names), key=natural_order)
    assert [path.name for path in ordered].index("case_2") < ordered.index(Path("case_10"))
    assert len(ordered) == len(names)


def test_an_empty_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(gb.DataError) as error:
        gb.write_file(tmp_path / "x.nc", tmp_path, fields="stress")
    one_line(error, "holds no file of .vtu, .vtk, .xdmf, .xmf")
