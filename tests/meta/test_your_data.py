"""docs/your-data.md: every block has at most ten lines, runs, and gives a running benchmark."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import meshio
import numpy as np
import pytest
import torch
import xarray
from command_line import command
from toy_datasets import square

from gsnobench.datasets import store
from gsnobench.meshes.topology import edges

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-data.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
WRITES = [block for block in BLOCKS if "gb.write_file(" in block and "open_file" not in block]
USES = [block for block in BLOCKS if block not in WRITES]
MOST_LINES = 10
SAMPLES = 30


def written_name(block: str) -> str:
    """The name of the file that a block writes."""
    (name,) = re.findall(r'gb\.write_file\(\s*"(\w+)\.nc"', block)
    return name


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's files that the blocks name."""
    monkeypatch.chdir(tmp_path)
    mesh, draw = square(11), np.random.default_rng(0)
    x, y = mesh.points.T
    phase = draw.uniform(0, 6, size=(SAMPLES, 1))
    wave = np.sin(6 * x + phase)  # (S, N)
    np.save("permeability.npy", np.cos(6 * x + phase))
    np.save("head.npy", wave)
    np.save("points.npy", mesh.points)
    np.save("triangles.npy", mesh.cells)
    Path("cases").mkdir()
    for number in range(SAMPLES):
        points = np.column_stack([x * (1 + number / 9), y, 0 * x])
        data = {"stress": wave[number]}
        meshio.Mesh(points, [("triangle", mesh.cells)], point_data=data).write(
            f"cases/{number}.vtu"
        )
    moving = np.sin(6 * x + phase[:, None] + np.arange(6)[:, None])  # (S, T, N)
    xarray.Dataset(
        {"depth": (("run", "time", "point"), moving, {"units": "m"})},
        coords={"x": ("point", x), "y": ("point", y), "time": np.arange(6.0)},
    ).assign(cells=(("cell", "corner"), mesh.cells)).to_netcdf("simulation.nc")
    graph = {"pos": torch.tensor(mesh.points), "edge_index": torch.tensor(edges(mesh).T)}
    torch.save(
        [graph | {"y": torch.tensor(row), "x": torch.tensor(row**2)} for row in wave], "graphs.pt"
    )
    with h5py.File("results.h5", "w") as file:
        file["out/u"], file["in/a"] = wave, np.cos(6 * x + phase)
        file["mesh/xy"], file["mesh/triangles"] = mesh.points, mesh.cells
    return tmp_path


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_short(block: str) -> None:
    assert len(block.strip().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("block", WRITES, ids=written_name)
def test_a_block_becomes_a_running_benchmark(
    block: str, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(block, {})
    words = f"run --model gsno --dataset {written_name(block)}.nc".split()
    options = ["--track", "smoke", "--device", "cpu", "--no-floors", "--json"]
    ended = command(capsys, *words, *options, "--home", sources / "home")
    assert ended.code == 0, ended.err
    result = ended.json["result"]
    assert result["scores"]["test"]["headline"]["rel_l2"] > 0


def test_the_kinds_of_sources_are_all_shown() -> None:
    assert set(map(written_name, WRITES)) == {"arrays", "folder", "labelled", "graphs", "hdf5"}


def test_written_data_are_used_as_shown(sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(WRITES[0], {})
    for block in USES:
        exec(block, {})
    shown = capsys.readouterr().out
    assert "written from arrays" in shown and "torch.Size([5, 121, 1])" in shown
    with store.open_file(Path("smaller.nc")) as opened:
        assert sum(opened.task.sizes.values()) == SAMPLES // 2
