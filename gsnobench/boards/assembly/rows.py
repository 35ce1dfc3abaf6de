"""The results of a board -> its rows and variants: seeds of two settings are never averaged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gsnobench.boards.assembly.declared import Declared
from gsnobench.boards.board import Row, chosen_settings
from gsnobench.boards.evidence import Entry
from gsnobench.files import digest
from gsnobench.records import FEATURES, RunSpec, Status


def board_rows(entries: Sequence[Entry], declared: Declared) -> list[Row]:
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


def _state(entries: Sequence[Entry]) -> tuple[Status, str]:
    """State and reason of a row: done if any seed is, with what became of the others."""
    lost = [entry for entry in entries if entry.status != "done"]
    if not lost:
        return "done", ""
    if len(lost) == len(entries):
        return lost[0].status, lost[0].reason
    reasons = sorted({f"{entry.status}: {entry.reason}" for entry in lost})
    return "done", f"{len(lost)} of {len(entries)} seeds {'; '.join(reasons)}"
