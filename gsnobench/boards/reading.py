"""What boards say, in sentences: pure functions of the rows, and each sentence holds a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from gsnobench.boards import wording
from gsnobench.boards.board import Board, BoardTrack, Row, Standing
from gsnobench.boards.statistics import LEVEL

MOST_TIES = 3  # rows of a task that a verdict names


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
        f"{row.name} (p = {_p_value(board.p_values[index[best.name], index[row.name]])})"
        for row in tied
    ]
    return f"Not significantly worse than {best.name}, the best ranked row: {_listed(values)}."


def _p_value(value: float) -> str:
    """Two digits, or as many as tell it from the level."""
    texts = (f"{value:.{digits}g}" for digits in range(2, 17))
    return next((text for text in texts if float(text) != LEVEL), f"{LEVEL:g}")


def _below_floor(board: Board, models: Sequence[Row]) -> str:
    """How many models a closed form beats."""
    floor = board.best_floor
    if floor is None:
        return ""
    beaten = [row for row in models if row.error > floor.error]
    if not beaten:
        return f"{_all(models, 'is', 'are')} below the best floor, {_with_error(floor)}."
    names = _listed([row.name for row in beaten])
    verb = "does" if len(beaten) == 1 else "do"
    return (
        f"{len(beaten)} of {len(models)} trained rows {verb} not reach the best floor, "
        f"{_with_error(floor)}: {names}."
    )


def _blind(models: Sequence[Row]) -> str:
    """Which models are no better than a floor that uses no input but the last given frame."""
    rows = [row for row in models if any(mark.name == "did not learn" for mark in row.marks)]
    if not rows:
        return ""
    named = _listed([_with_error(row) for row in rows])
    return f"No better than the floor that is told nothing but the last given frame: {named}."


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
        f"Marked as not converged: {len(starved)} of {len(models)} trained rows, {_listed(names)}."
    )


def _off_budget(models: Sequence[Row]) -> str:
    rows = [row for row in models if any(mark.name == "off the budget" for mark in row.marks)]
    spent = [f"{row.name} ({row.normalised_cpu_s:.0f} normalised CPU-s)" for row in rows]
    return f"More than 15 % off the budget: {_listed(spent)}." if rows else ""


def compared_boards(track: BoardTrack) -> list[Board]:
    """The boards that means over tasks are about."""
    return [board for board in track.boards if board.slug in track.compared]


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
        f"significantly worse on {lost or 'none'}."
    )


def _floors_ahead(boards: Sequence[Board]) -> Iterator[str]:
    """Where a closed form has the lowest error of all."""
    won = [board for board in boards if board.compared[0].is_floor]
    names = [f"{board.slug} ({_with_error(board.compared[0])})" for board in won]
    if won:
        where = f"{len(won)} of {len(boards)} tasks"
        yield f"A floor has the lowest error on {where}: {_listed(names)}."


# ----------------------------------------------------------------------------------------- verdict


def verdict(track: BoardTrack, *, is_long: bool = False) -> list[str]:
    """The leader of the models, on how many tasks, how surely; nothing where no model was run.

    If it is long, it names the tasks and the rows that tie.
    """
    boards = [board for board in track.boards if board.slug in track.compared]
    leader = next((entry for entry in track.standings if not entry.is_floor), None)
    if leader is None or not boards:
        return []
    first = [board for board in boards if _models(board)[0].name == leader.row]
    mean_rank = wording.number(leader.mean_rank)
    rank = f"the best mean rank of all models ({mean_rank}) and " if leader.is_complete else ""
    sentences = [
        f"{leader.row} leads.",
        f"It has {rank}the lowest error of all models on {_of(first, boards, is_long)}.",
        _lower_floors(boards, leader.row, is_long=is_long),
        *_tested(boards, first, leader.row, is_long=is_long),
        *_floors_across(track, leader),
        _not_compared(track),
    ]
    return list(filter(None, sentences))


def _lower_floors(boards: Sequence[Board], leader: str, *, is_long: bool) -> str:
    """Where a closed form has less error than the leader, so that its training has not paid."""
    errors = [
        (board, row.error) for board in boards for row in board.compared if row.name == leader
    ]
    lower = [
        board
        for board, error in errors
        if board.best_floor is not None and board.best_floor.error < error
    ]
    return f"A floor has a lower error on {_of(lower, boards, is_long)}." if lower else ""


def _tested(
    boards: Sequence[Board], first: Sequence[Board], leader: str, *, is_long: bool
) -> Iterator[str]:
    """What the tests say of the leader; a single seed can be compared with nobody."""
    ranked = {row.name for board in boards for row in board.compared if row.rank is not None}
    if leader not in ranked:
        yield "It has one seed on each of them, so no difference has been tested yet."
        return
    ahead_of_models = [board for board in boards if _is_ahead(board, leader, _models)]
    ahead_of_floors = [board for board in boards if _is_ahead(board, leader, _floors)]
    yield (
        f"{leader} is significantly better than every other model on "
        f"{_of(ahead_of_models, boards, is_long)}, and than every floor on "
        f"{_of(ahead_of_floors, boards, is_long)}."
    )
    yield from _untested(boards, leader)
    if is_long:
        yield _ties_of(leader, first)
    behind = [board for board in boards if _is_behind(board, leader)]
    yield (
        f"Other rows are significantly better than it on {_of(behind, boards, is_long)}."
        if behind
        else "No row is significantly better than it on any task."
    )


def _untested(boards: Sequence[Board], leader: str) -> Iterator[str]:
    """Where a single seed, of the leader or of another model, leaves a comparison open."""
    count = f"of {len(boards)} tasks"
    own = [board for board in boards if leader in _with_one_seed(board)]
    if own:
        yield f"On {len(own)} {count} it has one seed, so nothing has been tested there yet."
    others = [board for board in boards if board not in own and _with_one_seed(board)]
    if others:
        where = f"{'another ' if own else ''}{len(others)} {count}"
        yield f"On {where} some other models have one seed and have not been tested yet."


def _with_one_seed(board: Board) -> set[str]:
    return {row.name for row in _models(board) if not row.scores.is_testable}


def _floors_across(track: BoardTrack, leader: Standing) -> Iterator[str]:
    """How far the best floor is behind the leader over all compared tasks, or ahead of it."""
    floor = next((entry for entry in track.standings if entry.is_floor and entry.is_complete), None)
    if floor is None or not leader.is_complete:
        return
    times = wording.number(floor.ratio / leader.ratio)
    end = ""
    if floor.mean_rank < leader.mean_rank:
        end = f" and a better mean rank ({wording.number(floor.mean_rank)})"
    yield (
        f"The best floor over all tasks, {floor.row}, has {times} times its error (geometric mean)"
        f"{end}."
    )


def _not_compared(track: BoardTrack) -> str:
    """On how many tasks of the benchmark there is nobody to compare with."""
    missing = track.tasks - len(track.compared)
    if missing <= 0:
        return ""
    rest = [board for board in track.main if board.slug not in track.compared]
    has_any = any(board.has_models for board in rest)
    who = "fewer than two models have" if has_any else "no model has"
    others = f"{missing} tasks" if missing > 1 else "task"
    return f"On the other {others} {who} been ranked yet."


def _of(some: Sequence[Board], boards: Sequence[Board], is_long: bool) -> str:
    """2 of 3 tasks (darcy, swe)."""
    names = f" ({', '.join(board.slug for board in some)})" if some and is_long else ""
    return f"{len(some) or 'none'} of {len(boards)} tasks{names}"


def _models(board: Board) -> list[Row]:
    return [row for row in board.compared if not row.is_floor]


def _floors(board: Board) -> list[Row]:
    return [row for row in board.compared if row.is_floor]


def _is_ahead(board: Board, leader: str, others: Callable[[Board], list[Row]]) -> bool:
    """Whether the leader has a lower error than all others of this kind, significantly.

    A row with one seed is not tested, so nobody is known to be ahead of it.
    """
    beside = _against(board, leader, others(board))
    is_tested = len(beside) == len([row for row in others(board) if row.name != leader])
    return (
        bool(beside)
        and is_tested
        and all(p < LEVEL and row.error > error for row, p, error in beside)
    )


def _is_behind(board: Board, leader: str) -> bool:
    """Whether any row is significantly better than the leader."""
    beside = _against(board, leader, board.compared)
    return any(p < LEVEL and row.error < error for row, p, error in beside)


def _ties_of(leader: str, boards: Sequence[Board]) -> str:
    """The ranked rows that the tests do not separate from the leader where it is first."""
    tied = {board.slug: _tied(board, leader) for board in boards}
    listed = "; ".join(f"from {rows} on {task}" for task, rows in tied.items() if rows)
    corrected = " (p after Holm's correction)" if "(p = " in listed else ""
    lead = "Where it has the lowest error, it does not differ significantly"
    return f"{lead} {listed}{corrected}." if listed else ""


def _tied(board: Board, leader: str) -> str:
    """These rows of a task with their p-values, or their number where there are many."""
    beside = _against(board, leader, board.compared)
    ties = [f"{row.name} (p = {p:.2g})" for row, p, _ in beside if p >= LEVEL]
    if len(ties) > MOST_TIES:
        return f"{len(ties)} of {len(beside)} other rows"
    return " and ".join(filter(None, (", ".join(ties[:-1]), *ties[-1:])))


def _against(board: Board, leader: str, rows: Sequence[Row]) -> list[tuple[Row, float, float]]:
    """Ranked rows beside the leader, with the p-value of the difference and the leader's error."""
    names = [row.name for row in board.compared]
    if leader not in {row.name for row in board.compared if row.rank is not None}:
        return []
    index = names.index(leader)
    return [
        (row, float(board.p_values[index, names.index(row.name)]), board.compared[index].error)
        for row in rows
        if row.name != leader and row.rank is not None
    ]


# ------------------------------------------------------------------------------------------- parts


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
