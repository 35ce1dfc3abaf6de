"""Results -> boards: grouped by question, one row a setting, ranked; what asks another question
never shares a table.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gsnobench.boards.board import Board, Promotion, Row, Track, safe_name
from gsnobench.boards.evidence import Entry, Evidence
from gsnobench.boards.paper import Published
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
from gsnobench.records import Status


def make_tracks(evidence: Evidence, floors: Iterable[str], published: Published) -> list[Track]:
    """All tracks of the evidence, by name."""
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in evidence.entries:
        if entry.status != "pruned":
            groups[entry.spec.track].append(entry)
    return [
        _track(name, entries, frozenset(floors), published)
        for name, entries in sorted(groups.items())
    ]


# ------------------------------------------------------------------------------------------- boards


def _track(
    name: str, entries: Sequence[Entry], floors: frozenset[str], published: Published
) -> Track:
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[_question(entry)].append(entry)
    slugs = _slugs(groups)
    boards = [_board(slugs[key], group, floors, published) for key, group in groups.items()]
    boards.sort(key=lambda board: board.slug)
    return Track(name, tuple(boards), _row_order(boards), _wins(boards), _comparison(boards))


def _question(entry: Entry) -> str:
    """What two results must have in common to stand on one board."""
    spec = entry.spec
    parts = [
        spec.task,
        spec.version,
        spec.resolution,
        dict(spec.sizes),
        dict(spec.data),
        spec.data_seed,
        spec.source,
    ]
    # a refusal opened no data, so that it has no origin: it goes with the plugin's own
    return json.dumps(
        [*parts, entry.data.get("origin", "file" if spec.source else "generated")], sort_keys=True
    )


def _slugs(groups: Mapping[str, Sequence[Entry]]) -> dict[str, str]:
    """A name a board: the task's for its newest and fullest one, with a few letters of the question
    for the others.
    """
    by_task: dict[str, list[str]] = defaultdict(list)
    for key, group in groups.items():
        by_task[group[0].spec.task].append(key)
    slugs = {}
    for task, keys in by_task.items():
        keys.sort(key=lambda key: (-groups[key][0].spec.version, -len(groups[key]), key))
        for place, key in enumerate(keys):
            slugs[key] = safe_name(task) if place == 0 else f"{safe_name(task)}-{digest(key)[:6]}"
    return slugs


def _code(entry: Entry) -> tuple[str, bool]:
    """What a revision counts: changes of a model, or of it and the features."""
    return entry.spec.model, entry.spec.has_features


def _board(
    slug: str, entries: Sequence[Entry], floors: frozenset[str], published: Published
) -> Board:
    spec = entries[0].spec
    newest: dict[tuple[str, bool], int] = {}
    for entry in entries:
        newest[_code(entry)] = max(entry.spec.revision, newest.get(_code(entry), 0))
    current = [one for one in entries if one.spec.revision == newest[_code(one)]]
    by_row: dict[str, list[Entry]] = defaultdict(list)
    for entry in current:
        by_row[entry.spec.row].append(entry)
    known = published.scores(spec.task)
    rows = [
        row for name, group in sorted(by_row.items()) for row in _rows(name, group, floors, known)
    ]
    origins = Counter(one.data["origin"] for one in current if "origin" in one.data)
    compared, p_values = _ranked([row for row in rows if row.seeds and not row.is_variant])
    variants = sorted(
        (row for row in rows if row.seeds and row.is_variant), key=lambda row: (row.error, row.name)
    )
    blank = sorted((row for row in rows if not row.seeds), key=lambda row: (row.state, row.name))
    return Board(
        track=spec.track,
        task=spec.task,
        version=spec.version,
        origin=max(origins, key=lambda name: origins[name]) if origins else "",
        resolution=spec.resolution,
        sizes=spec.sizes,
        data_seed=spec.data_seed,
        slug=slug,
        rows=(*compared, *variants, *blank),
        p_values=p_values,
        promotion=_promotion(compared, p_values),
        outdated=len(entries) - len(current),
    )


def _rows(
    name: str, entries: Sequence[Entry], floors: frozenset[str], known: Mapping[str, float]
) -> list[Row]:
    """A row, and one more for every other setting of its knobs: seeds of different settings are not
    averaged.
    """
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda one: (one.spec.seed, one.key)):
        groups[json.dumps(_settings(entry), sort_keys=True)].append(entry)
    settings = {key: _settings(group[0]) for key, group in groups.items()}
    main = min(
        groups,
        key=lambda key: (-len(groups[key]), _distance(settings[key], settings.values()), key),
    )
    rows = []
    for key, group in groups.items():
        differing = _differing(settings[main], settings[key])
        label = ", ".join(f"{knob}={settings[key].get(knob)}" for knob in differing)
        state, reason = _state(group)
        rows.append(
            Row(
                name=f"{name} [{label}]" if label else name,
                entries=tuple(group),
                state=state,
                reason=reason,
                is_floor=group[0].spec.model in floors,
                is_variant=key != main,
                published=None if group[0].spec.has_features else known.get(group[0].spec.model),
            )
        )
    return rows


def _settings(entry: Entry) -> dict[str, Any]:
    spec = entry.spec
    sections = {
        "model": spec.model_params,
        "train": spec.train_params,
        "scaling": spec.scaling,
        "steps": spec.trained_steps,
    }
    return {
        f"{section}.{knob}": value
        for section, values in sections.items()
        for knob, value in values.items()
    }


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(knob for knob in {*one, *other} if one.get(knob) != other.get(knob))


def _distance(one: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> int:
    """Knobs that differ, over all other settings: least for the one that a study varied one knob at
    a time from.
    """
    return sum(len(_differing(one, other)) for other in others)


def _state(entries: Sequence[Entry]) -> tuple[Status, str]:
    """The state of a row: done if any seed is; the others are told of."""
    lost = [one for one in entries if one.status != "done"]
    if not lost:
        return "done", ""
    told = "; ".join(sorted({f"{one.status}: {one.reason}" for one in lost}))
    if len(lost) < len(entries):
        return "done", f"{len(lost)} of {len(entries)} seeds {told}"
    return lost[0].status, lost[0].reason


def _ranked(rows: Sequence[Row]) -> tuple[list[Row], Array]:
    ordered = sorted(rows, key=lambda row: (row.error, row.name))
    if not ordered:
        return [], np.ones((0, 0))
    scores = [row.scores for row in ordered]
    p_values = separation(scores)
    places = dict(zip([row.name for row in ordered], ranks(scores, p_values), strict=True))
    pairs = len(ordered) * (len(ordered) - 1) // 2
    ranked = []
    for place, row in enumerate(ordered):
        # a closed form lacks no seed
        is_open = place > 0 and not row.is_exact and p_values[place, place - 1] >= LEVEL
        needs = _needs(scores[place], scores[place - 1], pairs) if is_open else ""
        ranked.append(replace(row, rank=places[row.name], needs=needs))
    return ranked, p_values


def _needs(row: Scores, above: Scores, pairs: int) -> str:
    missing = seeds_needed(row, above, pairs)
    if missing is None:
        return "more test samples"
    return f"{missing} more seed{'s' if missing > 1 else ''}" if missing else ""


def _promotion(ranked: Sequence[Row], p_values: Array) -> Promotion | None:
    best_of: dict[str, int] = {}
    for place, row in enumerate(ranked):
        if not row.is_floor:
            best_of.setdefault(row.model, place)
    if len(best_of) < 2:
        return None
    first, second = list(best_of.values())[:2]
    best, next_best = ranked[first], ranked[second]
    percent = 100 * (next_best.error - best.error) / next_best.error
    return Promotion(best.name, next_best.name, percent, bool(p_values[first, second] < LEVEL))


# ------------------------------------------------------------------------------------- across tasks


def _main_boards(boards: Sequence[Board]) -> list[Board]:
    """One board a task: the one that bears the task's own name."""
    return [board for board in boards if board.slug == safe_name(board.task)]


