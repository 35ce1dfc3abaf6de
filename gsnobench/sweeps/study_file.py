"""The finished trials of a search as one JSON file, with which it goes on in any other home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from optuna.distributions import distribution_to_json, json_to_distribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from gsnobench.errors import DataError
from gsnobench.files import write_text
from gsnobench.reading import guarded, read_json
from gsnobench.records import plain
from gsnobench.sweeps.trials import REPEATS, Trials

SCHEMA = 1
OF_THIS_MACHINE = ("home", "worker", "lives", REPEATS)  # what no other home needs to know


def write_study(path: Path, trials: Trials) -> None:
    """Write all finished trials of a study; a killed process leaves the file as it was."""
    body = {
        "schema": SCHEMA,
        "search": trials.study.user_attrs["search"],
        "trials": [_trial_to_json(trial) for trial in trials.counted()],
    }
    write_text(path, json.dumps(plain(body), indent=1) + "\n")


def read_study(path: Path, search: dict[str, Any], trials: Trials) -> bool:
    """Add the trials of a file to the new study of this search; whether there were any."""
    if not path.exists():
        return False
    body, ours = _body(path), plain(search)
    if body["search"] != ours:
        names = sorted(name for name in ours if body["search"].get(name) != ours[name])
        raise DataError(
            f"{path}: holds the trials of another search ({', '.join(names)} differ); choose "
            "another file"
        )
    for entry in body["trials"]:
        trials.study.add_trial(_trial_from_json(entry))
    return bool(body["trials"])


def _body(path: Path) -> dict[str, Any]:
    """The content of a file, every trial of which can be read."""
    body = read_json(path, expected="what `sweep --study` wrote")
    with guarded(path, expected="what `sweep --study` wrote"):
        if body["schema"] != SCHEMA:
            raise ValueError(f"schema {body['schema']}, expected {SCHEMA}")
        for entry in body["trials"]:
            _trial_from_json(entry)
        body["search"].get("task")
    return dict(body)


def _trial_to_json(trial: FrozenTrial) -> dict[str, Any]:
    distributions = {
        name: json.loads(distribution_to_json(distribution))
        for name, distribution in trial.distributions.items()
    }
    facts = {name: fact for name, fact in trial.user_attrs.items() if name not in OF_THIS_MACHINE}
    return {
        "state": trial.state.name,
        "values": list(trial.values) if trial.state == TrialState.COMPLETE else None,
        "point": dict(trial.params),
        "distributions": distributions,
        "facts": facts,
    }


def _trial_from_json(entry: dict[str, Any]) -> FrozenTrial:
    distributions = {
        name: json_to_distribution(json.dumps(distribution))
        for name, distribution in entry["distributions"].items()
    }
    return create_trial(
        state=TrialState[entry["state"]],
        values=entry["values"],
        params=entry["point"],
        distributions=distributions,
        user_attrs=entry["facts"],
    )
