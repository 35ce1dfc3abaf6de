"""`gb.samples`: tensors in physical units for anybody's loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from toy_samples import fixed, ragged

import gsnobench as gb
from gsnobench.datasets import store


def test_items_hold_inputs_and_target(path: Path) -> None:
    items, expected = gb.samples(path, "test"), fixed()["test"]
    assert len(items) == 3 and items.task.id == "toy@1-2"
    item = items[1]
    np.testing.assert_array_equal(item["window"], expected.frames[1, :1])
    np.testing.assert_array_equal(item["target"], expected.frames[1, 1:])
    np.testing.assert_array_equal(item["static"], expected.static[1])
    np.testing.assert_array_equal(item["scalars"], expected.scalars[1])
    assert item["mask"].all() and items.mesh(1).key == expected.mesh(1).key
    with pytest.raises(IndexError):
        items[3]


def test_a_data_loader_takes_them(tmp_path: Path) -> None:
    store.write(tmp_path / "r.nc", ragged(), provenance={})
    items = gb.samples(tmp_path / "r.nc")
    (batch,) = torch.utils.data.DataLoader(items, batch_size=3)  # type: ignore[arg-type]
    assert batch["target"].shape == (3, 2, 25, 2) and batch["points"].shape == (3, 25, 2)
    assert batch["mask"].sum(dim=1).tolist() == [9, 25, 16]
    assert not batch["target"].movedim(2, 1)[~batch["mask"]].any()


def test_every_window_of_a_trajectory_is_an_item(tmp_path: Path) -> None:
    items = gb.samples("airfoil", "valid", track="tiny", jobs=1, home=tmp_path)
    starts = items.task.starts
    assert len(items) == len(starts) and len(starts) > 1
    later = zip(list(items)[:-1], list(items)[1:], strict=True)
    assert all(torch.equal(a["target"], b["window"]) for a, b in later)


def test_the_shown_form_is_one_short_line(path: Path) -> None:
    text = repr(gb.samples(path))
    assert "5 train items of toy@1-2" in text and len(text) < 200 and "\n" not in text


def test_a_notebook_shows_a_table_of_shapes(path: Path) -> None:
    items = gb.samples(path)
    html = items._repr_html_()
    assert "5 train items of toy@1-2" in html
    assert all(
        f">{name}<" in html and str(tuple(part.shape)) in html for name, part in items[0].items()
    )


def test_a_file_has_no_knobs(path: Path) -> None:
    with pytest.raises(gb.ParamError, match="is a file"):
        gb.samples(path, knobs={"data.resolution": 3})
    with pytest.raises(gb.ParamError, match="did you mean 'test'"):
        gb.samples(path, "tests")
