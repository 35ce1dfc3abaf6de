"""The numbers that the GSNO paper prints, as data with their source; shown beside ours."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

CITATION = (
    "Behroozi and Shen, Joint Spatiotemporal Spectral Neural Operators for Learning PDEs on "
    "Irregular Domains"
)


@dataclass(frozen=True)
class PaperNumber:
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
        """The id of our task that it belongs to."""
        return self.dataset if self.t_in is None else f"{self.dataset}@{self.t_in}-{self.t_out}"


@dataclass(frozen=True)
class PaperNumbers:
    """All printed numbers, in the order of the tables."""

    numbers: Sequence[PaperNumber] = ()

    def scores(self, task: str) -> Mapping[str, float]:
        """Model -> mean over fields of the printed relative L2 (of raw fields) on a task."""
        fields: dict[str, dict[str, float]] = defaultdict(dict)
        dataset = task.split("@")[0]
        for number in self.numbers:
            is_of_task = number.task == task or (number.t_in is None and number.dataset == dataset)
            is_of_field = number.field and "=" not in number.field
            if is_of_task and is_of_field and number.metric == "rel_l2":
                fields[number.model].setdefault(number.field, number.value)
        return {model: sum(values.values()) / len(values) for model, values in fields.items()}


def read_paper() -> PaperNumbers:
    """Read the file that is shipped with the package."""
    text = (files("gsnobench.boards.reproduction") / "paper.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return PaperNumbers(tuple(_number(cells) for cells in csv.DictReader(lines)))


def _number(cells: Mapping[str, str]) -> PaperNumber:
    whole = {
        name: int(cells[name]) if cells[name] else None for name in ("t_in", "t_out", "n_nodes")
    }
    words = {name: cells[name] for name in ("table", "dataset", "model", "field", "metric")}
    return PaperNumber(
        t_in=whole["t_in"],
        t_out=whole["t_out"],
        nodes=whole["n_nodes"],
        value=float(cells["value"]),
        **words,
    )
