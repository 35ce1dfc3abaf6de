"""A study: labelled plans -> cells -> rows over seeds -> tables, a figure and one sentence.

Its runs are ordinary runs. What is done is never repeated, so that a study which was killed goes on
where it stopped and ends in the same tables.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

from gsnobench.boards.convergence import ending_of
from gsnobench.declare import Executor, Limits
from gsnobench.errors import RunError
from gsnobench.files import write_csv, write_text
from gsnobench.home import Home
from gsnobench.matrix.executors import SHARED_DISK
from gsnobench.matrix.matrix import Cell, cell_of, cheap_first, make_data, run_cells
from gsnobench.params import Value
from gsnobench.records import plain
from gsnobench.runs.machine import Machine, Report, choose_device
from gsnobench.runs.plan import Plan
from gsnobench.runs.trained import Trained, load
from gsnobench.studies.catalogue import STUDIES

SPLITS = ("test", "valid", "test_ood")
COSTS = ("parameters", "train_cpu_s")
COLUMNS = ("row", "task", "nodes", "samples", "seed", "steps")  # of every table
RUNNABLE = ("missing", "stale", "failed")
Live = Callable[
    [Callable[[], Sequence[Cell]]], AbstractContextManager[Callable[[Cell, int, int], None]]
]


@dataclass(frozen=True, eq=False)
class Engine:
    """Where the runs of a study happen, and who sees them."""

    home: Home
    executor: Executor
    limits: Limits
    report: Report
    live: Live
    is_dry: bool = False  # nothing is computed: only what would run is asked

    @property
    def machine(self) -> Machine:
        """For what a study computes itself: counts of steps, predictions of trained runs."""
        return Machine(self.home, choose_device("cpu"), report=self.report)


@dataclass(frozen=True, eq=False)
class Arm:
    """A labelled plan, one per seed."""

    point: Mapping[str, Value]  # what sets it apart from the other arms: columns of the table
    plans: tuple[Plan, ...]

    @property
    def label(self) -> str:
        """As a line of progress shows it behind the row."""
        own = {name: value for name, value in self.point.items() if name not in ("row", "task")}
        return ", ".join(f"{name} {value}" for name, value in own.items())


@dataclass(frozen=True)
class Measured:
    """One run of a study, as far as its tables and figures need it."""

    point: Mapping[str, Value]
    row: str
    task: str
    nodes: int
    samples: int  # of the training split
    seed: int
    steps: int
    key: str
    state: str
    reason: str = ""
    changed: Mapping[str, Any] = field(default_factory=dict)
    track: str = ""
    epochs: float | None = None  # None for a closed form
    errors: Mapping[str, float] = field(default_factory=dict)  # split -> headline
    # field -> metric, on the test split: what the reproduction ledger compares with a paper
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    by_sample: Sequence[float] = ()  # headline of each test sample
    costs: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)  # what the study measured itself
    data: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.state == "done"


@dataclass(frozen=True)
class Row:
    """One point of a study with the runs of its seeds."""

    point: Mapping[str, Value]
    runs: tuple[Measured, ...]

    @property
    def done(self) -> list[Measured]:
        return [run for run in self.runs if run.is_done]

    @property
    def states(self) -> str:
        """`3 seeds`, or what became of those that have no error."""
        lost = sorted({run.state for run in self.runs if not run.is_done})
        return ", ".join([str(len(self.done)), *lost])

    def by_seed(self, split: str = "test") -> dict[int, float]:
        """Headline errors of the finished runs by seed."""
        return {run.seed: run.errors[split] for run in self.done if split in run.errors}

    def errors(self, split: str = "test") -> list[float]:
        return list(self.by_seed(split).values())

    def cost(self, name: str) -> float | None:
        """Mean over the finished runs."""
        values = [run.costs[name] for run in self.done if name in run.costs]
        return mean(values) if values else None


@dataclass(frozen=True)
class Table:
    """A table as people read it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class Findings:
    """What a study found: a pure function of its rows."""

    sentence: str
    tables: Sequence[Table]
    numbers: Mapping[str, Any]  # what the tables are made from
    draw: Callable[[Path], None]  # writes the figure
    # header and lines of table.csv, where they are not about runs
    lines: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None


@dataclass(frozen=True, eq=False)
class Study:
    """A question: its runs, and how their rows become an answer."""

    name: str
    subject: str  # name of its folder: what was studied
    title: str
    budget: str  # in words: what the runs of a row share
    arms: tuple[Arm, ...]
    conclude: Callable[[Sequence[Row]], Findings]
    # measures a finished run beyond its result; None: the result is enough
    examine: Callable[[Trained], Mapping[str, Any]] | None = None
    command: str = ""  # what a person typed

    def plans(self) -> Iterator[tuple[Arm, Plan]]:
        return ((arm, plan) for arm in self.arms for plan in arm.plans)


