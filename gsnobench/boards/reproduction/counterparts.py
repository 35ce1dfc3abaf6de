"""Our counterpart of a printed number: a row of a board, runs of a study, or a measured cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsnobench.boards.board import Board, BoardTrack, Row
from gsnobench.boards.reproduction.paper import PaperNumber
from gsnobench.boards.studies import StudyResult
from gsnobench.data import Array
from gsnobench.records import FEATURES

METRICS = {"rel_l2": "rel_l2_raw", "rmse": "rmse", "mae": "mae"}  # the paper scores raw fields
SECONDS = "train_s_per_epoch"  # a cost that every run has
PARAMETERS = "parameters"
CLOSEST = ("paper", "workstation", "laptop")  # tracks, nearest to the paper's protocol first
AS_PRINTED = "@paper"  # end of the name of a row that follows the paper


@dataclass(frozen=True, eq=False)
class Counterpart:
    """Our number beside a printed one, and the protocol behind it."""

    row: str
    track: str
    nodes: int
    samples: int
    values: Array  # one per seed
    epochs: float | None = None  # None where nothing was trained
    study: str = ""  # which study measured it; empty: the row of a board
    settings: tuple[str, ...] = ()  # of training and data that are not the preset's
    size: float = math.nan  # rms of our field, in its unit

    @property
    def value(self) -> float:
        return float(self.values.mean())

    @property
    def order(self) -> tuple[int, bool, bool, float]:
        """Closest to the paper's protocol first; a board before a study."""
        place = CLOSEST.index(self.track) if self.track in CLOSEST else len(CLOSEST)
        return place, not self.row.endswith(AS_PRINTED), bool(self.study), self.value


def counterpart(
    printed: PaperNumber, tracks: Iterable[BoardTrack], studies: Sequence[StudyResult]
) -> Counterpart | None:
    """The one that is closest to the paper's protocol; None where nothing was run."""
    if ":" in printed.model or "=" in printed.field:
        found = list(_of_studies(printed, studies))
    elif printed.metric in METRICS or printed.metric == PARAMETERS:
        found = [*_of_boards(printed, tracks), *_of_studies(printed, studies)]
    else:
        found = [*_of_costs(printed, studies)] or [*_of_boards(printed, tracks)]
    return min(found, key=lambda own: own.order, default=None)


def is_task(printed: PaperNumber, task: str) -> bool:
    """Whether a number is about this task; without frames it is about any window of its dataset."""
    is_dataset = printed.t_in is None and task.split("@")[0] == printed.dataset
    return task == printed.task or is_dataset


# ------------------------------------------------------------------------------------------- boards


def _of_boards(printed: PaperNumber, tracks: Iterable[BoardTrack]) -> Iterator[Counterpart]:
    """Rows of the same model on the same task, without computed inputs and without variants."""
    for board in (board for track in tracks for board in track.boards):
        if board.track not in CLOSEST or not is_task(printed, board.task):
            continue
        for row in board.compared:
            if row.model == printed.model and not row.has_features:
                values = _of_row(printed, row)
                if len(values):
                    yield _counterpart(printed, board, row, values)


def _of_row(printed: PaperNumber, row: Row) -> Array:
    if printed.metric in METRICS:
        return row.by_seed(printed.field, METRICS[printed.metric])
    if printed.metric == PARAMETERS:
        is_printed = row.name.endswith(AS_PRINTED)
        return np.array([row.cost(PARAMETERS)] if is_printed else [])
    if printed.metric == SECONDS and row.ending is not None and row.ending.epochs > 0:
        return np.array([row.cost("train_cpu_s") / row.ending.epochs])
    return np.array([])


def _counterpart(printed: PaperNumber, board: Board, row: Row, values: Array) -> Counterpart:
    rmse, relative = (row.by_seed(printed.field, metric) for metric in ("rmse", "rel_l2_raw"))
    return Counterpart(
        row=row.name,
        track=board.track,
        nodes=board.resolution,
        samples=board.sizes.get("train", 0),
        values=values,
        epochs=None if row.ending is None else row.ending.epochs,
        size=float((rmse / relative).mean()) if len(rmse) and len(relative) else math.nan,
    )


# ------------------------------------------------------------------------------------------ studies


def _of_studies(printed: PaperNumber, studies: Sequence[StudyResult]) -> Iterator[Counterpart]:
    """Runs of studies, seeds together, where the study varied what the paper varied."""
    for study in studies:
        groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
        for run in study.runs:
            is_done = run.get("state") == "done" and _is_whole(run, "point", "scores", "costs")
            if is_done and _is_about(printed, study, run):
                key = (run["row"], run["nodes"], str(run["point"]))
                groups.setdefault(key, []).append(run)
        for (row, nodes, _), runs in groups.items():
            values = _of_runs(printed, runs)
            if len(values):
                yield Counterpart(
                    row=_named(row, runs[0]["point"]),
                    track=runs[0]["track"],
                    nodes=nodes,
                    samples=runs[0]["samples"],
                    values=values,
                    epochs=runs[0].get("epochs"),
                    study=study.study,
                    settings=_settings(runs[0]),
                )


