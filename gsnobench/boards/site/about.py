"""What tasks and models are, for pages: a committed file that a command writes from the plugins.

Boards are functions of result files and load no plugin. So `gsnobench leaderboard about` writes
what plugins declare to `about.json` once, pages read that file, and a test tells when it is old.
The words come from a plugin's docstring: lines such as `Domain    a unit square`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsnobench.data import Task
from gsnobench.errors import DataError
from gsnobench.plugins import Kind, Listed, listed, load

if TYPE_CHECKING:
    from gsnobench.data import Field
    from gsnobench.declare import Dataset, Model

ABOUT = "about.json"
FIELDS = ("inputs", "outputs")  # entries of a task that hold quantities
SECTION = re.compile(r"([A-Z][A-Za-z]*):? {2,}(.*)")
YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@dataclass(frozen=True)
class FieldAbout:
    """One quantity with its unit."""

    name: str
    unit: str
    reference: float = 0.0  # subtracted before it is scored
    help: str = ""


@dataclass(frozen=True)
class TaskAbout:
    """One task without its time window."""

    dataset: str
    title: str
    equations: Sequence[str]  # MathML
    words: Mapping[str, str]  # the sections of the docstring: Equation, Domain, Varies, ...
    inputs: Sequence[FieldAbout]  # per node or per sample, constant in time
    outputs: Sequence[FieldAbout]
    frames: int
    last_time: float
    time_unit: str
    length_unit: str
    dim: int
    fixed_mesh: bool
    # a knob and its values: what sets this variant apart from the dataset's first task
    differs: Sequence[str] = ()


@dataclass(frozen=True)
class ModelAbout:
    """One model."""

    title: str
    summary: str
    family: str
    year: str
    cites: str
    paper: str  # addresses
    code: str
    formula: str
    presets: Sequence[str]
    is_floor: bool
    means: Mapping[str, str] = field(default_factory=dict)  # of computing -> yes or partly


@dataclass(frozen=True)
class About:
    """All that is known; empty where nobody has written it."""

    tasks: Mapping[str, TaskAbout] = field(default_factory=dict)
    models: Mapping[str, ModelAbout] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_about(folder: Path) -> About:
    """The file of a folder of boards; nothing is known where there is none."""
    path = folder / ABOUT
    if not path.is_file():
        return About()
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        tasks = {name: _task_of(values) for name, values in body["tasks"].items()}
        models = {name: ModelAbout(**values) for name, values in body["models"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path}: cannot be read ({error}); `gsnobench leaderboard about` writes it again"
        ) from error
    return About(tasks, models)


def _task_of(values: Mapping[str, Any]) -> TaskAbout:
    fields = {name: [FieldAbout(**entry) for entry in values[name]] for name in FIELDS}
    return TaskAbout(**{**values, **fields})


# ------------------------------------------------------------------------------------- from plugins


def make_about(package: str = "") -> About:
    """What installed plugins declare, all or those of a package; imports them."""
    tasks: dict[str, TaskAbout] = {}
    for entry in _usable("dataset", package):
        dataset = load("dataset", entry.name)
        for variant in ("", *dataset.variants):
            name = f"{dataset.name}_{variant}" if variant else dataset.name
            tasks[name] = _about_task(dataset, variant)
    models = [load("model", entry.name) for entry in _usable("model", package)]
    return About(tasks, {model.name: _about_model(model) for model in models})


def _usable(kind: Kind, package: str) -> list[Listed]:
    entries = [entry for entry in listed(kind) if entry.problem is None]
    return [entry for entry in entries if package in ("", entry.package)]


def _about_task(dataset: Dataset, variant: str) -> TaskAbout:
    from latex2mathml.converter import convert

    task = _declared(dataset, variant)
    words = sections(_docstring(dataset.setup))
    formulas = words.pop("TeX", "").splitlines()
    return TaskAbout(
        dataset=dataset.name,
        title=dataset.title,
        equations=[convert(formula, display="block") for formula in formulas],
        words={section: " ".join(text.split()) for section, text in words.items()},
        inputs=[_about_field(entry) for entry in (*task.static, *task.scalars)],
        outputs=[_about_field(entry) for entry in task.fields],
        frames=len(task.times),
        last_time=task.times[-1],
        time_unit=dataset.time_unit,
        length_unit=dataset.length_unit,
        dim=dataset.dim,
        fixed_mesh=task.fixed_mesh,
        differs=list(_differences(dataset, variant)),
    )


def _differences(dataset: Dataset, variant: str) -> Iterator[str]:
    """Each knob that a variant sets: its value, that of the dataset's first task, its meaning."""
    usual = dataset.params.make(label="data")
    knobs = {knob.name: knob for knob in dataset.params.knobs()}
    for name, value in dataset.variants.get(variant, {}).items():
        yield f"`{name}` {value}, there {getattr(usual, name)} ({knobs[name].help})"


def _declared(dataset: Dataset, variant: str) -> Task:
    """The task as its knobs make it, without a window and without sizes."""
    params = dataset.params.make(dataset.variants.get(variant, {}), {}, label="data")
    task = Task(
        id=dataset.name,
        dataset=dataset.name,
        fields=dataset.fields,
        dim=dataset.dim,
        static=dataset.static,
        scalars=dataset.scalars,
        times=dataset.times,
        fixed_mesh=dataset.fixed_mesh,
    )
    return dataset.adjust(task, params)


def _about_field(entry: Field) -> FieldAbout:
    return FieldAbout(entry.name, entry.unit, entry.reference, entry.help)


def _about_model(model: Model) -> ModelAbout:
    text = _docstring(model.build)
    words = sections(text)
    years = YEAR.findall(model.cites)
    return ModelAbout(
        title=model.title or model.name,
        summary=text.partition("\n")[0],
        family=words.get("Family", "closed form" if model.is_floor else ""),
        year=years[-1] if years else "",
        cites=model.cites,
        paper=words.get("Paper", ""),
        code=words.get("Code", ""),
        formula=words.get("Formula", ""),
        presets=list(model.presets),
        is_floor=model.is_floor,
        means=_means(words.get("Means", "")),
    )


def _means(text: str) -> dict[str, str]:
    """`attention, partly spectral in time`: each of them, and how much."""
    listed = [word for word in " ".join(text.split()).split(", ") if word]
    return {
        word.removeprefix("partly "): "partly" if word.startswith("partly ") else "yes"
        for word in listed
    }


def _docstring(function: Any) -> str:
    module = inspect.getmodule(function)
    return inspect.cleandoc(module.__doc__ or "") if module is not None else ""


def sections(docstring: str) -> dict[str, str]:
    """Section -> text: a line `Domain    a square`, and the indented lines that follow it."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in docstring.splitlines():
        begins = SECTION.fullmatch(line)
        if begins:
            lines = found.setdefault(begins[1], [])
            lines.append(begins[2])
        elif line.startswith(" "):
            lines.append(line.strip())
        else:
            lines = []
    return {name: "\n".join(texts).strip() for name, texts in found.items()}
