"""Predictions of another program as a result that boards show, beside the rows but not ranked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsnobench.data import Split
from gsnobench.datasets.store import Opened
from gsnobench.errors import ParamError
from gsnobench.files import write_text
from gsnobench.home import Home
from gsnobench.plugins import listed
from gsnobench.records import RunResult, evidence_path
from gsnobench.registry import read_registry
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.training.evaluate import Evaluation

PRESET, ORIGIN = "foreign", "predictions of another program"


def check_foreign_name(name: str, split: Split) -> None:
    """Refuse a name that no row can have, or that a model here has already."""
    if split != "test":
        raise ParamError(f"save: boards are about the split test, not {split}; drop --split")
    if not re.fullmatch(r"[A-Za-z]\w{0,39}", name):
        raise ParamError(f"save: {name!r} is no name of a row; expected letters, digits and _")
    if name in {entry.name for entry in listed("model")}:
        raise ParamError(f"save: {name} is the name of a model here; choose another one")


def save_foreign(
    name: str,
    predictions: Path,
    evaluation: Evaluation,
    opened: Opened,
    *,
    dataset: str,
    options: Mapping[str, Any],
    home: Home,
) -> Path:
    """The result file of test scores: on the board of the task, as a variant without a rank.

    Nobody here knows what the predictions cost, so they take no row's place.
    """
    registry = read_registry(home=home)
    # a floor has no settings of its own, so its spec is that of the task alone
    task_only = make_plan(Request(registry.floors[0], dataset, **options), registry).spec
    digest = hashlib.sha256(predictions.read_bytes()).hexdigest()
    spec = replace(
        task_only,
        model=name,
        preset=PRESET,
        revision=1,
        model_params={"sha256": digest[:16]},
        train_params={},
        steps={},
        seed=0,
        defaults=(),
        origin=ORIGIN,
    )
    result = RunResult(
        spec,
        "done",
        scores={"test": evaluation.scores()},
        samples={"test": evaluation.sample_table(opened.task)},
        data={
            "hash": opened.content_hash,
            "fingerprint": opened.fingerprint,
            "origin": "file" if spec.source else "generated",
        },
        changed={"model.sha256": digest[:16]},
    )
    path = evidence_path(home.results, spec)
    write_text(path, result.to_json())
    return path
