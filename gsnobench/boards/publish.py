"""Boards -> MLflow: one summary run a row and one run LEADERBOARD a board, so that MLflow's own
pages compare models.

Every run bears the digest of all it shows, written last: publishing again skips what is whole and
current, replaces what has changed, and mends what a kill left half-written. MLflow takes no
parameter or metric back, hence new runs for changed rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gsnobench.boards import markdown
from gsnobench.boards import wording as texts
from gsnobench.boards.board import COSTS, Board, Row, Track, safe_name
from gsnobench.boards.plots.task import board_figures
from gsnobench.boards.site.task_page import board_page
from gsnobench.boards.tables import records, to_json
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
NOTE = "mlflow.note.content"
PAGE = "leaderboard.html"
STORES = ("mlflow", "sqlalchemy")  # whose errors say that a store does not answer
TOP = 20  # rows of the table in the description
KNOBS = ("model.", "train.", "steps.")  # what can make two rows differ


@dataclass(frozen=True)
class Shown:
    """A board as the store holds it."""

    experiment: str
    experiment_id: str
    run_id: str  # of its LEADERBOARD
    written: int  # runs made by this call
    removed: int


@dataclass(frozen=True)
class Content:
    """All that a summary run says."""

    name: str
    state: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, float]

    @property
    def digest(self) -> str:
        return digest(
            [self.name, self.state, dict(self.tags), dict(self.params), dict(self.metrics)]
        )


def publish(
    tracks: Sequence[Track], address: Address, report: Callable[[Shown], None] = lambda shown: None
) -> list[Shown]:
    """Bring all boards into a store; doing it twice changes nothing. Raises RunError if the store
    does not answer.
    """
    done: list[Shown] = []
    with bounded_requests(), lock(address.home / f".publish-{address.id}.lock"):
        try:
            client = client_of(address)
            for track in tracks:
                for board in track.boards:
                    done.append(_publish(client, address, track, board))
                    report(done[-1])
        except Exception as error:
            if (
                not isinstance(error, OSError)
                and type(error).__module__.partition(".")[0] not in STORES
            ):
                raise  # our own bug is no trouble of the store
            told = f"{address.label}: cannot take the leaderboards ({address.error_line(error)}); mend it and publish again"
            raise RunError(told) from error
    return done


def _publish(client: MlflowClient, address: Address, track: Track, board: Board) -> Shown:
    # the name that training runs have for ordinary tasks; slugs keep boards apart that must not
    # share a table
    experiment = f"gsnobench/{safe_name(board.track)}/{board.slug}"
    place = experiment_id(client, address, experiment)
    there = list(_runs(client, place))
    whole = {
        run.data.tags.get(DIGEST): str(run.info.run_id)
        for run in there
        if run.info.status != "RUNNING"
    }
    now = int(time.time() * 1000)
    kept: list[str] = []  # one run a row
    written = 0
    for line, row in enumerate(board.rows):
        content = _summary(board, row)
        known = whole.get(content.digest)
        # MLflow lists the newest run first: a millisecond a row keeps the order of the board
        kept.append(known or _write_row(client, place, content, now - 1 - line))
        written += known is None
    label = digest([records([replace(track, boards=(board,))]), kept, _appearance()])
    leader = whole.get(label)
    if leader is None:
        leader = _write_leader(client, place, track, board, kept, label, now)
        written += 1
    _describe(client, place, board, leader)
    old = [run.info.run_id for run in there if run.info.run_id not in {*kept, leader}]
    for run_id in old:  # last: until then a reader finds the board as it was
        client.delete_run(run_id)
    return Shown(experiment, place, leader, written, len(old))


def _runs(client: MlflowClient, place: str) -> Iterator[Run]:
    """All runs of an experiment that publishing has made."""
    token = None
    while token != "":
        found = client.search_runs(
            [place], f"tags.`{KIND}` LIKE '%'", max_results=1000, page_token=token
        )
        yield from found
        token = found.token or ""


# ---------------------------------------------------------------------------------------- summaries


def _summary(board: Board, row: Row) -> Content:
    spec = row.entries[0].spec
    tags = {
        KIND: "summary",
        "gsnobench.row": row.name,
        "row": row.name,
        "model": spec.model,
        "preset": spec.preset,
        "task": spec.task,
        "track": spec.track,
        "rank": texts.rank(row, board),
        "seeds": "exact" if row.is_exact else str(row.seeds),
        "state": row.state,
        "reason": row.reason,
        "needs": row.needs,
        "floor": str(row.is_floor).lower(),
        "variant": str(row.is_variant).lower(),
        "keys": " ".join(entry.spec.short for entry in row.entries),
    }
    params = {
        safe_name(knob): value
        for knob, value in beginning(spec, Path(), {})["params"].items()
        if knob.startswith(KNOBS)
    }
    short = {name: value[:TEXT] for name, value in tags.items() if value}
    return Content(row.name[:TEXT], row.state, short, params, _metrics(row))


def _metrics(row: Row) -> dict[str, float]:
    """Named as training runs name them, so that one chart shows both."""
    low, high = row.interval or (math.nan, math.nan)
    values = {
        # the headline again: MLflow draws its sections by name, and this one comes first
        "board/error": row.error,
        "board/rank": row.rank.low if row.rank else math.nan,
        "board/seeds": row.seeds,
        "board/published": math.nan if row.published is None else row.published,
        "test/headline/rel_l2": row.error,
        "test/headline/rel_l2_low": low,
        "test/headline/rel_l2_high": high,
        "test/headline/rel_l2_raw": row.raw,
    }
    values |= {f"cost/{name}": row.cost(name) for name in COSTS}
    names = sorted(
        {
            (one, metric)
            for entry in row.done
            for one in entry.fields
            for metric in entry.scores.get(one, {})
        }
    )
    values |= {
        f"test/{safe_name(one)}/{safe_name(metric)}": row.score(one, metric)
        for one, metric in names
    }
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}


def _write_row(client: MlflowClient, place: str, content: Content, when: int) -> str:
    target = _new_run(client, place, content.name, content.tags, when)
    target.log_params(content.params)
    target.log_points([Point(name, 0, value, when) for name, value in content.metrics.items()])
    target.set_state(content.state, when, {DIGEST: content.digest})
    return target.id


def _new_run(
    client: MlflowClient, place: str, name: str, tags: Mapping[str, str], when: int
) -> StoredRun:
    said = {**tags, "mlflow.source.name": "gsnobench leaderboard publish"}
    run = client.create_run(place, start_time=when, tags=said, run_name=name)
    return StoredRun(client, run.info.run_id, set())


# -------------------------------------------------------------------------------------- LEADERBOARD


def _write_leader(
    client: MlflowClient,
    place: str,
    track: Track,
    board: Board,
    rows: Sequence[str],
    label: str,
    when: int,
) -> str:
    tags = {
        KIND: "leaderboard",
        "task": board.task[:TEXT],
        "track": board.track[:TEXT],
        NOTE: _note(board, place, rows),
    }
    target = _new_run(client, place, NAME, tags, when)
    with TemporaryDirectory() as folder:
        for name, text in _files(track, board):
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        client.log_artifacts(target.id, folder)
    target.set_state("done", when, {DIGEST: label})
    return target.id


def _files(track: Track, board: Board) -> Iterator[tuple[str, str]]:
    figures = board_figures(board)
    yield PAGE, board_page(track, board, figures)
    yield "leaderboard.json", to_json([replace(track, boards=(board,))])
    for figure in figures:
        yield f"figures/{safe_name(figure.name)}.svg", figure.svg


def _note(board: Board, place: str, rows: Sequence[str]) -> str:
    """The first rows, each with a link to its summary run: links inside the page are dead in
    MLflow's sandbox.
    """
    cells: list[list[str]] = []
    for row, run in list(zip(board.rows, rows, strict=True))[:TOP]:
        link = f"[{markdown.plain(row.name)}](#/experiments/{place}/runs/{run})"
        error = texts.number(row.error) if row.seeds else row.state
        cells.append(
            [
                texts.rank(row, board),
                link,
                error,
                texts.interval(row),
                "exact" if row.is_exact else str(row.seeds),
            ]
        )
    left_out = f"{len(board.rows) - TOP} more rows are in {PAGE}." if len(board.rows) > TOP else ""
    table = markdown.table(["rank", "row", "error", "95 % over seeds", "seeds"], cells)
    promotion = markdown.plain(texts.promotion(board))
    said = [f"**{markdown.plain(board.title)}**", promotion, table, left_out, texts.HOW_TO_READ]
    return "\n\n".join(part for part in said if part)


def _describe(client: MlflowClient, place: str, board: Board, leader: str) -> None:
    """The experiment's description leads to the board; written only if it says something else."""
    link = f"#/experiments/{place}/runs/{leader}/artifacts/{PAGE}"
    text = f"[Leaderboard]({link}) of {markdown.plain(board.title)}"
    if client.get_experiment(place).tags.get(NOTE) != text:
        client.set_experiment_tag(place, NOTE, text)


def _appearance() -> str:
    """Changes with the code that renders a board: an edited style reaches stores that hold the same
    numbers.
    """
    folder = files("gsnobench.boards.site")
    sources: list[Any] = [
        one for place in (folder, folder / "assets") if place.is_dir() for one in place.iterdir()
    ]
    return digest(
        [
            one.read_text(encoding="utf-8")
            for one in sorted(sources, key=lambda one: one.name)
            if one.is_file()
        ]
    )
