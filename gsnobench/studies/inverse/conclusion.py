"""From the numbers of all posteriors to tables, one sentence and a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from gsnobench.data import Mesh
from gsnobench.studies.base import Findings, Row, Table
from gsnobench.studies.inverse.diagnostics import LARGEST_RHAT, SMALLEST_ESS
from gsnobench.studies.inverse.figure import draw
from gsnobench.studies.inverse.inversion import FROM_TRUTH, PAPER, REPAIRED, SOLVER

LEVELS = (0.5, 0.8, 0.95)
BAND = 0.99  # of the binomial law that a coverage is compared with


@dataclass(frozen=True, eq=False)
class Setting:
    """What was asked."""

    title: str
    mesh: Mesh
    samplers: Sequence[str]


@dataclass(frozen=True)
class Verdict:
    """One sampler through one row, over all problems and seeds."""

    row: str
    sampler: str
    problems: int
    mixed: int  # problems whose diagnostics are met
    accepted: float
    rhat: float  # the worst
    bulk: float  # the worst
    tail: float  # the worst
    per_s: float  # effective draws per CPU-second
    error: float  # of the posterior mean of the input
    covered: int  # of all coefficients by their 95 % interval
    judged: int
    negative: float
    offset: float | None  # of the means, in deviations of the reference
    spread: float | None  # deviations over those of the reference

    @property
    def is_sound(self) -> bool:
        return self.mixed == self.problems

    @property
    def word(self) -> str:
        return "mixed" if self.is_sound else f"refused, {self.mixed} of {self.problems} mixed"


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Every sampler of every row, in the order they ran."""
    table = []
    for row in rows:
        cases = [case for run in row.done for case in run.extra["cases"]]
        for sampler in dict.fromkeys(case["sampler"] for case in cases):
            own = [case for case in cases if case["sampler"] == sampler]
            table.append(_verdict(str(row.point["row"]), sampler, own))
    return table


def _verdict(row: str, sampler: str, cases: Sequence[Mapping[str, Any]]) -> Verdict:
    def mean(name: str) -> float:
        return float(np.mean([case[name] for case in cases]))

    ranks = [share for case in cases for share in case["fractions"]]
    compared = [case for case in cases if "offset" in case]
    return Verdict(
        row=row,
        sampler=sampler,
        problems=len(cases),
        mixed=sum(case["is_met"] for case in cases),
        accepted=mean("accepted"),
        rhat=max(case["rhat"] for case in cases),
        bulk=min(case["bulk"] for case in cases),
        tail=min(case["tail"] for case in cases),
        per_s=sum(case["bulk"] for case in cases) / sum(case["cpu_s"] for case in cases),
        error=mean("error"),
        covered=inside(ranks, LEVELS[-1]),
        judged=len(ranks),
        negative=mean("negative"),
        offset=float(np.mean([case["offset"] for case in compared])) if compared else None,
        spread=float(np.mean([case["spread"] for case in compared])) if compared else None,
    )


def inside(ranks: Sequence[float], level: float) -> int:
    """How many truths lie in the central interval of this level."""
    return sum(abs(2.0 * share - 1.0) <= level for share in ranks)


def conclude(setting: Setting, rows: Sequence[Row]) -> Findings:
    """A pure function of the rows."""
    table, title = verdicts(rows), setting.title
    calibration = _calibration(rows)
    tables = [_mixing_table(title, table), _posterior_table(title, table)]
    tables += [_calibration_table(title, calibration)] if calibration else []
    return Findings(
        sentence=_sentence(table),
        tables=tables,
        numbers={
            "limits": {"rhat": LARGEST_RHAT, "ess": SMALLEST_ESS},
            "verdicts": [{**asdict(own), "verdict": own.word} for own in table],
            "calibration": calibration,
        },
        draw=partial(draw, title, setting.mesh, _pictures(rows), _shares(rows, calibration)),
    )


