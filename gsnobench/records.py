"""RunSpec, what is requested; RunResult, what came out; both as small, validated JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from gsnobench.errors import DataError
from gsnobench.files import digest, write_text
from gsnobench.reading import parse_json, read_text
from gsnobench.shown import facts_html

SCHEMA = 2
FEATURES = "+features"  # end of a preset's name where the model is offered computed inputs
FEATURES_REVISION = 1  # to be raised when those change: results with them are then outdated
Status = Literal["done", "diverged", "declined", "failed", "pruned"]
# registry.toml, the plugin, a calibration of this home, or the track's own rule
StepsFrom = Literal["registry", "plugin", "home", "track"]


@dataclass(frozen=True)
class RunSpec:
    """Everything that defines one run, and nothing that only one machine knows."""

    task: str  # canonical id: swe@5-46
    version: int
    track: str
    resolution: int
    sizes: Mapping[str, int]
    data: Mapping[str, Any]  # data knobs
    data_seed: int
    model: str
    preset: str
    revision: int
    model_params: Mapping[str, Any]
    train_params: Mapping[str, Any]
    steps: Mapping[str, int]  # phase -> optimiser steps; 0 for a closed-form phase
    seed: int
    source: str = ""  # content hash of a user's own file; empty for a dataset plugin
    # dotted knobs (model.k_s, train.lr, data.psi) that have their declared default
    defaults: Sequence[str] = ()
    origin: str = ""  # who chose other settings than the preset's: "tuned, 12 trials"; or a person

    @cached_property
    def key(self) -> str:
        """Hash of the spec without knobs at their default: equal runs have equal keys everywhere.

        A new knob whose default is the old behaviour thus changes no key.
        """
        return digest(self.identity())

    def identity(self) -> dict[str, Any]:
        """What the key is a hash of."""
        defaults = frozenset(self.defaults)
        body = self.to_dict()
        del body["defaults"], body["origin"]
        for section, entry in KNOBS.items():
            values = body[entry].items()
            body[entry] = {
                name: value for name, value in values if f"{section}.{name}" not in defaults
            }
        return body

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that was chosen for the row, as dotted names; the data belong to the board."""
        sections = {
            "model": self.model_params,
            "train": self.train_params,
            "steps": self.trained_steps,
        }
        return {
            f"{section}.{name}": value
            for section, values in sections.items()
            for name, value in values.items()
        }

    def __repr__(self) -> str:
        return f"<RunSpec {self.short}: {self.title}>"

    @property
    def title(self) -> str:
        """What is trained on what, in a few words."""
        return f"{self.row} on {self.task}, track {self.track}, seed {self.seed}"

    @property
    def short(self) -> str:
        """The first twelve digits of the key: the name of the run's folder and files."""
        return self.key[:12]

    @property
    def row(self) -> str:
        """The row of a board."""
        return f"{self.model}@{self.preset}"

    @property
    def trained_steps(self) -> dict[str, int]:
        """Steps of the phases that take any: closed forms follow from the knobs."""
        return {phase: count for phase, count in self.steps.items() if count}

    @property
    def has_features(self) -> bool:
        """Whether the model was offered inputs that nobody published a number for."""
        return self.preset.endswith(FEATURES)

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in SPEC_ENTRIES}
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in values.items()
        } | {"defaults": sorted(self.defaults)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], label: str = "spec") -> RunSpec:
        """Read back; an entry that is unknown, missing or of the wrong kind is named."""
        if not isinstance(values, Mapping):
            raise DataError(f"{label}: is no object; was it written by another version?")
        if wrong := sorted(set(SPEC_ENTRIES).symmetric_difference(values)):
            raise DataError(
                f"{label}: entries {', '.join(wrong)} are unknown or missing; was it written by "
                "another version?"
            )
        if mistyped := [name for name, fits in SPEC_KINDS.items() if not fits(values[name])]:
            raise DataError(f"{label}: {', '.join(mistyped)} is of the wrong kind; was it edited?")
        return cls(**{**values, "defaults": tuple(sorted(values["defaults"]))})

    @classmethod
    def from_json(cls, text: str, label: str = "spec") -> RunSpec:
        """Read back from JSON."""
        values = parse_json(text, label=label, expected="a spec that `run` wrote")
        return cls.from_dict(values, label)


SPEC_ENTRIES = tuple(entry.name for entry in fields(RunSpec))