def _is_whole(entry: Mapping[str, Any], *tables: str) -> bool:
    """Whether a run or a measurement holds what is looked at; a stranger's file may not."""
    kinds = {"row": str, "task": str, "track": str, "nodes": int, "samples": int}
    kinds |= dict.fromkeys(tables, dict)
    return all(isinstance(entry.get(name), kind) for name, kind in kinds.items())


def _is_about(printed: PaperNumber, study: StudyResult, run: Mapping[str, Any]) -> bool:
    """Whether a run is what the printed number is about."""
    model, mark, variant = printed.model.partition(":")
    row, point = str(run["row"]), run["point"]
    if row.split("@")[0] != model or row.endswith(FEATURES) or not is_task(printed, run["task"]):
        return False
    if mark:
        names = study.numbers.get("printed_as", {})
        return variant == names.get(point.get("change"))
    knob, mark, value = printed.field.partition("=")
    if mark:
        return point.get("knob") == knob and str(point.get(knob)) == value
    # of what other studies vary, the paper's tables have the window alone
    return set(point) <= {"row", "t_in"} and not _settings(run) and _is_own_data(run)


def _is_own_data(run: Mapping[str, Any]) -> bool:
    return not any(str(name).startswith("data.") for name in run.get("changed", ()))


def _settings(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Changed settings of training and data; those of the model are what a study is about."""
    changed = run.get("changed", {})
    names = [name for name in changed if name.startswith(("train.", "data."))]
    return tuple(f"{name.partition('.')[2]} {changed[name]}" for name in sorted(names))


def _of_runs(printed: PaperNumber, runs: Sequence[Mapping[str, Any]]) -> Array:
    if printed.metric in METRICS:
        tables = [_scores(printed, run.get("scores", {})) for run in runs]
        values = [table.get(METRICS[printed.metric]) for table in tables]
    elif printed.metric == SECONDS:
        values = [_seconds(run) for run in runs]
    else:
        is_printed = printed.metric == PARAMETERS and runs[0]["row"].endswith(AS_PRINTED)
        values = [runs[0]["costs"].get(PARAMETERS)] if is_printed else [None]
    return np.array([] if None in values else values, dtype=float)


def _scores(printed: PaperNumber, fields: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """The scores of the printed field; a table of a knob has only one field, and names the knob."""
    scored = [name for name, own in fields.items() if METRICS[printed.metric] in own]
    name = printed.field if "=" not in printed.field or not scored else scored[0]
    return fields.get(name, {})


def _seconds(run: Mapping[str, Any]) -> float | None:
    seconds, epochs = run.get("costs", {}).get("train_cpu_s"), run.get("epochs")
    return seconds / epochs if seconds is not None and epochs else None


def _named(row: str, point: Mapping[str, Any]) -> str:
    """A row with what its study varied."""
    knob = str(point.get("knob", ""))
    own = [str(point["change"])] if "change" in point else []
    own += [f"{knob} = {point[knob]}"] if knob in point else []
    return " ".join([row, *(f"({word})" for word in own)])


# -------------------------------------------------------------------------------------------- costs

# the paper's name of a cost -> that of a study of costs, which measures processes, not a GPU alone
COSTS = {
    SECONDS: SECONDS,
    "inference_s_per_batch": "inference_s_per_batch",
    "peak_train_gpu_mb": "train_mb",
    "inference_gpu_mb": "inference_mb",
    "geometries": "geometries",
    "eigen_s_per_batch": "eigen_s_per_geometry",
    "eigen_batch": "eigen_batch",
    "eigen_total_s": "eigen_total_s",
    "eigen_overhead_percent": "eigen_overhead_percent",
}


def _of_costs(printed: PaperNumber, studies: Sequence[StudyResult]) -> Iterator[Counterpart]:
    """What a study of costs measured for the same model and task; nearest to the printed mesh."""
    found = []
    for study in studies:
        for entry in study.numbers.get("measured", ()):
            if not isinstance(entry, dict) or not _is_whole(entry, "costs"):
                continue
            value = entry["costs"].get(COSTS.get(printed.metric, ""))
            is_model = entry["row"].split("@")[0] == printed.model
            if isinstance(value, int | float) and is_model and is_task(printed, entry["task"]):
                found.append(
                    Counterpart(
                        row=f"{entry['row']} on {entry.get('device', 'cpu')}",
                        track=entry["track"],
                        nodes=entry["nodes"],
                        samples=entry["samples"],
                        values=np.array([value], dtype=float),
                        study=study.study,
                    )
                )
    nearest = min((_gap(own, printed) for own in found), default=math.inf)
    yield from (own for own in found if _gap(own, printed) == nearest)


def _gap(own: Counterpart, printed: PaperNumber) -> int:
    return abs(own.nodes - (printed.nodes or own.nodes))
