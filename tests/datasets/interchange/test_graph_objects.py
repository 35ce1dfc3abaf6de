"""Graphs with edge lists become meshes whose cells are edges."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import netCDF4
import numpy as np
import pytest
import torch
from toy_datasets import square
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import store
from gsnobench.meshes.topology import edges


def graph(side: int, kind: str = "object", **change: Any) -> Any:
    """A graph with both directions of every edge, as PyTorch Geometric keeps them."""
    mesh = square(side)
    ends = torch.tensor(edges(mesh).T)
    draw = torch.Generator().manual_seed(side)
    parts = {
        "pos": torch.tensor(mesh.points),
        "edge_index": torch.cat([ends, ends.flip(0)], dim=1),
        "x": torch.randn(mesh.size, 2, generator=draw),
        "y": torch.randn(mesh.size, generator=draw),
        **change,
    }
    return SimpleNamespace(**parts) if kind == "object" else parts


@pytest.mark.parametrize("kind", ["object", "mapping"])
def test_graphs_become_samples(tmp_path: Path, kind: str) -> None:
    graphs = [graph(side, kind) for side in (3, 4, 5, 6, 7)]
    path = gb.write_file(tmp_path / "g.nc", graphs, fields="y", inputs="x", splits=(3, 1, 1))
    with store.open_file(path) as opened:
        train = opened.read("train")
    for index, side in enumerate((3, 4, 5)):
        np.testing.assert_array_equal(train.mesh(index).cells, edges(square(side)))
    assert [field.name for field in train.task.static] == ["x_x", "x_y"]


def test_a_fixed_graph_is_a_network_of_ugrid(tmp_path: Path) -> None:
    graphs = [graph(4, y=torch.full((16,), float(number))) for number in range(5)]
    for number, single in enumerate(graphs):
        single.x = single.x + number
    path = gb.write_file(tmp_path / "g.nc", graphs, fields="y", inputs="x", splits=(3, 1, 1))
    with netCDF4.Dataset(path) as file:
        assert file["mesh"].edge_node_connectivity == "mesh_cells"
        assert file["mesh"].topology_dimension == 1
    with store.open_file(path) as opened:
        assert opened.task.fixed_mesh


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"y": None}, "graph 0 has no 'y'"),
        ({"edge_index": torch.zeros(4, 2, dtype=torch.long)}, "expected whole numbers (2, edges)"),
        ({"edge_index": torch.tensor([[0, 1], [1, 2]])}, "node 3 of graph 0 has no edge"),
    ],
)
def test_a_wrong_graph_is_one_line(tmp_path: Path, change: dict[str, Any], line: str) -> None:
    with pytest.raises(gb.DataError) as error:
        gb.write_file(tmp_path / "g.nc", [graph(3, **change)], fields="y", inputs="x")
    one_line(error, line)