def _calibration(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Row and sampler -> coverage of the levels on problems from the prior."""
    table = {}
    for row in rows:
        for run in row.done:
            for label, problems in run.extra["calibration"].items():
                ranks = [share for problem in problems for share in problem]
                counts = {f"{level:g}": inside(ranks, level) for level in LEVELS}
                name = f"{row.point['row']}, {label}, seed {run.seed}"
                table[name] = {"problems": len(problems), "judged": len(ranks), "inside": counts}
    return table


def _pictures(rows: Sequence[Row]) -> Mapping[str, Any]:
    return next((run.extra["pictures"] for row in rows for run in row.done), {})


def _shares(rows: Sequence[Row], calibration: Mapping[str, Any]) -> dict[str, list[float]]:
    """Sampler -> ranks of all truths, of the first run; those of the calibration where it was."""
    run = next((run for row in rows for run in row.done), None)
    if run is None:
        return {}
    shares: dict[str, list[float]] = {}
    for case in run.extra["cases"]:
        shares.setdefault(case["sampler"], []).extend(case["fractions"])
    for label, problems in run.extra["calibration"].items():
        shares[label] = [share for problem in problems for share in problem]
    return shares


# -------------------------------------------------------------------------------------------- words


def _mixing_table(title: str, table: Sequence[Verdict]) -> Table:
    lines = [
        [own.row, own.sampler, f"{own.accepted:.2f}", f"{own.rhat:.3f}", f"{own.bulk:.0f}"]
        + [f"{own.tail:.0f}", f"{own.per_s:.3g}", own.word]
        for own in table
    ]
    header = ["row", "sampler", "accepted", "R-hat", "bulk ESS", "tail ESS", "ESS per CPU-s"]
    return Table(f"{title}: have chains mixed (worst of all)", [*header, "verdict"], lines)


def _posterior_table(title: str, table: Sequence[Verdict]) -> Table:
    def text(number: float | None) -> str:
        return "-" if number is None else f"{number:.3g}"

    lines = [
        [own.row, own.sampler + ("" if own.is_sound else " (refused)"), f"{own.error:.3g}"]
        + [covered_text(own.covered, own.judged, LEVELS[-1]), text(own.offset), text(own.spread)]
        + [f"{100 * own.negative:.2g} %"]
        for own in table
    ]
    header = ["row", "sampler", "error of the mean", "in 95 % intervals (99 % band)"]
    header += ["from the solver's mean, in its deviations", "deviation over the solver's"]
    return Table(f"{title}: posteriors", [*header, "negative input"], lines)


def covered_text(count: int, judged: int, level: float) -> str:
    """`0.93 (0.90 to 0.99)`: the share, and the band of a right posterior."""
    low, high = stats.binom.interval(BAND, judged, level)
    return f"{count / judged:.2f} ({low / judged:.2f} to {high / judged:.2f})"


def _calibration_table(title: str, calibration: Mapping[str, Mapping[str, Any]]) -> Table:
    lines = [
        [name, str(own["problems"])]
        + [covered_text(own["inside"][f"{level:g}"], own["judged"], level) for level in LEVELS]
        for name, own in calibration.items()
    ]
    levels = [f"in {100 * level:g} % intervals" for level in LEVELS]
    return Table(f"{title}: calibration", ["posterior", "problems", *levels], lines)


def _sentence(table: Sequence[Verdict]) -> str:
    rows = list(dict.fromkeys(own.row for own in table))
    return " ".join(_of_row(row, [own for own in table if own.row == row]) for row in rows)


def _of_row(row: str, table: Sequence[Verdict]) -> str:
    own = [verdict for verdict in table if verdict.sampler != SOLVER]
    sound = [verdict for verdict in own if verdict.is_sound]
    refused = [verdict.sampler for verdict in own if not verdict.is_sound]
    words = [f"{row}: {_names([v.sampler for v in sound]) or 'no sampler'} mixed"]
    if refused:
        words.append(f"{_names(refused)} did not, so nothing follows from them")
    apart = [v for v in sound if v.offset is not None and not v.sampler.endswith(REPAIRED)]
    if apart:
        worst = max(apart, key=lambda verdict: verdict.offset or 0.0)
        words.append(
            f"means are up to {worst.offset:.2g} deviations from those of the solver "
            f"({worst.sampler})"
        )
    start = {v.sampler: v.error for v in own if v.sampler in (PAPER, FROM_TRUTH)}
    if len(start) == 2 and not math.isnan(start[PAPER]):
        words.append(
            f"the mean of the printed sampler has an error of {start[PAPER]:.2g} if it starts at "
            f"its prior and of {start[FROM_TRUTH]:.2g} if it starts at the truth"
        )
    return "; ".join(words) + "."


def _names(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
