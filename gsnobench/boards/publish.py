"""Boards -> MLflow: one overview, one run LEADERBOARD per board, one summary run per row.

MLflow's own pages then compare models. Every run has a tag with the digest of all it shows, written
last: publishing again skips what is whole and current, replaces what has changed, and mends what a
kill left half-written. MLflow deletes no parameter or metric, hence new runs for changed rows.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gsnobench.boards import markdown, wording
from gsnobench.boards.board import COSTS, Board, BoardTrack, Row, safe_name
from gsnobench.boards.plots.standing import all_figures
from gsnobench.boards.site.index_page import index_page
from gsnobench.boards.site.surroundings import Surroundings
from gsnobench.boards.site.task_page import task_page
from gsnobench.boards.tables import flat_rows, to_json
from gsnobench.errors import RunError
from gsnobench.files import digest, lock
from gsnobench.tracking.address import Address, bounded_requests
from gsnobench.tracking.mirror import StoredRun, client_of, experiment_id
from gsnobench.tracking.spool import TEXT, Point, beginning

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

KIND = "gsnobench.kind"
DIGEST = "gsnobench.digest"
NAME = "★ LEADERBOARD"
OVERVIEW, OVERVIEW_NAME, OVERVIEW_PAGE = "gsnobench/overview", "★ OVERVIEW", "overview.html"
NOTE = "mlflow.note.content"
PAGE = "leaderboard.html"
# a view of MLflow's table of runs that an address names: the rows of the board, best first
VIEW = "board"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
VIEW_STATE = {
    "searchFilter": f"tags.`{KIND}` = 'summary'",
    "orderByKey": "metrics.`board/error`",
    "orderByAsc": True,
    "selectedColumns": [
        "tags.`place`",
        "tags.`ties`",
        "metrics.`board/error`",
        "metrics.`test/headline/rel_l2_low`",
        "metrics.`test/headline/rel_l2_high`",
        "tags.`seeds`",
        "metrics.`cost/train_cpu_s`",
    ],
}
STORES = ("mlflow", "sqlalchemy")  # packages whose errors mean that the store is silent
TOP = 20  # rows of the table in the description
KNOBS = ("model.", "train.", "steps.")  # what can make two rows differ
SOURCES = ("*.py", "*.css", "*.js")

Files = Iterator[tuple[str, str]]  # name and text


@dataclass(frozen=True)
class StoredBoard:
    """A board as the store holds it."""

    experiment: str
    experiment_id: str
    run_id: str  # of its LEADERBOARD
    written: int  # runs made by this call
    removed: int


@dataclass(frozen=True)
class RowSummary:
    """All that the summary run of a row shows."""

    name: str
    state: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, float]

    @property
    def digest(self) -> str:
        tables = [dict(self.tags), dict(self.params), dict(self.metrics)]
        return digest([self.name, self.state, *tables])


def publish(
    tracks: Sequence[BoardTrack],
    address: Address,
    report: Callable[[StoredBoard], None] = lambda stored: None,
    around: Surroundings | None = None,
) -> list[StoredBoard]:
    """Bring all boards into a store, the overview first; doing it twice changes nothing.

    Returns the boards; `report` is also told of the overview. Raises RunError if the store is
    silent.
    """
    around = around or Surroundings()
    done: list[StoredBoard] = []
    with bounded_requests(), lock(address.home / f".publish-{address.id}.lock"):
        try:
            client = client_of(address)
            if tracks:
                report(_publish_overview(client, address, tracks, around))
            for track in tracks:
                for board in track.boards:
                    done.append(_publish(client, address, track, board, around))
                    report(done[-1])
            if tracks:
                _describe_overview(client, address, done)
        except Exception as error:
            package = type(error).__module__.partition(".")[0]
            if package not in STORES and not isinstance(error, OSError):
                raise  # a bug of our own
            raise RunError(
                f"{address.label}: cannot take the leaderboards ({address.error_line(error)}); "
                "mend it and publish again"
            ) from error
    return done


def _publish(
    client: MlflowClient,
    address: Address,
    track: BoardTrack,
    board: Board,
    around: Surroundings,
) -> StoredBoard:
    # the name that training runs have for ordinary tasks; slugs keep boards apart that must not
    # share a table
    name = f"gsnobench/{safe_name(board.track)}/{board.slug}"
    experiment = experiment_id(client, address, name)
    before = list(_runs(client, experiment))
    whole = {
        run.data.tags.get(DIGEST): str(run.info.run_id)
        for run in before
        if run.info.status != "RUNNING"
    }
    now = int(time.time() * 1000)
    kept: list[str] = []  # one run per row
    written = 0
    for line, row in enumerate(board.rows):
        summary = _summary(row)
        known = whole.get(summary.digest)
        # MLflow lists the newest run first: one millisecond per row keeps the order of the board
        kept.append(known or _write_row(client, experiment, summary, now - 1 - line))
        written += known is None
    facts = around.about.to_json() if around.task(board) else ""
    content = digest([flat_rows([replace(track, boards=(board,))]), kept, _appearance(), facts])
    leader = whole.get(content)
    if leader is None:
        note, pages = _note(board, experiment, kept), _files(track, board, around)
        run = _write_leader(client, experiment, board, note=note, files=pages, when=now)
        run.set_state("done", now, {DIGEST: content})
        leader = run.id
        written += 1
    _describe(client, experiment, board, leader)
    old = [run.info.run_id for run in before if run.info.run_id not in {*kept, leader}]
    for run_id in old:  # last: until then a reader finds the board as it was
        client.delete_run(run_id)
    return StoredBoard(name, experiment, leader, written, len(old))


def _publish_overview(
    client: MlflowClient, address: Address, tracks: Sequence[BoardTrack], around: Surroundings
) -> StoredBoard:
    """The index of the site as the artefact of one run, in an experiment of its own."""
    experiment = experiment_id(client, address, OVERVIEW)
    before = list(_runs(client, experiment))
    page = index_page(tracks, around, is_alone=True)
    content = digest(page)
    whole = [run for run in before if run.data.tags.get(DIGEST) == content]
    kept = next((str(run.info.run_id) for run in whole if run.info.status != "RUNNING"), None)
    if kept is None:
        now = int(time.time() * 1000)
        run = _new_run(client, experiment, OVERVIEW_NAME, {KIND: "overview"}, now)
        client.log_text(run.id, page, OVERVIEW_PAGE)
        run.set_state("done", now, {DIGEST: content})
        leader, written = run.id, 1
    else:
        leader, written = kept, 0
    old = [run.info.run_id for run in before if run.info.run_id != leader]
    for run_id in old:
        client.delete_run(run_id)
    return StoredBoard(OVERVIEW, experiment, leader, written, len(old))


def _describe_overview(
    client: MlflowClient, address: Address, boards: Sequence[StoredBoard]
) -> None:
    """Links to all boards, since links inside MLflow's frame do not work."""
    experiment = experiment_id(client, address, OVERVIEW)
    links = [
        f"- [{markdown.plain(board.experiment.removeprefix('gsnobench/'))}]"
        f"(#/experiments/{board.experiment_id}/runs/{board.run_id}/artifacts/{PAGE})"
        for board in boards
    ]
    text = "\n".join(["All leaderboards, one per task:", "", *links])
    if client.get_experiment(experiment).tags.get(NOTE) != text:
        client.set_experiment_tag(experiment, NOTE, text)