@dataclass(frozen=True, eq=False)
class Finished:
    """A study after its runs."""

    study: Study
    rows: tuple[Row, ...]
    findings: Findings

    @property
    def is_done(self) -> bool:
        """Whether every run has ended; one that diverged or was declined has."""
        ended = ("done", "diverged", "declined")
        return all(run.state in ended for row in self.rows for run in row.runs)

    def to_dict(self) -> dict[str, Any]:
        """All that the tables, the figure and the sentence are made from."""
        study, findings = self.study, self.findings
        return {
            "study": study.name,
            "question": inspect.getdoc(STUDIES[study.name]),
            "printed": STUDIES[study.name].printed,
            "subject": study.subject,
            "title": study.title,
            "command": study.command,
            "budget": study.budget,
            "sentence": findings.sentence,
            "tables": [asdict(table) for table in findings.tables],
            "numbers": findings.numbers,
            "runs": [asdict(run) for row in self.rows for run in row.runs],
        }

    def write(self, root: Path) -> Path:
        """Write table, JSON and figure below a folder of studies; returns their folder."""
        folder = root / self.study.name / self.study.subject
        write_csv(folder / "table.csv", *(self.findings.lines or self._lines()))
        document = json.dumps(plain(self.to_dict()), indent=1)
        write_text(folder / "result.json", document + "\n")
        self.findings.draw(folder / "figures" / f"{self.study.name}.png")
        return folder

    def _lines(self) -> tuple[list[str], list[list[Any]]]:
        """One line per run."""
        runs = [run for row in self.rows for run in row.runs]
        points = dict.fromkeys(name for run in runs for name in run.point)
        names = [name for name in points if name not in COLUMNS]
        header = [*names, *COLUMNS, *SPLITS, *COSTS, "state", "key"]
        return header, [_line(run, names) for run in runs]


def _line(run: Measured, names: Sequence[str]) -> list[Any]:
    own = [run.point.get(name, "") for name in names]
    sizes = [getattr(run, name) for name in COLUMNS]
    errors = [run.errors.get(split, "") for split in SPLITS]
    return [*own, *sizes, *errors, *(run.costs.get(cost, "") for cost in COSTS), run.state, run.key]


# ---------------------------------------------------------------------------------------------- run


def run_study(study: Study, engine: Engine) -> Finished:
    """Run what is missing, then draw conclusions."""
    _run_missing(study, engine)
    rows = tuple(
        Row(arm.point, tuple(_measured(arm, plan, study, engine) for plan in arm.plans))
        for arm in study.arms
    )
    return Finished(study, rows, study.conclude(rows))


def missing_cells(study: Study, home: Home) -> list[Cell]:
    """What would run, in its order; arms can share a run."""
    plans = {plan.spec.key: plan for _, plan in study.plans()}
    cells = [cell_of(plan, home) for plan in plans.values()]
    return cheap_first((cell for cell in cells if _is_missing(cell, study, home)), home)


def _run_missing(study: Study, engine: Engine) -> None:
    home = engine.home
    labels = {plan.spec.key: arm.label for arm, plan in study.plans()}  # one run, one label
    plans = {plan.spec.key: plan for _, plan in study.plans()}
    missing = missing_cells(study, home)
    if engine.executor.name in SHARED_DISK:
        make_data(missing, home, engine.report)
    ended = run_cells(missing, engine.executor, engine.limits, home)
    with engine.live(lambda: [cell_of(plan, home) for plan in plans.values()]) as show:
        for number, cell in enumerate(ended, 1):
            show(replace(cell, label=labels[cell.spec.key]), number, len(missing))


def _is_missing(cell: Cell, study: Study, home: Home) -> bool:
    """Also a finished run whose weights the study needs, if only its evidence is here."""
    has_weights = home.run_folder(cell.spec.key).weights.exists()
    needs_weights = study.examine is not None and cell.state == "done" and not has_weights
    return cell.state in RUNNABLE or needs_weights


def _measured(arm: Arm, plan: Plan, study: Study, engine: Engine) -> Measured:
    cell, spec = cell_of(plan, engine.home), plan.spec
    run = Measured(
        point=dict(arm.point),
        row=spec.row,
        task=spec.task,
        nodes=spec.resolution,
        samples=spec.sizes["train"],
        seed=spec.seed,
        steps=sum(spec.steps.values()),
        key=spec.short,
        state=cell.state,
        reason=cell.reason,
        changed=plan.changed,
        track=spec.track,
    )
    result = cell.result
    if cell.state != "done" or result is None:
        return run
    tables = result.samples["test"].values()
    columns = zip(*(table["rel_l2"] for table in tables), strict=True)
    scores = {split: result.scores[split] for split in SPLITS if split in result.scores}
    ending = ending_of(result.curve, spec.steps)
    return replace(
        run,
        epochs=None if ending is None else ending.epochs,
        scores=result.scores["test"],
        errors={split: score["headline"]["rel_l2"] for split, score in scores.items()},
        by_sample=[mean(fields) for fields in columns],
        costs={name: result.costs[name] for name in sorted(result.costs)},
        extra={} if study.examine is None else study.examine(_trained(plan, engine)),
        data=dict(result.data),
        code=dict(result.code),
    )


def _trained(plan: Plan, engine: Engine) -> Trained:
    folder = engine.home.run_folder(plan.spec.key)
    if not folder.weights.exists():
        raise RunError(
            f"{plan.spec.row}: the weights of {plan.spec.short} are not in this home, and the "
            "study needs them; run it with --executor pool"
        )
    return load(folder.path, home=engine.home.root, device="cpu")