def _is_whole(value: object) -> bool:
    return type(value) is int


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    """A number of JSON, where not-a-number is null."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _is_anything(value: object) -> bool:
    return True


def _lists(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(map(fits, value))


def _tables(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(map(fits, value.values()))


SPEC_KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("version", "resolution", "data_seed", "revision", "seed"), _is_whole),
    **dict.fromkeys(("task", "track", "model", "preset", "source", "origin"), _is_text),
    **dict.fromkeys(("data", "model_params", "train_params"), _tables(_is_anything)),
    **dict.fromkeys(("sizes", "steps"), _tables(_is_whole)),
    "defaults": _lists(_is_text),
}
RESULT_KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("reason", "status", "steps_from"), _is_text),
    "scores": _tables(_tables(_tables(_is_number))),
    "samples": _tables(_tables(_tables(_lists(_is_number)))),
    **dict.fromkeys(("frames", "bands"), _tables(_tables(_lists(_is_number)))),
    "curve": _lists(_tables(_is_anything)),
    "costs": _tables(_is_number),
    **dict.fromkeys(("data", "code"), _tables(_is_text)),
    **dict.fromkeys(("environment", "changed"), _tables(_is_anything)),
}
# section of the command line -> entry of a spec that holds its knobs
KNOBS = {"model": "model_params", "train": "train_params", "data": "data"}


@dataclass(frozen=True)
class RunResult:
    """What came out; small enough (<= 25 kB) to be kept in a repository as evidence."""

    spec: RunSpec
    status: Status
    reason: str = ""
    # split -> field -> metric
    scores: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    # test and test_ood -> field -> metric -> one value per sample
    samples: Mapping[str, Mapping[str, Mapping[str, list[float]]]] = field(default_factory=dict)
    # field -> quantile -> one value per frame
    frames: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)
    curve: list[Mapping[str, Any]] = field(default_factory=list)
    costs: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    # field -> "truth" or "error" -> one value per band of modes
    bands: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)
    # dotted settings that differ from the preset at the committed steps; none: the row itself
    changed: Mapping[str, Any] = field(default_factory=dict)
    steps_from: StepsFrom = "track"  # who counted the steps that the preset is committed to
    code: Mapping[str, str] = field(default_factory=dict)  # digests of the plugins' source

    @property
    def headline(self) -> float:
        """Mean over scored fields of the relative L2 on field - reference, on the test split."""
        test = self.scores.get("test", {})
        return test["headline"]["rel_l2"] if "headline" in test else math.nan

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec.short}: {self.spec.title}: {self._end}>"

    @property
    def _end(self) -> str:
        """How it ended, with the error if it has one."""
        reason = f", {self.reason}" if self.reason else ""
        error = f", test error {self.headline:.4g}" if math.isfinite(self.headline) else ""
        return f"{self.status}{reason}{error}"

    def facts(self) -> dict[str, str]:
        """What a reader wants to know first, by name."""
        scores = self.scores.get("test", {})
        errors = {
            f"test error of {name}": f"{values['rel_l2']:.4g}"
            for name, values in scores.items()
            if name != "headline" and len(scores) > 2 and "rel_l2" in values
        }
        valid = self.scores.get("valid", {}).get("headline", {}).get("rel_l2")
        costs = {
            "training": f"{self.costs.get('train_cpu_s', 0.0):.1f} CPU-s",
            "parameters": f"{self.costs.get('parameters', 0):,.0f}",
        }
        changed = ", ".join(f"{name}={value}" for name, value in self.changed.items())
        return {
            "ended": self._end,
            **errors,
            "validation error": "" if valid is None else f"{valid:.4g}",
            "settings changed": changed,
            **(costs if self.costs else {}),
            "run": self.spec.short,
        }

    def _repr_html_(self) -> str:
        return facts_html(self.spec.title, self.facts())

    def to_json(self) -> str:
        """One JSON document; not-a-number is written as null, since JSON has no NaN."""
        entries = {name: getattr(self, name) for name in RESULT_ENTRIES}
        body = plain({"schema": SCHEMA, "key": self.spec.key, **entries})
        body["spec"] = plain(self.spec.to_dict())
        text = json.dumps({**body, "digest": digest(body)}, separators=(",", ":"), allow_nan=False)
        return text + "\n"

    @classmethod
    def from_json(cls, text: str, label: str = "result") -> RunResult:
        """Read back and validate: schema, digest, status, key."""
        body = parse_json(text, label=label, expected="the JSON that `run` writes")
        if not isinstance(body, dict) or "schema" not in body:
            raise DataError(f"{label}: not a gsnobench result; expected the JSON that `run` writes")
        schema = body["schema"]
        if schema != SCHEMA:
            raise DataError(f"{label}: schema {schema!r} is not {SCHEMA}; {_remedy(schema)}")
        known = {"schema", "key", "digest", *RESULT_ENTRIES}
        if wrong := sorted(known.symmetric_difference(body)):
            raise DataError(
                f"{label}: entries {', '.join(wrong)} are unknown or missing; was it edited?"
            )
        if body.pop("digest") != digest(body):
            raise DataError(f"{label}: its digest does not match; the file was edited or damaged")
        if mistyped := [name for name, fits in RESULT_KINDS.items() if not fits(body[name])]:
            raise DataError(f"{label}: {', '.join(mistyped)} is of the wrong kind; was it edited?")
        del body["schema"]
        key = body.pop("key")
        result = cls(**{**body, "spec": RunSpec.from_dict(body["spec"], f"{label}: spec")})
        if result.status not in get_args(Status):
            statuses = ", ".join(get_args(Status))
            raise DataError(
                f"{label}: status {result.status!r} is unknown; expected one of {statuses}"
            )
        if result.spec.key != key:
            raise DataError(
                f"{label}: the key does not match the spec; the file was edited or damaged"
            )
        return result

    @property
    def is_row(self) -> bool:
        """Whether this is the unmodified preset at its committed steps."""
        return not self.changed

    def save(self, path: Path) -> None:
        """Write the JSON atomically."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> RunResult:
        """Read the JSON of a run."""
        return cls.from_json(read_text(path, expected="a result JSON"), label=str(path))


RESULT_ENTRIES = tuple(entry.name for entry in fields(RunResult))


def _remedy(schema: object) -> str:
    if isinstance(schema, int) and schema < SCHEMA:
        return "`gsnobench migrate FOLDER` brings old results to it"
    return "use the version that wrote it"


def evidence_path(root: Path, spec: RunSpec) -> Path:
    """The file of a result under `results/`: track, task, row, key."""
    return root / spec.track / spec.task / spec.row / f"{spec.short}.json"


def rounded(value: float, digits: int = 4) -> float:
    """A number with few significant digits: per-sample errors need no more."""
    return float(f"{value:.{digits}g}")


def plain(value: Any) -> Any:
    """What JSON can hold: not-a-number becomes null."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