def _runs(client: MlflowClient, experiment: str) -> Iterator[Run]:
    """All runs of an experiment that publishing has made."""
    token, query = None, f"tags.`{KIND}` LIKE '%'"
    while token != "":
        page = client.search_runs([experiment], query, max_results=1000, page_token=token)
        yield from page
        token = page.token or ""


# ---------------------------------------------------------------------------------------- summaries


def _summary(row: Row) -> RowSummary:
    spec = row.entries[0].spec
    tags = {
        KIND: "summary",
        "gsnobench.row": row.name,
        "row": row.name,
        "model": spec.model,
        "preset": spec.preset,
        "task": spec.task,
        "track": spec.track,
        "place": wording.place(row),
        "ties": wording.ties(row),
        "places": wording.places(row),
        "marks": ", ".join(mark.name for mark in row.marks),
        "settings": row.settings,
        "seeds": wording.seeds(row),
        "state": row.state,
        "reason": row.reason,
        "needs": row.needs,
        "floor": str(row.is_floor).lower(),
        "variant": str(row.is_variant).lower(),
        "keys": " ".join(entry.spec.short for entry in row.entries),
    }
    params = beginning(spec, Path(), {})["params"].items()
    knobs = {safe_name(knob): value for knob, value in params if knob.startswith(KNOBS)}
    short = {name: value[:TEXT] for name, value in tags.items() if value}
    return RowSummary(row.name[:TEXT], row.state, short, knobs, _metrics(row))


