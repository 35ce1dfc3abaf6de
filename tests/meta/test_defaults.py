"""Keys leave out knobs at their declared default, so a default may never change its value.

`pinned_defaults.json` holds the defaults of every bundled plugin and of the training. A changed or
removed one needs a new revision of the plugin; those of the training have no revision and stay.
After adding a knob or raising a revision: `make defaults`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gsnobench.params import Params
from gsnobench.plugins import listed, load
from gsnobench.training.optimisation import TrainParams

FILE = Path(__file__).with_name("pinned_defaults.json")
PINNED: dict[str, dict[str, Any]] = (
    json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
)


def defaults_of(params: type[Params]) -> dict[str, Any]:
    return {knob.name: knob.check(knob.default) for knob in params.knobs()}


def declared() -> dict[str, dict[str, Any]]:
    """Revision and defaults of the training and of every bundled model and dataset."""
    table = {"train": {"revision": 1, "defaults": defaults_of(TrainParams)}}
    for kind in ("dataset", "model"):
        for entry in listed(kind):
            if entry.package == "gsnobench":
                plugin = load(kind, entry.name)
                facts = {"revision": plugin.revision, "defaults": defaults_of(plugin.params)}
                table[f"{kind} {entry.name}"] = facts
    return table


NOW = declared()


def problems(pinned: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Knobs whose default changed or that have gone although the revision is the same."""
    if now["revision"] != pinned["revision"]:
        return []
    here = now["defaults"]
    return [
        name
        for name, value in pinned["defaults"].items()
        if name not in here or here[name] != value
    ]


@pytest.mark.parametrize("name", sorted(PINNED))
def test_a_changed_default_has_a_new_revision(name: str) -> None:
    assert name in NOW, f"{name} has gone: its results can no longer be repeated"
    assert problems(PINNED[name], NOW[name]) == []


@pytest.mark.skipif("GSNOBENCH_PIN" in os.environ, reason="the file is about to be written")
def test_every_knob_is_pinned() -> None:
    assert json.dumps(PINNED, sort_keys=True) == json.dumps(NOW, sort_keys=True), "make defaults"


@pytest.mark.skipif("GSNOBENCH_PIN" not in os.environ, reason="writes the file; `make defaults`")
def test_the_file_is_written() -> None:
    assert not [name for name in PINNED if name in NOW and problems(PINNED[name], NOW[name])]
    FILE.write_text(json.dumps(NOW, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def test_a_changed_default_is_seen() -> None:
    pinned = {"revision": 1, "defaults": {"width": 32, "depth": 4}}
    assert problems(pinned, {"revision": 1, "defaults": {"width": 16}}) == ["width", "depth"]
    assert problems(pinned, {"revision": 2, "defaults": {"width": 16}}) == []
    added = {"revision": 1, "defaults": {"width": 32, "depth": 4, "later": 0}}
    assert problems(pinned, added) == []
