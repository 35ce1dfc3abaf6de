"""What a board says, in sentences: each is a pure function of the rows, and each holds a number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row, Standing


def reading(board: Board) -> str:
    """The paragraph of a board: who is ahead, then the further sentences."""
    return " ".join(filter(None, (wording.promotion(board), *further_reading(board))))


def further_reading(board: Board) -> list[str]:
    """Ties, floors, other data, costs, and what was cut short; none without a model."""
    models = [row for row in board.compared if not row.is_floor]
    if not models:
        return []
    sentences = (
        _ties(board),
        _below_floor(board, models),
        _blind(models),
        _out_of_distribution(board, models),
        _inference(models),
        _cut_short(models),
        _off_budget(models),
    )
    return list(filter(None, sentences))


def _ties(board: Board) -> str:
    """Which ranked rows the tests do not separate from the best ranked one."""
    tied = board.tied_with_best[1:]
    ranked = [row for row in board.compared if row.rank is not None]
    if len(ranked) < 2 or not board.ranks_models:
        return ""
    best = ranked[0]
    if not tied:
        return f"{best.name} is significantly better than every other ranked row."
    index = {row.name: number for number, row in enumerate(board.compared)}
    values = [
        f"{row.name} (p = {board.p_values[index[best.name], index[row.name]]:.2g})" for row in tied
    ]
    return f"Not significantly worse than {best.name}: {_listed(values)}."


def _below_floor(board: Board, models: Sequence[Row]) -> str:
    """How many models a closed form beats."""
    floor = board.best_floor
    if floor is None:
        return ""
    beaten = [row for row in models if row.error > floor.error]
    if not beaten:
        return f"{_all(models, 'is', 'are')} below the best floor, {_with_error(floor)}."
    names = _listed([row.name for row in beaten])
    return (
        f"{len(beaten)} of {len(models)} trained rows do not reach the best floor, "
        f"{_with_error(floor)}: {names}."
    )


def _blind(models: Sequence[Row]) -> str:
    """Which models are no better than a floor that sees no input."""
    rows = [row for row in models if any(mark.name == "did not learn" for mark in row.marks)]
    named = _listed([_with_error(row) for row in rows])
    return f"No better than the mean of the training samples: {named}." if rows else ""


def _out_of_distribution(board: Board, models: Sequence[Row]) -> str:
    """Who is best on other data, by how much the error grows, and whether the order stands."""
    known = [row for row in board.compared if math.isfinite(row.ood_error)]
    if len(known) < 2 or not any(row in known for row in models):
        return ""
    best = min(known, key=lambda row: row.ood_error)
    ratios = [row.ood_error / row.error for row in known if not row.is_floor]
    grown = [min(ratios), max(ratios)]
    place = "too" if best is board.compared[0] else f"instead of {board.compared[0].name}"
    between = " to ".join(dict.fromkeys(wording.number(times) for times in grown))
    return (
        f"Out of distribution {best.name} has the lowest error {place}, "
        f"{wording.number(best.ood_error)}; there the errors of models are {between} times as "
        "large."
    )


def _inference(models: Sequence[Row]) -> str:
    """What the best model costs to evaluate, beside the cheapest one."""
    timed = [row for row in models if math.isfinite(row.cost("inference_s"))]
    if len(timed) < 2:
        return ""
    best, cheapest = timed[0], min(timed, key=lambda row: row.cost("inference_s"))
    spent = f"{best.name} takes {_milliseconds(best)} per sample"
    if best is cheapest:
        return f"{spent}, the least of all models."
    times = wording.number(cheapest.error / best.error)
    return f"{spent}; {cheapest.name} takes {_milliseconds(cheapest)} with {times} times its error."


def _cut_short(models: Sequence[Row]) -> str:
    """Which rows the budget stopped before they had converged."""
    starved = [row for row in models if not row.is_converged]
    if not starved:
        return f"{_all(models, 'has', 'have')} converged."
    names = [f"{row.name} ({row.ending.epochs:.0f} epochs)" for row in starved if row.ending]
    return (
        f"The budget stopped {len(starved)} of {len(models)} trained rows before they had "
        f"converged: {_listed(names)}."
    )


def _off_budget(models: Sequence[Row]) -> str:
    rows = [row for row in models if any(mark.name == "off the budget" for mark in row.marks)]
    spent = [f"{row.name} ({row.normalised_cpu_s:.0f} normalised CPU-s)" for row in rows]
    return f"More than 15 % off the budget: {_listed(spent)}." if rows else ""


def compared_boards(track: BoardTrack) -> list[Board]:
    """The boards that means over tasks are about."""
    return [board for board in track.boards if board.slug in track.compared]


def leading(track: BoardTrack) -> list[str]:
    """Who leads the track and how surely, then the best floor; nothing where nobody leads."""
    leader = next((entry for entry in track.standings if entry.is_complete), None)
    return [] if leader is None else [_leader(track, leader), *_best_floor(track, leader)]


def _leader(track: BoardTrack, leader: Standing) -> str:
    boards = compared_boards(track)
    ahead = [board for board in boards if board.compared[0].name == leader.row]
    # a row of one seed may have the lowest error without a place
    alone = [board for board in ahead if board.tied_with_best == board.compared[:1]]
    kind = "The floor " if leader.is_floor else ""
    tasks = f"{len(boards)} compared task{'s' if len(boards) != 1 else ''}"
    rank = wording.number(leader.mean_rank)
    tested = f"It is significantly better than all other ranked rows on {len(alone)} of them."
    if not any(_has_place(board, leader.row) for board in boards):
        tested = "It has one seed on each of them, so no difference has been tested yet."
    return (
        f"{kind}{leader.row} leads: it has the best mean rank ({rank}) and the lowest error of all "
        f"rows, floors too, on {len(ahead)} of {tasks}. {tested}"
    )


def _has_place(board: Board, name: str) -> bool:
    return any(row.name == name and row.rank is not None for row in board.compared)


def _best_floor(track: BoardTrack, leader: Standing) -> Iterator[str]:
    floor = next((entry for entry in track.standings if entry.is_floor and entry.is_complete), None)
    if floor is not None and not leader.is_floor:
        times = wording.number(floor.ratio / leader.ratio)
        yield f"The best floor is {floor.row}, with {times} times its error (geometric mean)."


def across_tasks(track: BoardTrack) -> Iterator[str]:
    """What the tasks say together: who leads how often, and how far the rows are from the best."""
    boards = compared_boards(track)
    models = [row for row in track.standings if not row.is_floor and row.is_complete]
    if len(boards) < 2 or len(models) < 2:
        return
    shown = "; ".join(_standing(row) for row in models[: wording.MOST_NAMES])
    more = len(models) - wording.MOST_NAMES
    rest = f"; the other {more} are in the table" if more > 0 else ""
    yield (
        f"Mean rank and times the best error over {len(boards)} tasks, with a 95 % interval over "
        f"tasks: {shown}{rest}."
    )
    yield from _wins(track, models)
    yield from _floors_ahead(boards)


def _standing(standing: Standing) -> str:
    between = wording.spread(standing.ratio_interval)
    interval = f" ({between})" if standing.ratio_interval else ""
    rank, ratio = wording.number(standing.mean_rank), wording.number(standing.ratio)
    return f"{standing.row} {rank} and {ratio}{interval}"


def _wins(track: BoardTrack, models: Sequence[Standing]) -> Iterator[str]:
    """How often the first row is significantly better than the row behind it."""
    first, second = models[0].row, models[1].row
    won, both = track.wins.get((first, second), (0, 0))
    lost, _ = track.wins.get((second, first), (0, 0))
    yield (
        f"{first} is significantly better than {second} on {won} of {both} tasks, and "
        f"significantly worse on {lost}."
    )


def _floors_ahead(boards: Sequence[Board]) -> Iterator[str]:
    """Where a closed form has the lowest error of all."""
    won = [board for board in boards if board.compared[0].is_floor]
    names = [f"{board.slug} ({_with_error(board.compared[0])})" for board in won]
    if won:
        where = f"{len(won)} of {len(boards)} tasks"
        yield f"A floor has the lowest error on {where}: {_listed(names)}."


def _all(models: Sequence[Row], one: str, many: str) -> str:
    """The subject of a sentence about every trained row of a board, with its verb.

    Two presets of one model are two rows.
    """
    return (
        f"All {len(models)} trained rows {many}" if len(models) > 1 else f"{models[0].name} {one}"
    )


def _with_error(row: Row) -> str:
    return f"{row.name} with {wording.number(row.error)}"


def _milliseconds(row: Row) -> str:
    return f"{wording.number(1e3 * row.cost('inference_s'))} ms"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - wording.MOST_NAMES
    return ", ".join(names[: wording.MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
