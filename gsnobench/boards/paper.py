"""Scores that the GSNO paper printed, as data with their source: a column beside ours, never a
target.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

CITATION = "Behroozi and Shen, Joint Spatiotemporal Spectral Neural Operators for Learning PDEs on Irregular Domains"


@dataclass(frozen=True)
class Number:
    """One printed number."""

    table: str
    dataset: str
    t_in: int | None
    t_out: int | None
    nodes: int | None
    model: str
    field: str
    metric: str
    value: float

    @property
    def task(self) -> str:
        """The id of our task that asks the same."""
        return self.dataset if self.t_in is None else f"{self.dataset}@{self.t_in}-{self.t_out}"


@dataclass(frozen=True)
class Published:
    """All printed numbers, in the order of the tables."""

    numbers: Sequence[Number] = ()

    def scores(self, task: str) -> Mapping[str, float]:
        """Model -> mean over fields of the printed relative L2 (of raw fields) on a task."""
        fields: dict[str, dict[str, float]] = defaultdict(dict)
        dataset = task.split("@")[0]
        for one in self.numbers:
            is_asked = one.task == task or (one.t_in is None and one.dataset == dataset)
            if is_asked and one.metric == "rel_l2" and one.field and "=" not in one.field:
                fields[one.model].setdefault(one.field, one.value)
        return {model: sum(values.values()) / len(values) for model, values in fields.items()}


def read_published() -> Published:
    """The file shipped with the package."""
    text = (files("gsnobench.boards") / "paper.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return Published(tuple(_number(row) for row in csv.DictReader(lines)))


def _number(row: Mapping[str, str]) -> Number:
    whole = {name: int(row[name]) if row[name] else None for name in ("t_in", "t_out", "n_nodes")}
    texts = {name: row[name] for name in ("table", "dataset", "model", "field", "metric")}
    return Number(
        t_in=whole["t_in"],
        t_out=whole["t_out"],
        nodes=whole["n_nodes"],
        value=float(row["value"]),
        **texts,
    )