def _row_order(boards: Sequence[Board]) -> tuple[str, ...]:
    """All rows by their mean place, as a share of the board's length; rows without any place come
    last.
    """
    places: dict[str, list[float]] = defaultdict(list)
    for board in boards:
        for row in board.rows:
            if not row.is_variant:
                places[row.name] += []
        for place, row in enumerate(board.compared):
            places[row.name].append(place / max(len(board.compared) - 1, 1))
    return tuple(
        sorted(
            places, key=lambda name: (float(np.mean(places[name])) if places[name] else 9.0, name)
        )
    )


def _wins(boards: Sequence[Board]) -> dict[tuple[str, str], tuple[int, int]]:
    won: Counter[tuple[str, str]] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for board in _main_boards(boards):
        names = [row.name for row in board.compared]
        for one, name in enumerate(names):
            for other, rival in enumerate(names):
                if one != other:
                    both[name, rival] += 1
                    won[name, rival] += one < other and bool(board.p_values[one, other] < LEVEL)
    return {pair: (won[pair], both[pair]) for pair in both}


def _comparison(boards: Sequence[Board]) -> Comparison | None:
    """Rows that every task with two of them has an error for; tasks that only floors have tried say
    nothing here.
    """
    tried = [
        board
        for board in _main_boards(boards)
        if sum(not row.is_floor for row in board.compared) > 1
    ]
    if not tried:
        return None
    common = set.intersection(*({row.name for row in board.compared} for board in tried))
    names = sorted(common)
    errors = [{row.name: row.error for row in board.compared} for board in tried]
    table = np.array(
        [[errors[task][name] for task in range(len(tried))] for name in names]
    ).reshape(len(names), len(tried))
    return across(table, names)
