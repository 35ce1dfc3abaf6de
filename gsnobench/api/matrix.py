"""`gb.bench`: the matrix of models, tasks and seeds, run where it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Never

from gsnobench.api.keywords import refuse_unknown
from gsnobench.api.progress import progress_if
from gsnobench.declare import Limits
from gsnobench.errors import DataError
from gsnobench.home import open_home, open_tidy_home
from gsnobench.matrix import matrix
from gsnobench.matrix.executors import SHARED_DISK
from gsnobench.matrix.executors import executor as executor_named
from gsnobench.matrix.matrix import Cell, Choice
from gsnobench.params import words_of
from gsnobench.runs.machine import Report

if TYPE_CHECKING:
    import pandas

Look = Callable[[], Sequence[Cell]]  # all cells as they are now
ShowEnd = Callable[[Cell, int, int], None]  # a finished cell, how many ended, of how many
View = Callable[[Look], AbstractContextManager[ShowEnd]]


def bench(
    models: Sequence[str] | str = (),
    datasets: Sequence[str] | str = (),
    *,
    seeds: Sequence[int] = (0, 1, 2),
    track: str = "laptop",
    t_in: Sequence[int] = (),
    data_seeds: Sequence[int] = (0,),
    only: Sequence[str] = ("missing", "stale"),
    executor: str = "pool",
    jobs: int = 0,
    threads: int = 1,
    device: str = "auto",
    seconds: float = 0.0,
    memory_mb: float = 0.0,
    results: Path | str | None = None,
    home: Path | str | None = None,
    progress: bool | None = None,
    **unknown: Never,
) -> pandas.DataFrame:
    """Run the matrix of models, tasks and seeds; what `gsnobench bench` does.

    Finished cells are never repeated and interrupted ones go on. Returns one line per cell: task,
    row, seed, state (done, failed, diverged, declined, ...), reason and test error.

        models      "gsno" or "gsno@paper"; none: all that are installed
        datasets    "darcy", "swe@1-50" or a NetCDF file; none: the tasks of the boards
        seeds       of the training
        track       budget: "smoke", "laptop", "workstation" or "paper"
        t_in        frames given, of tasks that leave it open
        data_seeds  of generated data
        only        states to run: "missing", "stale", "failed", "diverged"
        executor    what runs the cells: "local", "pool", "ray", "slurm"
        jobs        cells at a time; 0: one per core
        threads     per cell
        device      "auto", "cpu", "cuda" or "cuda:1"
        seconds     most per cell; 0: no limit
        memory_mb   most megabytes per cell; 0: no limit
        results     results in this folder count as done
        home        folder for data, runs and records; None: $GSNOBENCH_HOME or the usual one
        progress    show it; None: in a notebook and in a terminal
    """
    import pandas

    refuse_unknown(bench, unknown)
    choice = Choice(
        models=words_of(models) if isinstance(models, str) else models,
        datasets=words_of(datasets) if isinstance(datasets, str) else datasets,
        seeds=seeds,
        track=track,
        t_in=t_in,
        data_seeds=data_seeds,
    )
    limits = Limits(
        home=open_tidy_home(None if home is None else Path(home)).root,
        device=device,
        jobs=jobs,
        threads=threads,
        seconds=seconds,
        memory_mb=memory_mb,
    )
    evidence = [] if results is None else [Path(results)]
    for folder in evidence:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; expected result files of other runs")
    cells, _ = run_choice(
        choice,
        limits,
        executor=executor,
        only=only,
        evidence=evidence,
        progress=partial(progress_if, progress),
        view=partial(_counted, progress),
    )
    table = pandas.DataFrame([cell.to_dict() for cell in cells])
    return table.rename(columns={"rel_l2": "error"})


def run_choice(
    choice: Choice,
    limits: Limits,
    *,
    executor: str,
    only: Sequence[str],
    evidence: Sequence[Path],
    progress: Callable[[], AbstractContextManager[Report]],
    view: View,
) -> tuple[list[Cell], list[Cell]]:
    """All cells of a choice after those in the states `only` were run, and these alone."""
    home = open_home(limits.home)
    with progress() as report:
        matrix.count_missing(choice, home, limits.device, report)
    cells = [matrix.cell_of(plan, home, evidence) for plan in matrix.matrix(choice, home)]
    chosen = matrix.cheap_first(matrix.chosen(cells, only), home)
    engine = executor_named(executor)
    engine.check(limits)
    matrix.settle(cells, home)
    if executor in SHARED_DISK:
        with progress() as report:
            matrix.make_data(chosen, home, report)

    def look() -> list[Cell]:
        return [matrix.cell_of(cell.plan, home, evidence) for cell in cells]

    ended: list[Cell] = []
    with view(look) as show_end:
        for cell in matrix.run_cells(chosen, engine, limits, home):
            ended.append(cell)
            show_end(cell, len(ended), len(chosen))
    return look(), ended


@contextmanager
def _counted(wanted: bool | None, look: Look) -> Iterator[ShowEnd]:
    """A view of the cells as they end."""
    with progress_if(wanted) as report:
        report.stage("first run of the matrix")

        def show_end(cell: Cell, ended: int, total: int) -> None:
            spec = cell.spec
            name = f"{spec.row} on {cell.column}, seed {spec.seed}"
            report.stage(f"{ended} of {total} runs ended; the last: {name}, {cell.state}")

        yield show_end
