"""Printed numbers that follow from numbers listed elsewhere: the arithmetic, both addresses."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from importlib.resources import files

from gsnobench.boards.markdown import plain, table
from gsnobench.boards.reproduction.paper import PaperNumber, PaperNumbers

HEADER = (
    "task",
    "model",
    "listed mean square",
    "its root",
    "printed RMSE",
    "equal",
    "listed also as",
)
TEXT = """\
An earlier public list (https://github.com/AMBehroozi/GSNO_anonymous, README.md at 13e0ae40, tables
1 and 2) has mean squared test errors of the same models on {tasks}. {equal} of its {all} square
roots are the printed RMSE to every printed digit. Some of the listed numbers also stand in the
paper that the list names as its source (Li et al. 2023, https://arxiv.org/abs/2207.05209), there as
relative L2 errors. Which of these quantities a printed
number is decides what it can be compared with."""


def related(paper: PaperNumbers) -> str:
    """The section of the ledger."""
    lines = list(_lines(paper))
    equal = sum(line[5] == "yes" for line in lines)
    tasks = " and ".join(dict.fromkeys(line[0] for line in lines))
    text = TEXT.format(equal=equal, all=len(lines), tasks=tasks)
    return f"{text}\n\n{table(HEADER, lines, words=2)}"


def _lines(paper: PaperNumbers) -> Iterator[list[str]]:
    text = (files(__package__) / "related.csv").read_text(encoding="utf-8")
    entries = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    for entry in entries:
        printed = _printed(paper, entry["dataset"], entry["model"])
        root = math.sqrt(float(entry["listed"]))
        digits = max(0, 2 - math.floor(math.log10(printed.value)))  # three, as printed
        is_equal = f"{root:.{digits}f}" == f"{printed.value:.{digits}f}"
        numbers = [entry["listed"], f"{root:.{digits + 1}f}", f"{printed.value:g}"]
        names = [plain(entry["dataset"]), plain(entry["model"])]
        yield [*names, *numbers, "yes" if is_equal else "no", plain(entry["also"])]


def _printed(paper: PaperNumbers, dataset: str, model: str) -> PaperNumber:
    wanted = (dataset, model, "rmse")
    return next(
        number
        for number in paper.numbers
        if (number.dataset, number.model, number.metric) == wanted
    )
