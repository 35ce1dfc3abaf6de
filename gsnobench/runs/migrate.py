"""Results of schema 1 -> schema 2: the same numbers under the key that the same run has today.

Schema 1 hashed every knob, kept scalings apart from the training knobs, and had errors per sample
of the test split alone. What it did not hold stays empty: errors out of distribution per sample,
digests of the code, and whether `prepare_s` was measured with a cache (it goes to the warm column).

Results of schema 2 say anew which of their settings the preset does not have: a preset may get
others for a family of tasks. Its earlier results are variants then, and those of other families
stay rows, without a new revision.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsnobench.errors import DataError, GsnobenchError
from gsnobench.files import write_text
from gsnobench.home import Home, RunFolder
from gsnobench.params import Params
from gsnobench.plugins import dataset_named, load
from gsnobench.reading import read_json
from gsnobench.records import RunResult, RunSpec, evidence_path
from gsnobench.registry import Registry
from gsnobench.runs.plan import Plan, make_plan, plan_of_spec
from gsnobench.runs.request import Request
from gsnobench.training.optimisation import TrainParams

OLD = 1  # the schema that is migrated
DAMAGE = (GsnobenchError, KeyError, TypeError, AttributeError)  # entries missing, of another kind


@dataclass(frozen=True)
class Moved:
    """One file or run folder that was brought up to date, or the problem for which it was left."""

    old: Path
    new: Path
    problem: str = ""


def migrate_folder(root: Path, registry: Registry) -> Iterator[Moved]:
    """All result files below a folder of evidence that are not of today, with their pictures."""
    for path in sorted(root.rglob("*.json")):
        body = _old_body(path)
        if body is None:
            yield from _restated(path, registry)
            continue
        try:
            result = migrated_result(body, registry)
        except DAMAGE as error:
            yield Moved(path, path, f"cannot be migrated ({error!r}); was it edited?")
            continue
        target = evidence_path(root, result.spec)
        result.save(target)
        if path.with_suffix(".png").exists():
            os.replace(path.with_suffix(".png"), target.with_suffix(".png"))
        path.unlink()  # last: a kill leaves two files of one result, never none
        yield Moved(path, target)


def migrate_home(home: Home, registry: Registry) -> Iterator[Moved]:
    """The results of a home and its run folders, which get the name of their new key."""
    yield from migrate_folder(home.results, registry)
    for path in sorted(home.runs.glob("*")):
        folder = RunFolder(path)
        if not folder.spec.exists():
            continue
        try:
            body = read_json(folder.spec, expected="a spec")
            if "scaling" not in body:
                yield from _restated(folder.result, registry)
                continue
            spec = migrated_spec(body)
            for file in (folder.result, folder.trial):
                old = _old_body(file) if file.exists() else None
                if old is not None:
                    migrated_result(old, registry).save(file)
            write_text(folder.spec, json.dumps(spec.to_dict(), indent=1) + "\n")
        except (*DAMAGE, ValueError, OSError) as error:
            yield Moved(path, path, f"cannot be migrated ({error!r}); was it edited?")
            continue
        target = home.run_folder(spec.key).path
        if not target.exists():
            os.replace(path, target)
        yield Moved(path, target)


def _restated(path: Path, registry: Registry) -> Iterator[Moved]:
    """A result of this schema that says again what its preset of today does not have."""
    with suppress(GsnobenchError):  # no result, or of a plugin or revision that is not here
        result = RunResult.load(path)
        if result.spec.source:  # the registry knows nothing of a file
            return
        changed = changed_today(result, plan_of_spec(result.spec, registry))
        if changed != dict(result.changed):
            replace(result, changed=changed).save(path)
            yield Moved(path, path)


def changed_today(result: RunResult, plan: Plan) -> dict[str, Any]:
    """What differs from the preset of today; about steps, nodes and samples, what the result says.

    Boards compare steps with the counts themselves, and only the run knew whether they had been
    requested.
    """

    def is_kept(name: str) -> bool:
        return name.startswith("steps.") or name not in {*plan.spec.settings, *plan.committed}

    stated = {name: value for name, value in result.changed.items() if is_kept(name)}
    return {**{name: now for name, now in plan.changed.items() if not is_kept(name)}, **stated}


def _old_body(path: Path) -> dict[str, Any] | None:
    """The content of a result of schema 1; None for anything else."""
    with suppress(DataError, AttributeError):
        body = read_json(path, expected="a result")
        if body.get("schema") == OLD and "spec" in body:
            return dict(body)
    return None


def migrated_result(body: Mapping[str, Any], registry: Registry) -> RunResult:
    """A result of schema 1 as one of schema 2."""
    spec = migrated_spec(body["spec"])
    costs = dict(body["costs"])
    if "prepare_s" in costs:
        costs["prepare_warm_s"] = costs.pop("prepare_s")
    kept = ("status", "reason", "scores", "frames", "curve", "data", "environment")
    result = RunResult(
        spec=spec,
        **{name: body[name] for name in kept},
        bands=body.get("bands", {}),
        costs=costs,
        samples={"test": body["samples"]} if body["samples"] else {},
    )
    with suppress(GsnobenchError):  # a row of a plugin that is not installed here stays unjudged
        request = Request(spec.model, spec.task, track=spec.track, preset=spec.preset)
        plan = make_plan(request, registry)
        result = replace(
            result, changed=replace(plan, spec=spec).changed, steps_from=plan.steps_from
        )
    return result


def migrated_spec(body: Mapping[str, Any]) -> RunSpec:
    """A spec of schema 1 as one of schema 2, with knobs that came later at their defaults."""
    scaling = body["scaling"]
    train = {
        **body["train_params"],
        "scale_window": scaling["inputs"],
        "scale_static": scaling["inputs"],
        "scale_outputs": scaling["outputs"],
        "scale_points": scaling["points"],
        "impose_boundary": scaling["impose_boundary"],
    }
    declared: dict[str, type[Params]] = {"train": TrainParams}
    with suppress(GsnobenchError):
        declared["model"] = load("model", body["model"]).params
    if not body["source"]:
        with suppress(GsnobenchError):
            declared["data"] = dataset_named(body["task"]).params
    sections = {"model": dict(body["model_params"]), "train": train, "data": dict(body["data"])}
    defaults: list[str] = []
    for section, params in declared.items():
        with suppress(GsnobenchError):  # a knob that has gone: all its knobs are hashed
            made = params.make(sections[section], label=section)
            sections[section] = made.to_dict()
            defaults += [f"{section}.{name}" for name in made.at_default()]
    kept = {name: value for name, value in body.items() if name != "scaling"}
    return RunSpec(
        **{
            **kept,
            "model_params": sections["model"],
            "train_params": sections["train"],
            "data": sections["data"],
            "defaults": tuple(sorted(defaults)),
        }
    )
