"""A sweep in MLflow: a parent run that holds its trials, by the same spool as any run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsnobench.home import Home
from gsnobench.sweeps.search import Search
from gsnobench.sweeps.trials import Trials
from gsnobench.tracking.address import Address
from gsnobench.tracking.observer import ensure_mirror, harmless
from gsnobench.tracking.spool import SpoolWriter, beginning, fingerprint, new_id, open_writer


def parent_id(trials: Trials) -> str:
    """Names the parent run on every host of the study."""
    known = trials.study.user_attrs.get("parent")
    if known is None:
        known = new_id()
        trials.study.set_user_attr("parent", known)
    return str(known)


def tags_of(search: Search, parent: str) -> dict[str, str]:
    """Tags of a trial; the mirror nests it under the run with the id of its parent."""
    return {"kind": "trial", "sweep": search.name, "gsnobench.parent": parent}


@dataclass(eq=False)
class Record:
    """The open record of a sweep; without a writer nothing is tracked."""

    folder: Path
    address: Address | None = None
    writer: SpoolWriter | None = None

    def trial(self, number: int, scores: Mapping[str, float]) -> None:
        """One point of the curves: the error of a trial and the best so far."""
        with harmless("this trial is not in the sweep's curve"):
            if self.writer is not None:
                self.writer.append("epoch", phase="sweep", epoch=number, scores=scores)

    def finish(self, result: Mapping[str, Any]) -> None:
        """The result of the sweep; its figures and tables are in the folder by now."""
        with harmless("the end of this sweep is not tracked"):
            if self.writer is None or self.address is None:
                return
            best, winner = result.get("best", {}), result.get("winner", {})
            errors = {
                "sweep/best_valid": best.get("valid"),
                "sweep/winner_valid": winner.get("mean"),
                "sweep/winner_test": winner.get("test_mean"),
            }
            point = winner.get("point") or best.get("point") or {}
            self.writer.append(
                "finished",
                status=result["status"],
                reason=result.get("reason", ""),
                metrics={name: error for name, error in errors.items() if error is not None},
                tags={f"best.{name}": str(value) for name, value in point.items()},
                result=fingerprint(self.folder),
            )


@contextmanager
def open_record(search: Search, trials: Trials, home: Home) -> Iterator[Record]:
    """The parent run is live within the block; trouble with tracking is one line of the log."""
    record = Record(search.folder(home))
    with harmless("this sweep is not tracked"):
        record.address = Address.of(home.root)
        if record.address is not None:
            # "+" sorts before the names of runs: the mirror makes a parent before its children
            record.writer = open_writer(record.address.home, f"+{search.name}")
            first = _beginning(search, record.folder)
            parent = parent_id(trials)
            record.writer.append("started", id=parent, store=record.address.id, **first)
            ensure_mirror(record.address)
    try:
        yield record
    finally:
        with harmless("the end of this sweep is not tracked"):
            if record.writer is not None and record.address is not None:
                record.writer.close()
                ensure_mirror(record.address)


def _beginning(search: Search, folder: Path) -> dict[str, Any]:
    """The first record of a run, without searched knobs and key: a sweep is not one question."""
    first = beginning(search.plan({}).spec, folder, {"kind": "sweep", "sweep": search.name})
    searched = {axis.name for axis in search.axes}
    params = {name: value for name, value in first["params"].items() if name not in searched}
    params["over"] = ", ".join(axis.describe() for axis in search.axes)
    params["minimise"] = ", ".join(search.objectives)
    return {
        **first,
        "run": f"../studies/{search.name}",  # the mirror looks for artifacts from HOME/runs
        "name": f"sweep {search.name}",
        "tags": {name: value for name, value in first["tags"].items() if name != "gsnobench.key"},
        "params": params,
    }
