"""Results -> boards: what shares a table, what is a row or a variant, who is ahead of whom."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from gsnobench.boards.board import (
    Board,
    BoardTrack,
    Mark,
    Promotion,
    Row,
    chosen_settings,
    safe_name,
)
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
from gsnobench.boards.statistics import LEVEL, Scores, ranks, seeds_needed, separation
from gsnobench.data import Array
from gsnobench.errors import PluginError
from gsnobench.files import digest
from gsnobench.plugins import dataset_name
from gsnobench.records import FEATURES, FEATURES_REVISION, RunSpec, Status
from gsnobench.registry import Registry, Track

SLACK = 0.15  # share of a track's CPU-seconds by which a row may miss them without a mark
NO_TRACK = Track("")  # of results whose track the registry does not know


@dataclass(frozen=True)
class Declared:
    """What is known of the rows of any board beside their results."""

    registry: Registry
    paper: PaperNumbers
    here: Installation

    def track(self, name: str) -> Track:
        return self.registry.tracks.get(name, NO_TRACK)


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


# ------------------------------------------------------------------------------------------- boards


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
    order = {task: number for number, task in enumerate(names)}
    boards.sort(key=lambda board: (order.get(dataset_of(board), len(order)), board.slug))
    tasks = task_boards(boards, names)
    compared = compared_boards(tasks)
    return BoardTrack(
        name=name,
        boards=tuple(boards),
        standings=make_standings(boards, tasks, compared),
        tasks=len(names) if any(dataset_of(board) in names for board in tasks) else len(tasks),
        compared=tuple(board.slug for board in compared),
        wins=count_wins(tasks),
        comparison=compare_rows(compared),
        converged=compare_rows(compared, converged_only=True),
        help=declared.track(name).help,
    )


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


def _board(
    slug: str, entries: Sequence[Entry], current: Sequence[Entry], declared: Declared
) -> Board:
    spec = entries[0].spec
    rows = _marked(_board_rows(current, declared), declared)
    ranked, p_values = _ranked([row for row in rows if row.seeds and not row.is_variant])
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
        promotion=_promotion(ranked, p_values),
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


# --------------------------------------------------------------------------------------------- rows


def _board_rows(entries: Sequence[Entry], declared: Declared) -> list[Row]:
    by_name: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_name[entry.spec.row].append(entry)
    spec = entries[0].spec
    published = dict(declared.paper.scores(spec.task))
    for model in {entry.spec.model for entry in entries}:
        score = declared.registry.published_score(spec.task, model, spec.resolution)
        published |= {} if score is None else {model: score.rel_l2}
    data = _usual(entries, lambda entry: entry.fingerprint)
    return [
        row
        for name, group in sorted(by_name.items())
        for row in _rows(name, group, _standard(group, data, declared), declared, published)
    ]


@dataclass(frozen=True)
class Variant:
    """What sets a result apart from the row of its preset; all empty: it is the row itself."""

    origin: str = ""  # in words: "tuned, 12 trials", "steps not counted", "other code"
    settings: str = ""  # batch=4, lr=0.004
    identity: str = ""  # results of one variant agree in all settings

    def label(self, *, is_unique: bool) -> str:
        """What is written behind the name of the row; settings where words are not enough."""
        words = f"({self.origin})" if self.origin else ""
        needs_settings = self.settings and not (words and is_unique)
        return " ".join(filter(None, (words, f"[{self.settings}]" if needs_settings else "")))


@dataclass(frozen=True)
class Standard:
    """What all results of a row share."""

    settings: RunSpec | None  # the unmodified preset at its committed steps
    code: str  # digest of the model's source
    data: str  # fingerprint of the data


def _rows(
    name: str,
    entries: Sequence[Entry],
    standard: Standard,
    declared: Declared,
    published: Mapping[str, float],
) -> list[Row]:
    """A row, and one per variant: seeds of two settings are never averaged.

    The row is the unmodified preset at its committed steps; whatever was changed is a variant.
    """
    groups: dict[Variant, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: (entry.spec.seed, entry.key)):
        groups[_variant(entry, declared, standard)].append(entry)
    origins = Counter(variant.origin for variant in groups)
    has_no_printed_number = entries[0].spec.has_features or name in declared.registry.our_rows
    rows = []
    for variant, group in groups.items():
        spec = group[0].spec
        state, reason = _state(group)
        label = variant.label(is_unique=origins[variant.origin] == 1)
        rows.append(
            Row(
                name=f"{name} {label}" if label else name,
                entries=tuple(group),
                state=state,
                reason=reason,
                is_floor=spec.model in declared.registry.floors,
                is_reference=name == declared.registry.reference_row and not label,
                is_variant=bool(label),
                published=None if has_no_printed_number else published.get(spec.model),
                settings=variant.settings,
            )
        )
    return rows


def _variant(entry: Entry, declared: Declared, standard: Standard) -> Variant:
    spec, identity, row = entry.spec, _identity(entry.spec), standard.settings
    if entry.changed:
        return Variant(spec.origin, _spelled(entry.changed, spec), identity)
    if entry.status != "done":
        return Variant()  # only an error can take somebody's place
    if doubt := _doubt(entry, declared):
        steps = {f"steps.{phase}": count for phase, count in spec.trained_steps.items()}
        return Variant(doubt, _spelled(steps, spec), identity)
    if entry.fingerprint not in ("", standard.data):
        data = entry.data.get("hash", "")[:6]
        return Variant("other data", f"data={data}", digest([identity, data]))
    if entry.model_code not in ("", standard.code):
        code = entry.model_code[:6]
        return Variant("other code", f"code={code}", digest([identity, code]))
    if row is not None and identity != _identity(row):
        here, there = chosen_settings(spec), chosen_settings(row)
        names = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
        differing = {name: spec.settings.get(name) for name in names}
        return Variant("other settings", _spelled(differing, spec), identity)
    return Variant()


def _standard(entries: Sequence[Entry], data: str, declared: Declared) -> Standard:
    """What makes the row of some results, if plugins were edited without a new revision.

    Results of the benchmark decide, those of a home only where there are no others: an edited
    plugin could always run more seeds. The code is the installed one if any of them has it, else
    that of the most; the settings are those of the most results with that code.
    """
    done = [entry for entry in entries if entry.status == "done" and not entry.changed]
    sound = [
        entry for entry in done if not _doubt(entry, declared) and entry.fingerprint in ("", data)
    ]
    installed = declared.here.code.get(("model", entries[0].spec.model), "")
    judges = [entry for entry in sound if not entry.is_own] or sound
    has_installed = any(entry.model_code == installed for entry in judges)
    code = installed if has_installed else _usual(sound, lambda entry: entry.model_code)
    of_code = [entry for entry in sound if entry.model_code in ("", code)]
    identity = _usual(of_code, lambda entry: _identity(entry.spec))
    specs = {_identity(entry.spec): entry.spec for entry in of_code}
    return Standard(specs.get(identity), code, data)


def _usual(entries: Sequence[Entry], fact: Callable[[Entry], str]) -> str:
    """What most results of the benchmark say, or most of the home if it has no others.

    Empty texts, of old results, do not count.
    """
    for group in ([entry for entry in entries if not entry.is_own], entries):
        counts = Counter(text for text in map(fact, group) if text)
        if counts:
            return max(sorted(counts), key=lambda text: counts[text])
    return ""


def _identity(spec: RunSpec) -> str:
    return digest(chosen_settings(spec))


def _spelled(settings: Mapping[str, object], spec: RunSpec) -> str:
    """Settings in one line: batch=4, lr=0.004."""
    return ", ".join(f"{_short(knob, spec)}={value}" for knob, value in settings.items())


def _doubt(entry: Entry, declared: Declared) -> str:
    """Why the steps of an unmodified preset are not those that its track is committed to."""
    spec = entry.spec
    if entry.is_closed_form:
        return ""
    counted = declared.registry.calibrated(spec.track, spec.task, spec.row.removesuffix(FEATURES))
    if counted is not None:
        is_other = any(spec.steps.get(phase) != count for phase, count in counted.items())
        return "steps of an earlier count" if is_other else ""
    if entry.steps_from == "track" and declared.track(spec.track).counts_steps:
        return "steps not counted"
    # also by another registry: this one has no count of the pair
    if entry.steps_from in ("home", "registry") and not entry.is_own:
        return "steps counted on another machine"
    return ""


def _short(dotted: str, spec: RunSpec) -> str:
    """A knob without its section where no other section has a knob of this name."""
    section, _, name = dotted.partition(".")
    if section == "steps":
        return "steps" if len(spec.trained_steps) == 1 else dotted
    return dotted if name in spec.model_params and name in spec.train_params else name


def _variant_order(row: Row) -> tuple[bool, float, str]:
    return not row.seeds, row.error if row.seeds else 0.0, row.name


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
    models = [row for row in ordered if not row.is_floor]
    # places of floors alone would read as if these were the best of the board
    has_places = not models or any(row.scores.is_testable for row in models)
    places = ranks(scores, p_values) if has_places else [None] * len(ordered)
    ranked = []
    for index, (row, rank) in enumerate(zip(ordered, places, strict=True)):
        # a closed form lacks no seed
        is_open = index > 0 and not row.is_exact and p_values[index, index - 1] >= LEVEL
        needs = _needs(scores[index], scores[index - 1], pairs) if is_open else ""
        ranked.append(replace(row, rank=rank, needs=needs))
    return ranked, p_values


def _needs(row: Scores, above: Scores, pairs: int) -> str:
    """What would separate a row from the one above it."""
    missing = seeds_needed(row, above, pairs)
    if missing is None:
        return "more seeds and more test samples"
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


# -------------------------------------------------------------------------------------------- marks


def _marked(rows: Sequence[Row], declared: Declared) -> list[Row]:
    """The rows of a board with their normalised CPU-seconds and their marks."""
    registry = declared.registry
    blind = next((row for row in rows if row.name == registry.blind_floor and row.seeds), None)
    timed = [replace(row, normalised_cpu_s=_normalised_cpu_s(row, registry)) for row in rows]
    return [replace(row, marks=tuple(_marks(row, blind, declared))) for row in timed]


def _normalised_cpu_s(row: Row, registry: Registry) -> float:
    """Training in CPU-seconds of the calibrating machine, by the reference step timed beside it."""
    pairs = [
        (entry.costs.get("train_cpu_s"), entry.costs.get("reference_step_s")) for entry in row.done
    ]
    values = [spent * registry.reference_step_s / step for spent, step in pairs if spent and step]
    return float(np.mean(values)) if values else math.nan


def _marks(row: Row, blind: Row | None, declared: Declared) -> Iterator[Mark]:
    yield from _blind_mark(row, blind)
    if not row.is_converged and row.ending is not None:
        yield Mark("not converged", _ending_in_words(row))
    yield from _budget_mark(row, declared)
    spec = row.entries[0].spec
    score = declared.registry.published_score(spec.task, spec.model, spec.resolution)
    if score is not None and row.published is not None:
        yield Mark("published", f"{score.rel_l2:.3g} on the same files, {score.cite}")
    names = sorted({name for entry in row.done for name in _changed_plugins(entry, declared.here)})
    if names:
        yield Mark("code changed", f"{', '.join(names)} since the results were computed")


def _blind_mark(row: Row, blind: Row | None) -> Iterator[Mark]:
    """An error that is not below that of the floor that sees no input."""
    if blind is None or row.is_floor or not row.seeds or row.error < blind.error:
        return
    yield Mark("did not learn", f"{blind.name}, which sees no input, has {blind.error:.3g}")


def _ending_in_words(row: Row) -> str:
    ending = row.ending
    assert ending is not None
    words = f"{ending.epochs:.0f} epochs"
    if math.isfinite(ending.valid_fall):
        words += f", validation fell by {100 * ending.valid_fall:.1f} % over the last tenth"
    if ending.best_at < 0.5:
        words += f", best after {100 * ending.best_at:.0f} % of the steps"
    return words


def _budget_mark(row: Row, declared: Declared) -> Iterator[Mark]:
    """CPU-seconds that miss those of the track, on tracks that are counted in them.

    Rows with features take the steps of the row without, whatever those then cost; variants may
    take any.
    """
    track = declared.track(row.entries[0].spec.track)
    is_on_cpu = all(entry.environment.get("device", "cpu") == "cpu" for entry in row.done)
    is_free = row.has_features or row.is_variant or not row.steps
    if not track.counts_steps or not is_on_cpu or is_free:
        return
    is_known = math.isfinite(row.normalised_cpu_s)
    spent = row.normalised_cpu_s if is_known else row.cost("train_cpu_s")
    if abs(spent - track.train_cpu_s) > SLACK * track.train_cpu_s:
        unit = "normalised CPU-s" if is_known else "CPU-s"
        yield Mark("off the budget", f"{spent:.0f} of {track.train_cpu_s:.0f} {unit}")


def _changed_plugins(entry: Entry, here: Installation) -> Iterator[str]:
    """Names of plugins whose installed code is not that of the result, where both are known."""
    names = {"model": entry.spec.model}
    with suppress(PluginError):  # no such dataset is installed
        known = [name for kind, name in here.code if kind == "dataset"]
        names["dataset"] = dataset_name(entry.spec.task, known)
    for kind, name in names.items():
        recorded, installed = entry.code.get(kind), here.code.get((kind, name))
        if recorded and installed and installed != recorded:
            yield name
