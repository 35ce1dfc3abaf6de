"""Results -> tracks and their boards: what shares a table."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gsnobench.boards.assembly.declared import Declared
from gsnobench.boards.assembly.marks import marked
from gsnobench.boards.assembly.ranking import promotion, ranked_rows
from gsnobench.boards.assembly.rows import board_rows
from gsnobench.boards.board import Board, BoardTrack, Row, safe_name
from gsnobench.boards.evidence import NOWHERE, Entry, Evidence, Installation
from gsnobench.boards.reproduction.paper import PaperNumbers
from gsnobench.boards.standings import (
    compare_rows,
    compared_boards,
    count_wins,
    dataset_of,
    make_standings,
    task_boards,
)
from gsnobench.files import digest
from gsnobench.records import FEATURES_REVISION
from gsnobench.registry import Registry


def make_tracks(
    evidence: Evidence, registry: Registry, paper: PaperNumbers, here: Installation = NOWHERE
) -> list[BoardTrack]:
    """All tracks of the evidence, by name."""
    declared = Declared(registry, paper, here)
    by_track: dict[str, list[Entry]] = defaultdict(list)
    for entry in evidence.entries:
        if entry.status != "pruned":
            by_track[entry.spec.track].append(entry)
    tracks = [_track(name, entries, declared) for name, entries in sorted(by_track.items())]
    return [track for track in tracks if track.boards]


def _track(name: str, entries: Sequence[Entry], declared: Declared) -> BoardTrack:
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[_board_key(entry)].append(entry)
    slugs = _slugs(groups)
    boards = [
        _board(slugs[key], group, current, declared)
        for key, group in groups.items()
        if (current := _of_newest_revision(group, declared.here.revisions))
    ]
    names = declared.registry.board_tasks
    tasks = task_boards(boards, names)
    boards.sort(key=lambda board: (board not in tasks, *_task_order(board, names)))
    tasks.sort(key=boards.index)
    compared = compared_boards(tasks)
    return BoardTrack(
        name=name,
        boards=tuple(boards),
        standings=make_standings(boards, tasks, compared),
        tasks=len(names) if any(dataset_of(board) in names for board in tasks) else len(tasks),
        counted=tuple(board.slug for board in tasks),
        compared=tuple(board.slug for board in compared),
        wins=count_wins(tasks),
        comparison=compare_rows(compared),
        converged=compare_rows(compared, converged_only=True),
        help=declared.track(name).help,
    )


def _task_order(board: Board, names: Sequence[str]) -> tuple[int, str, int, str]:
    """As the registry names the tasks; windows by the number of given frames."""
    dataset, given = dataset_of(board), board.task.partition("@")[2].partition("-")[0]
    place = names.index(dataset) if dataset in names else len(names)
    return place, dataset, int(given) if given.isdecimal() else 0, board.slug


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

    Other boards of the task say their data seed where nothing else differs, else they have a few
    letters of their key behind it.
    """
    by_task: dict[str, list[str]] = defaultdict(list)
    for key, group in groups.items():
        by_task[group[0].spec.task].append(key)
    slugs = {}
    for task, keys in by_task.items():
        keys.sort(key=lambda key: (-groups[key][0].spec.version, -len(groups[key]), key))
        for number, key in enumerate(keys):
            suffix = _suffix(key, groups[key][0], groups[keys[0]][0]) if number else ""
            slugs[key] = f"{safe_name(task)}{suffix}"
    return slugs


def _suffix(key: str, entry: Entry, first: Entry) -> str:
    """What sets a board of a task apart from the first one."""
    seed = entry.spec.data_seed
    redrawn = replace(first, spec=replace(first.spec, data_seed=seed))
    return f"-data-seed-{seed}" if _board_key(redrawn) == key else f"-{digest(key)[:6]}"


def _board(
    slug: str, entries: Sequence[Entry], current: Sequence[Entry], declared: Declared
) -> Board:
    spec = entries[0].spec
    rows = marked(board_rows(current, declared), declared)
    ranked, p_values = ranked_rows([row for row in rows if row.seeds and not row.is_variant])
    blank = [row for row in rows if not row.seeds and not row.is_variant]
    variants = [row for row in rows if row.is_variant]
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
            *sorted(blank, key=lambda row: (row.state, row.name)),
            *sorted(variants, key=_variant_order),
        ),
        p_values=p_values,
        promotion=promotion(ranked, p_values),
        outdated=len(entries) - len(current),
    )


def _of_newest_revision(entries: Sequence[Entry], installed: Mapping[str, int]) -> list[Entry]:
    """Without results of older revisions than the installed one or the newest result.

    Rows with computed inputs count changes of those too.
    """
    newest: dict[tuple[str, bool], int] = {}
    for model, revision in installed.items():
        newest |= {(model, False): revision, (model, True): revision + FEATURES_REVISION}
    for entry in entries:
        code = entry.spec.model, entry.spec.has_features
        newest[code] = max(entry.spec.revision, newest.get(code, 0))
    return [
        entry
        for entry in entries
        if entry.spec.revision == newest[entry.spec.model, entry.spec.has_features]
    ]


def _variant_order(row: Row) -> tuple[bool, float, str]:
    return not row.seeds, row.error if row.seeds else 0.0, row.name
