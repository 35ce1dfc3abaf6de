"""The card of a model: one Markdown page from its declaration, its parameter counts and the results
on record.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gsnobench.declare import Capability, Model
from gsnobench.errors import GsnobenchError, ParamError
from gsnobench.params import Params
from gsnobench.plugins import kind_of, listed, load
from gsnobench.records import RunResult
from gsnobench.runs.plan import Plan, Request, make_plan

COSTS = {
    "parameters": "{:,.0f}",
    "prepare_s": "{:.1f}",
    "train_cpu_s": "{:.0f}",
    "inference_s": "{:.3f}",
    "peak_mb": "{:.0f}",
}


def card(name: str, results: Path | None = None) -> str:
    """The page of one model; `results` is a folder of evidence."""
    kind = kind_of(name)
    if kind != "model":
        raise ParamError(f"{name}: is a {kind}; cards are made for models; drop --card")
    model: Model = load("model", name)
    sections = [_heading(model), _capabilities(model), _presets(model), _parameters(model)]
    sections += [_differences(model), _knobs(model.params), _records(model, results)]
    made = f"Made by `gsnobench show {name} --card`; change the declaration, not this page."
    return "\n\n".join([*filter(None, sections), made]) + "\n"


def _heading(model: Model) -> str:
    module = inspect.getmodule(model.params)
    text = inspect.cleandoc(module.__doc__ or "") if module is not None else ""
    return (
        f"# {model.name}: {model.title}\n\n```text\n{text}\n```\n\nCite: {model.cites or 'nothing'}"
    )


def _capabilities(model: Model) -> str:
    rows = [[one.value, "yes" if one in model.capabilities else "no"] for one in Capability]
    return "## Can do\n\n" + _table(("what", model.name), rows)


def _presets(model: Model) -> str:
    """What every preset sets, one column a preset; `-` is the default."""
    columns = {name: _settings_of(model, name) for name in model.presets}
    names = list(dict.fromkeys(knob for column in columns.values() for knob in column))
    rows = [
        [f"`{knob}`", *(str(column.get(knob, "-")) for column in columns.values())]
        for knob in names
    ]
    text = "## Presets\n\n" + _table(("setting", *columns), rows)
    own = [
        f"- `{task}`, `{preset}`: "
        + ", ".join(f"`{knob}` {value}" for knob, value in knobs.items())
        for task, presets in model.settings.items()
        for preset, knobs in presets.items()
    ]
    return text + ("\n\nOwn settings of a task:\n\n" + "\n".join(own) if own else "")


def _settings_of(model: Model, name: str) -> dict[str, Any]:
    preset = model.presets[name]
    return {
        **{f"model.{knob}": value for knob, value in preset.model.items()},
        **{f"train.{knob}": value for knob, value in preset.train.items()},
        **{f"scaling of {what}": getattr(preset, what) for what in ("inputs", "outputs", "points")},
        "known boundary values": "imposed" if preset.impose_boundary else "predicted",
    }


def _parameters(model: Model) -> str:
    """Parameter counts on the tasks of all installed datasets, paper track."""
    rows = []
    for entry in listed("dataset"):
        try:
            cells = [
                _count(make_plan(Request(model.name, entry.name, track="paper", preset=name)))
                for name in model.presets
            ]
        except GsnobenchError as error:
            cells = [str(error)] * len(model.presets)
        rows.append([entry.name, *cells])
    return "## Parameters\n\n" + _table(("task", *model.presets), rows)


def _count(plan: Plan) -> str:
    """Trained real numbers, by building the module without memory."""
    import torch

    from gsnobench.runs.costs import count_parameters

    if plan.declined is not None:
        return f"declined: {plan.declined}"
    with torch.device("meta"):
        module = plan.model.build(plan.model_task, plan.params)
    return f"{count_parameters(module):,}"


def _differences(model: Model) -> str:
    return (
        "## Differs\n\n" + "\n".join(f"- {text}" for text in model.differs) if model.differs else ""
    )


def _knobs(params: type[Params]) -> str:
    rows = [
        [f"`--model.{knob.name}`", str(knob.default), knob.range, knob.help]
        for knob in params.knobs()
    ]
    return (
        "## Knobs\n\n" + _table(("knob", "default", "values", "what it does"), rows) if rows else ""
    )


def _records(model: Model, results: Path | None) -> str:
    """Scores and costs of the runs on record."""
    rows = [
        [
            result.spec.track,
            result.spec.task,
            result.spec.preset,
            str(result.spec.seed),
            f"{result.headline:.4f}",
            *(
                form.format(result.costs[cost]) if cost in result.costs else "-"
                for cost, form in COSTS.items()
            ),
        ]
        for result in _evidence(model.name, results)
    ]
    header = (
        "track",
        "task",
        "preset",
        "seed",
        "rel. L2",
        "parameters",
        "prepare s",
        "train CPU-s",
        "inference s",
        "peak MB",
    )
    return "## On record\n\n" + _table(header, rows) if rows else ""


def _evidence(name: str, results: Path | None) -> Iterator[RunResult]:
    if results is None:
        return
    found = (RunResult.load(path) for path in results.glob(f"*/*/{name}@*/*.json"))
    done = [result for result in found if result.status == "done"]
    yield from sorted(
        done, key=lambda one: (one.spec.track, one.spec.task, one.spec.preset, one.spec.seed)
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
