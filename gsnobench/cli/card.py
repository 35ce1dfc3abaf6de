"""The card of a model: one Markdown page of its declaration, parameter counts and results."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gsnobench.boards import markdown
from gsnobench.cli.console import knob_table
from gsnobench.declare import Capability, Model
from gsnobench.errors import GsnobenchError, ParamError
from gsnobench.plugins import kind_of, listed, load
from gsnobench.records import RunResult
from gsnobench.runs.plan import Plan, Request, make_plan

COSTS = {  # title -> entry of the result's costs, format
    "parameters": ("parameters", "{:,.0f}"),
    "prepare s": ("prepare_s", "{:.1f}"),
    "train CPU-s": ("train_cpu_s", "{:.0f}"),
    "inference s": ("inference_s", "{:.3f}"),
    "peak MB": ("peak_mb", "{:.0f}"),
}


def card(name: str, results: Path | None = None) -> str:
    """The page of one model; `results` is a folder of result files."""
    kind = kind_of(name)
    if kind != "model":
        raise ParamError(f"{name}: is a {kind}; cards are made for models; drop --card")
    model = load("model", name)
    sections = [_heading(model), _capabilities(model), _presets(model), _parameters(model)]
    sections += [_differences(model), _knobs(model), _records(model, results)]
    made = f"Made by `gsnobench show {name} --card`; change the declaration, not this page."
    return "\n\n".join([*filter(None, sections), made]) + "\n"


def _heading(model: Model) -> str:
    module = inspect.getmodule(model.params)
    text = inspect.cleandoc(module.__doc__ or "") if module is not None else ""
    title, cites = f"# {model.name}: {model.title}", f"Cite: {model.cites or 'nothing'}"
    return f"{title}\n\n```text\n{text}\n```\n\n{cites}"


def _capabilities(model: Model) -> str:
    rows = [
        [capability.value, "yes" if capability in model.capabilities else "no"]
        for capability in Capability
    ]
    return _section("Can do", ("what", model.name), rows)


def _presets(model: Model) -> str:
    """What every preset sets, one column per preset; `-` is the default."""
    columns = {name: _settings_of(model, name) for name in model.presets}
    names = list(dict.fromkeys(knob for column in columns.values() for knob in column))
    rows = [
        [f"`{knob}`", *(str(column.get(knob, "-")) for column in columns.values())]
        for knob in names
    ]
    text = _section("Presets", ("setting", *columns), rows)
    lines = []
    for task, presets in model.settings.items():
        for preset, knobs in presets.items():
            values = ", ".join(f"`{knob}` {value}" for knob, value in knobs.items())
            lines.append(f"- `{task}`, `{preset}`: {values}")
    return text + ("\n\nOwn settings of a task:\n\n" + "\n".join(lines) if lines else "")


def _settings_of(model: Model, name: str) -> dict[str, Any]:
    preset = model.presets[name]
    settings: dict[str, Any] = {f"model.{knob}": value for knob, value in preset.model.items()}
    settings |= {f"train.{knob}": value for knob, value in preset.train.items()}
    settings |= {
        "scaling of inputs": preset.inputs,
        "scaling of outputs": preset.outputs,
        "scaling of points": preset.points,
        "known boundary values": "imposed" if preset.impose_boundary else "predicted",
    }
    return settings


def _parameters(model: Model) -> str:
    """Parameter counts on the tasks of all installed datasets, paper track."""
    rows = [[entry.name, *_counts(model, entry.name)] for entry in listed("dataset")]
    return _section("Parameters", ("task", *model.presets), rows)


def _counts(model: Model, task: str) -> list[str]:
    """One count per preset, or why there is none."""
    try:
        return [
            _count(make_plan(Request(model.name, task, track="paper", preset=preset)))
            for preset in model.presets
        ]
    except GsnobenchError as error:
        return [str(error)] * len(model.presets)


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
    lines = "\n".join(f"- {text}" for text in model.differs)
    return f"## Differs\n\n{lines}" if lines else ""


def _knobs(model: Model) -> str:
    header, rows = knob_table(model.params, "model")
    return _section("Knobs", header, [[f"`{name}`", *cells] for name, *cells in rows])


def _records(model: Model, results: Path | None) -> str:
    """Scores and costs of the runs on record."""
    header = ("track", "task", "preset", "seed", "rel. L2", *COSTS)
    rows = []
    for result in _evidence(model.name, results):
        spec, costs = result.spec, result.costs
        efforts = [
            form.format(costs[cost]) if cost in costs else "-" for cost, form in COSTS.values()
        ]
        error = f"{result.headline:.4f}"
        rows.append([spec.track, spec.task, spec.preset, str(spec.seed), error, *efforts])
    return _section("On record", header, rows)


def _evidence(name: str, results: Path | None) -> list[RunResult]:
    """The finished runs of a model, in the order of the table."""
    paths = results.glob(f"*/*/{name}@*/*.json") if results is not None else ()
    loaded = [RunResult.load(path) for path in paths]
    done = [result for result in loaded if result.status == "done"]
    return sorted(done, key=_order)


def _order(result: RunResult) -> tuple[str, str, str, int]:
    spec = result.spec
    return spec.track, spec.task, spec.preset, spec.seed


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A heading and a table of words; nothing where there is no row."""
    if not rows:
        return ""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return f"## {title}\n\n{markdown.table(header, cells, words=len(header))}"
