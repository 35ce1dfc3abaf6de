"""Results -> boards: what shares a table, which setting is a row, who is ranked above whom."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gsnobench.boards.board import Board, BoardTrack, Promotion, Row, safe_name
from gsnobench.boards.evidence import Entry, Evidence
from gsnobench.boards.paper import PaperNumbers
from gsnobench.boards.statistics import (
    LEVEL,
    Comparison,
    Scores,
    across,
    ranks,
    seeds_needed,
    separation,
)
from gsnobench.data import Array
from gsnobench.files import digest
from gsnobench.records import RunSpec, Status
from gsnobench.registry import Registry

NO_PLACE = 9.0  # sorts rows without any error behind all others


@dataclass(frozen=True)
class Declared:
    """What the registry and the paper say of the rows of any board."""

    floors: frozenset[str]  # names of models
    reference_row: str
    counting_tracks: frozenset[str]  # on which a row has counted steps
    paper: PaperNumbers


def make_tracks(evidence: Evidence, registry: Registry, paper: PaperNumbers) -> list[BoardTrack]:
    """All tracks of the evidence, by name."""
    counting = (track.name for track in registry.tracks.values() if track.counts_steps)
    declared = Declared(
        frozenset(registry.floors), registry.reference_row, frozenset(counting), paper
    )
    by_track: dict[str, list[Entry]] = defaultdict(list)
    for entry in evidence.entries:
        if entry.status != "pruned":
            by_track[entry.spec.track].append(entry)
    return [_track(name, entries, declared) for name, entries in sorted(by_track.items())]


# ------------------------------------------------------------------------------------------- boards


def _track(name: str, entries: Sequence[Entry], declared: Declared) -> BoardTrack:
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[_board_key(entry)].append(entry)
    slugs = _slugs(groups)
    boards = [_board(slugs[key], group, declared) for key, group in groups.items()]
    boards.sort(key=lambda board: board.slug)
    return BoardTrack(name, tuple(boards), _row_order(boards), _wins(boards), _comparison(boards))


def _board_key(entry: Entry) -> str:
    """Equal for two results that may appear on one board."""
    spec = entry.spec
    data = [dict(spec.sizes), dict(spec.data), spec.data_seed, spec.source]
    # a refusal opened no data, so it has no origin and goes with the plugin's own
    origin = entry.data.get("origin", "file" if spec.source else "generated")
    parts = [spec.task, spec.version, spec.resolution, *data, origin]
    return json.dumps(parts, sort_keys=True)


def _slugs(groups: Mapping[str, Sequence[Entry]]) -> dict[str, str]:
    """Key -> name of a board: the task's own for its newest and fullest board.

    The other boards of the task have a few letters of their key behind it.
    """
    by_task: dict[str, list[str]] = defaultdict(list)
    for key, group in groups.items():
        by_task[group[0].spec.task].append(key)
    slugs = {}
    for task, keys in by_task.items():
        keys.sort(key=lambda key: (-groups[key][0].spec.version, -len(groups[key]), key))
        for number, key in enumerate(keys):
            suffix = f"-{digest(key)[:6]}" if number else ""
            slugs[key] = f"{safe_name(task)}{suffix}"
    return slugs


def _board(slug: str, entries: Sequence[Entry], declared: Declared) -> Board:
    spec = entries[0].spec
    current = _of_newest_revision(entries)
    rows = _board_rows(current, declared)
    ranked, p_values = _ranked([row for row in rows if row.seeds and not row.is_variant])
    variants = [row for row in rows if row.seeds and row.is_variant]
    blank = [row for row in rows if not row.seeds]
    origins = Counter(entry.data["origin"] for entry in current if "origin" in entry.data)
    return Board(
        track=spec.track,
        task=spec.task,
        version=spec.version,
        origin=max(origins, key=lambda name: origins[name]) if origins else "",
        resolution=spec.resolution,
        sizes=spec.sizes,
        data_seed=spec.data_seed,
        slug=slug,
        rows=(
            *ranked,
            *sorted(variants, key=lambda row: (row.error, row.name)),
            *sorted(blank, key=lambda row: (row.state, row.name)),
        ),
        p_values=p_values,
        promotion=_promotion(ranked, p_values),
        outdated=len(entries) - len(current),
    )


def _of_newest_revision(entries: Sequence[Entry]) -> list[Entry]:
    """Without results of older code; rows with computed inputs count changes of those too."""
    newest: dict[tuple[str, bool], int] = {}
    for entry in entries:
        code = entry.spec.model, entry.spec.has_features
        newest[code] = max(entry.spec.revision, newest.get(code, 0))
    return [
        entry
        for entry in entries
        if entry.spec.revision == newest[entry.spec.model, entry.spec.has_features]
    ]


# --------------------------------------------------------------------------------------------- rows


def _board_rows(entries: Sequence[Entry], declared: Declared) -> list[Row]:
    by_name: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_name[entry.spec.row].append(entry)
    published = declared.paper.scores(entries[0].spec.task)
    return [
        row
        for name, group in sorted(by_name.items())
        for row in _rows(name, group, declared, published)
    ]


def _rows(
    name: str, entries: Sequence[Entry], declared: Declared, published: Mapping[str, float]
) -> list[Row]:
    """A row, and one per other setting: seeds of two settings are never averaged.

    The row is the unmodified preset at its committed steps; whatever was changed is a variant.
    """
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: (entry.spec.seed, entry.key)):
        groups[_variant_label(entry, declared)].append(entry)
    rows = []
    for label, group in groups.items():
        spec = group[0].spec
        state, reason = _state(group)
        row = Row(
            name=f"{name} {label}" if label else name,
            entries=tuple(group),
            state=state,
            reason=reason,
            is_floor=spec.model in declared.floors,
            is_reference=name == declared.reference_row and not label,
            is_variant=bool(label),
            published=None if spec.has_features else published.get(spec.model),
        )
        rows.append(row)
    return rows


def _variant_label(entry: Entry, declared: Declared) -> str:
    """What is written behind a row's name where settings differ from it; empty: the row itself."""
    spec, changed = entry.spec, entry.changed
    if not changed:
        is_guess = entry.steps_from == "track" and spec.track in declared.counting_tracks
        return "(steps not counted)" if is_guess and not entry.is_closed_form else ""
    settings = ", ".join(f"{_short(knob, spec)}={value}" for knob, value in changed.items())
    return f"({spec.origin}) [{settings}]" if spec.origin else f"[{settings}]"