def _metrics(row: Row) -> dict[str, float]:
    """Named as training runs name them, so that one chart shows both."""
    low, high = row.interval or (math.nan, math.nan)
    values = {
        # the headline again: MLflow draws its sections by name, and this one comes first
        "board/error": row.error,
        "board/error_percent": 100 * row.error,  # charts print two decimals
        "board/place": row.rank.place if row.rank else math.nan,
        "test/headline/rel_l2": row.error,
        "test/headline/rel_l2_low": low,
        "test/headline/rel_l2_high": high,
        "test/headline/rel_l2_raw": row.raw,
        "test/headline/rel_l2_95": row.tail,
        "test/headline/rel_l2_worst": row.worst,
        "test_ood/headline/rel_l2": row.ood_error,
        "test_ood/headline/rel_l2_median": row.ood_median,
        "cost/steps": row.steps,
        "cost/epochs": row.ending.epochs if row.ending else math.nan,
        "cost/normalised_cpu_s": row.normalised_cpu_s,
    }
    values |= {f"cost/{name}": row.cost(name) for name in COSTS}
    names = {
        (field, metric)
        for entry in row.done
        for field in entry.fields
        for metric in entry.scores.get(field, {})
    }
    for field, metric in sorted({*names, *row.metrics}):
        values[f"test/{safe_name(field)}/{safe_name(metric)}"] = row.score(field, metric)
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}


def _write_row(client: MlflowClient, experiment: str, summary: RowSummary, when: int) -> str:
    run = _new_run(client, experiment, summary.name, summary.tags, when)
    run.log_params(summary.params)
    run.log_points([Point(name, 0, value, when) for name, value in summary.metrics.items()])
    run.set_state(summary.state, when, {DIGEST: summary.digest})
    return run.id


def _new_run(
    client: MlflowClient, experiment: str, name: str, tags: Mapping[str, str], when: int
) -> StoredRun:
    tags = {**tags, "mlflow.source.name": "gsnobench leaderboard publish"}
    run = client.create_run(experiment, start_time=when, tags=tags, run_name=name)
    return StoredRun(client, run.info.run_id, set())


# -------------------------------------------------------------------------------------- LEADERBOARD


def _write_leader(
    client: MlflowClient, experiment: str, board: Board, *, note: str, files: Files, when: int
) -> StoredRun:
    """The run LEADERBOARD with its page and figures; without a digest it is not yet whole."""
    tags = {KIND: "leaderboard", "task": board.task[:TEXT], "track": board.track[:TEXT]}
    run = _new_run(client, experiment, NAME, {**tags, NOTE: note}, when)
    with TemporaryDirectory() as folder:
        for name, text in files:
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        client.log_artifacts(run.id, folder)
    return run


def _files(track: BoardTrack, board: Board, around: Surroundings) -> Files:
    figures = all_figures(board)
    yield PAGE, task_page(track, board, figures, around=around)
    yield "leaderboard.json", to_json([replace(track, boards=(board,))])
    for figure in figures:
        yield f"figures/{safe_name(figure.name)}.svg", figure.svg


def _note(board: Board, experiment: str, runs: Sequence[str]) -> str:
    """The first rows, each with a link to its summary run: MLflow's frame has no working links."""
    pairs = zip(board.rows, runs, strict=True)
    rows = [(row, run) for row, run in pairs if not row.is_variant]
    lines: list[list[str]] = []
    for row, run in rows[:TOP]:
        link = f"[{markdown.plain(row.name)}](#/experiments/{experiment}/runs/{run})"
        numbers = [wording.error(row), wording.spread(row.interval), wording.seeds(row)]
        lines.append([wording.place(row), wording.ties(row), link, *numbers])
    counts = {"further rows": len(rows) - TOP, "variants, not ranked": len(board.variants)}
    left_out = [f"{count} {what}" for what, count in counts.items() if count > 0]
    parts = [
        f"**{markdown.plain(board.title)}**",
        markdown.plain(wording.promotion(board)),
        markdown.table(["place", "ties", "row", "error", "95 % over seeds", "seeds"], lines, 3),
        f"In {PAGE}: {', '.join(left_out)}." if left_out else "",
        wording.HOW_TO_READ,
    ]
    return "\n\n".join(part for part in parts if part)


def _describe(client: MlflowClient, experiment: str, board: Board, leader: str) -> None:
    """The experiment's description leads to the board and to its rows; written if it changes."""
    runs = f"#/experiments/{experiment}/runs"
    links = (
        f"[leaderboard]({runs}/{leader}/artifacts/{PAGE}), [rows]({runs}?viewStateShareKey={VIEW})"
    )
    text = f"Results on {markdown.plain(board.title)}: {links}"
    known = client.get_experiment(experiment).tags
    for name, value in {NOTE: text, VIEW_TAG: json.dumps(VIEW_STATE)}.items():
        if known.get(name) != value:
            client.set_experiment_tag(experiment, name, value)


def _appearance() -> str:
    """Changes with the code of this room, so that an edited style reaches stores."""
    room = Path(__file__).parent
    paths = [path for pattern in SOURCES for path in sorted(room.rglob(pattern))]
    return digest([path.read_text(encoding="utf-8") for path in paths])