def _short(dotted: str, spec: RunSpec) -> str:
    """A knob without its section where no other section has a knob of this name."""
    section, _, name = dotted.partition(".")
    if section == "steps":
        return "steps" if len(spec.trained_steps) == 1 else dotted
    return dotted if name in spec.model_params and name in spec.train_params else name


def _state(entries: Sequence[Entry]) -> tuple[Status, str]:
    """State and reason of a row: done if any seed is, with what became of the others."""
    lost = [entry for entry in entries if entry.status != "done"]
    if not lost:
        return "done", ""
    if len(lost) == len(entries):
        return lost[0].status, lost[0].reason
    reasons = sorted({f"{entry.status}: {entry.reason}" for entry in lost})
    return "done", f"{len(lost)} of {len(entries)} seeds {'; '.join(reasons)}"


def _ranked(rows: Sequence[Row]) -> tuple[list[Row], Array]:
    """Rows by their error with rank and needs, and the p-values of all pairs, (R, R)."""
    ordered = sorted(rows, key=lambda row: (row.error, row.name))
    if not ordered:
        return [], np.ones((0, 0))
    scores = [row.scores for row in ordered]
    p_values = separation(scores)
    pairs = len(ordered) * (len(ordered) - 1) // 2
    ranked = []
    for index, (row, rank) in enumerate(zip(ordered, ranks(scores, p_values), strict=True)):
        # a closed form lacks no seed
        is_open = index > 0 and not row.is_exact and p_values[index, index - 1] >= LEVEL
        needs = _needs(scores[index], scores[index - 1], pairs) if is_open else ""
        ranked.append(replace(row, rank=rank, needs=needs))
    return ranked, p_values


def _needs(row: Scores, above: Scores, pairs: int) -> str:
    """What would separate a row from the one above it."""
    missing = seeds_needed(row, above, pairs)
    if missing is None:
        return "more test samples"
    return f"{missing} more seed{'s' if missing > 1 else ''}" if missing else ""


def _promotion(ranked: Sequence[Row], p_values: Array) -> Promotion | None:
    """None where fewer than two models have an error."""
    best_of: dict[str, int] = {}  # model -> index of its best row
    for index, row in enumerate(ranked):
        if not row.is_floor:
            best_of.setdefault(row.model, index)
    if len(best_of) < 2:
        return None
    first, second = list(best_of.values())[:2]
    best, next_best = ranked[first], ranked[second]
    percent = 100 * (next_best.error - best.error) / next_best.error
    return Promotion(best.name, next_best.name, percent, bool(p_values[first, second] < LEVEL))


# ------------------------------------------------------------------------------------- across tasks


def _main_boards(boards: Sequence[Board]) -> list[Board]:
    """One board per task: the one that has the task's own name."""
    return [board for board in boards if board.slug == safe_name(board.task)]


def _row_order(boards: Sequence[Board]) -> tuple[str, ...]:
    """All rows by their mean place, each as a share of the board's length."""
    places: dict[str, list[float]] = defaultdict(list)
    for board in boards:
        for row in board.rows:
            if not row.is_variant:
                places[row.name] += []
        for index, row in enumerate(board.compared):
            places[row.name].append(index / max(len(board.compared) - 1, 1))
    means = {
        name: float(np.mean(shares)) if shares else NO_PLACE for name, shares in places.items()
    }
    return tuple(sorted(means, key=lambda name: (means[name], name)))


def _wins(boards: Sequence[Board]) -> dict[tuple[str, str], tuple[int, int]]:
    """(row, other) -> tasks on which the row is significantly better, tasks that both have."""
    won: Counter[tuple[str, str]] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for board in _main_boards(boards):
        names = [row.name for row in board.compared]
        for first, name in enumerate(names):
            for second, rival in enumerate(names):
                if first != second:
                    is_separated = bool(board.p_values[first, second] < LEVEL)
                    both[name, rival] += 1
                    won[name, rival] += first < second and is_separated
    return {pair: (won[pair], both[pair]) for pair in both}


def _comparison(boards: Sequence[Board]) -> Comparison | None:
    """Mean ranks of the rows that have an error on every task that two models were run on."""
    tried = [
        board
        for board in _main_boards(boards)
        if sum(not row.is_floor for row in board.compared) > 1
    ]
    if not tried:
        return None
    errors = [{row.name: row.error for row in board.compared} for board in tried]
    names = sorted(set.intersection(*map(set, errors)))
    table = np.array([[by_name[name] for by_name in errors] for name in names])
    return across(table.reshape(len(names), len(tried)), names)
