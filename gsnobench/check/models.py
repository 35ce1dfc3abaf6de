"""The contract of a model: its declaration is true, and it treats all samples and nodes alike."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import nn

from gsnobench.check.findings import (
    Broken,
    Finding,
    Rule,
    Skip,
    complaints,
    judge,
    require,
)
from gsnobench.check.fixture import (
    BATCH,
    ModelOnTask,
    permuted,
    permuted_geometry,
    placed,
    predict,
    set_up,
)
from gsnobench.check.toy_tasks import ToyTask, make_toy_tasks
from gsnobench.data import Array
from gsnobench.declare import Capability, Model, Part, Phase
from gsnobench.errors import describe_error
from gsnobench.files import Cache
from gsnobench.training.checkpoint import load_state
from gsnobench.training.fit import Job, fit, fit_view
from gsnobench.training.metrics import relative_l2
from gsnobench.training.optimisation import TrainParams, trained_parameters
from gsnobench.training.rollout import rollout

TOLERANCE = 1e-4  # relative to the largest output: float32 sums in another order


def check_model(model: Model) -> list[Finding]:
    """All rules, in the order of their codes."""
    with tempfile.TemporaryDirectory() as folder:
        return _findings(model, Cache(Path(folder)))


def _findings(model: Model, cache: Cache) -> list[Finding]:
    toys = {toy.name: toy for toy in make_toy_tasks()}
    declared = [judge(rule, {"": model}) for rule in DECLARATION]
    accepted = _accepted(model, toys)
    subjects, broken = _subjects(model, accepted, cache)
    sentence = "geometry, summary and module can be made on every accepted task"
    built = Finding("M003", sentence, not broken, "; ".join(broken))
    others = {name: name for name in model.presets if name != model.default_preset()}
    every_preset = Rule[str](
        "M017",
        "every preset builds and predicts",
        lambda name: _preset_works(model, name, accepted, cache),
    )
    behaviour = [judge(rule, subjects) for rule in BEHAVIOUR]
    return [*declared, built, *behaviour, judge(every_preset, others)]


def _accepted(model: Model, toys: Mapping[str, ToyTask]) -> dict[str, ToyTask]:
    try:
        return {name: toy for name, toy in toys.items() if model.declines(toy.task) is None}
    except Exception:  # M002 calls declines() too and reports what it raised
        return {}


def _subjects(
    model: Model, toys: Mapping[str, ToyTask], cache: Cache
) -> tuple[dict[str, ModelOnTask], list[str]]:
    """The model set up on every toy task where that is possible, and why it is not elsewhere."""
    subjects, broken = {}, []
    for name, toy in toys.items():
        try:
            subject = set_up(model, model.default_preset(), toy, cache)
            subject.build(seed=0)
            subject.loader(toy.train)
            subjects[name] = subject
        except Exception as error:
            broken.append(f"{name}: {describe_error(error)}")
    return subjects, broken


# -------------------------------------------------------------------------------------- declaration


def _is_complete(model: Model) -> None:
    undescribed = [knob.name for knob in model.params.knobs() if not knob.help]
    complaints(
        [
            (bool(model.title), "title is empty; name the model as its paper does"),
            (bool(model.cites), "cites is empty; cite the paper, or say 'unpublished'"),
            (bool(model.capabilities), "capabilities are empty; declare what the model can do"),
            (bool(model.presets), "presets are empty; declare at least 'default'"),
            (not undescribed, f"knobs without help: {', '.join(undescribed)}"),
            (model.revision >= 1, f"revision is {model.revision}; count from 1"),
        ]
    )
    for name, preset in model.presets.items():
        model.params.make(preset.model, label=f"preset {name}: model")
        TrainParams.make(preset.train, label=f"preset {name}: train")
    for task, presets in model.settings.items():
        for name, values in presets.items():
            require(name in model.presets, f"settings of {task} name the unknown preset {name!r}")
            for section, params in (("model", model.params), ("train", TrainParams)):
                own = {
                    knob.removeprefix(f"{section}."): value
                    for knob, value in values.items()
                    if knob.startswith(f"{section}.")
                }
                params.make(own, label=f"settings of {task}: {section}")


def _capabilities(model: Model) -> str:
    toys = make_toy_tasks()
    reasons = {toy.name: model.declines(toy.task) for toy in toys}
    accepted = [toy for toy in toys if reasons[toy.name] is None]
    declined = "; ".join(
        f"declines {name}: {reason}" for name, reason in reasons.items() if reason is not None
    )
    require(bool(accepted), f"it declines every task; {declined}")
    shown = frozenset[Capability]().union(*(toy.needs for toy in accepted))
    testable = frozenset[Capability]().union(*(toy.needs for toy in toys))
    unproven = _listed(model.capabilities & testable - shown)
    undeclared = _listed(shown - model.capabilities)
    empty = "declines() returned an empty reason; return None to accept"
    complaints(
        [
            (not unproven, f"declared, but every such task is declined: {unproven}"),
            (not undeclared, f"accepted, but not declared: {undeclared}"),
            (all(reason != "" for reason in reasons.values()), empty),
        ]
    )
    return declined


def _listed(capabilities: frozenset[Capability]) -> str:
    return ", ".join(sorted(capability.value for capability in capabilities))


# ---------------------------------------------------------------------------------------- behaviour


def _has_the_declared_shape(subject: ModelOnTask) -> None:
    y = subject.output
    shape, expected = tuple(y.shape), _expected_shape(subject, subject.inputs.nodes)
    require(shape == expected, f"output is {shape}; expected (B, steps, N, C) = {expected}")
    require(y.dtype == torch.float32, f"output is {y.dtype}; expected torch.float32")


def _expected_shape(subject: ModelOnTask, nodes: int) -> tuple[int, ...]:
    return (len(BATCH), subject.horizon.steps, nodes, len(subject.task.fields))


def _is_finite(subject: ModelOnTask) -> None:
    y = subject.output
    count = int((~torch.isfinite(y)).sum())
    require(count == 0, f"{count} of {y.numel()} outputs are not finite")


def _all_get_a_gradient(subject: ModelOnTask) -> None:
    module = subject.build(seed=0)
    job = subject.job(module, folder=Path(), steps=1)
    view = fit_view(job)
    for phase in subject.phases():
        if phase.solve is not None:
            with torch.no_grad():
                phase.solve(module, view)
            continue
        if phase.prepare is not None:
            phase.prepare(module, view)
        module.train().zero_grad(set_to_none=True)
        _loss(subject, job, phase).backward()
        _require_gradients(phase, module)


def _loss(subject: ModelOnTask, job: Job, phase: Phase) -> torch.Tensor:
    """The loss of the shared batch in the middle of a phase."""
    indices, steps, train = torch.tensor(BATCH), subject.horizon.steps, job.train
    batch, target = train.batch(indices, torch.zeros_like(indices), steps)
    if phase.loss is not None:
        return phase.loss(job.module, batch, train.encode_target(target, batch), 0.5)
    prediction = rollout(job.module, train, batch, indices, steps)
    support = train.scored_nodes(indices).support
    return relative_l2(prediction, target, support, subject.task).mean()


def _require_gradients(phase: Phase, module: nn.Module) -> None:
    trained = {id(weight) for weight in trained_parameters(phase, module)}
    gradients = {
        name: weight.grad for name, weight in module.named_parameters() if id(weight) in trained
    }
    without = [name for name, grad in gradients.items() if grad is None]
    infinite = [
        name
        for name, grad in gradients.items()
        if grad is not None and not bool(torch.isfinite(grad).all())
    ]
    require(not without, f"phase {phase.name}: no gradient for {', '.join(without)}")
    require(not infinite, f"phase {phase.name}: gradient not finite for {', '.join(infinite)}")


def _samples_are_independent(subject: ModelOnTask) -> None:
    for position, companions in ((0, (0, 2)), (1, (2, 1))):
        other = predict(subject.module, subject.batch(subject.toy.train, companions))
        complaint = f"sample {position} of a batch changes with the other sample"
        _require_close(subject.output[position], other[position], complaint)


def _follows_a_permutation(subject: ModelOnTask) -> None:
    if Capability.PERMUTATION_EQUIVARIANT not in subject.model.capabilities:
        raise Skip("not declared node-permutation equivariant")
    samples = subject.toy.train
    draw = np.random.default_rng(0)
    orders = [draw.permutation(mesh.size) for mesh in samples.meshes]
    moved = [
        permuted_geometry(subject.geometry(mesh), order)
        for mesh, order in zip(samples.meshes, orders, strict=True)
    ]
    renumbered = predict(subject.module, subject.batch(permuted(samples, orders), BATCH, moved))
    for index in BATCH:
        order = torch.from_numpy(orders[index % len(orders)])
        expected, output = subject.output[index][:, order], renumbered[index][:, : len(order)]
        _require_close(expected, output, "outputs do not follow the nodes")


def _same_seed_gives_the_same_output(subject: ModelOnTask) -> None:
    again = predict(subject.module, subject.inputs)
    anew = predict(subject.solved(0), subject.inputs)
    require(torch.equal(subject.output, again), "two calls of one module differ")
    require(torch.equal(subject.output, anew), "two modules built with one seed differ")


def _state_can_be_saved(subject: ModelOnTask) -> None:
    state = {name: value.contiguous() for name, value in subject.module.state_dict().items()}
    other = subject.build(seed=1)
    load_state(other, safetensors.torch.load(safetensors.torch.save(state)))
    same = torch.equal(subject.output, predict(other.eval(), subject.inputs))
    require(same, "a module loaded from its state predicts something else")


def _can_be_placed_on_any_device(subject: ModelOnTask) -> None:
    module = subject.solved(0).to("meta")
    y = predict(module, placed(subject.inputs, "meta"))
    kind = y.device.type
    require(kind == "meta", f"inputs are on the meta device, the output on {kind}")


def _works_on_another_mesh(subject: ModelOnTask) -> None:
    if Capability.OTHER_MESH not in subject.model.capabilities:
        raise Skip("evaluation on another mesh is not declared")
    batch = subject.batch(subject.toy.other_meshes, BATCH)
    y = predict(subject.module, batch)
    shape, expected = tuple(y.shape), _expected_shape(subject, batch.nodes)
    require(shape == expected, f"output is {shape}; expected {expected}")
    require(bool(torch.isfinite(y).all()), "outputs are not finite")


def _padding_does_not_leak(subject: ModelOnTask) -> None:
    samples = subject.toy.train
    sizes = [mesh.size for mesh in samples.meshes]
    if len(set(sizes)) == 1:
        raise Skip("no node is padding")
    smallest, largest = int(np.argmin(sizes)), int(np.argmax(sizes))
    nodes = sizes[smallest]
    alone = samples.take([smallest])
    trimmed = replace(alone, frames=alone.frames[:, :, :nodes], static=alone.static[:, :nodes])
    padded = predict(subject.module, subject.batch(samples, (smallest, largest)))
    bare = predict(subject.module, subject.batch(trimmed, (0,)))
    _require_close(padded[0, :, :nodes], bare[0], "a sample changes when it is padded")


def _geometry_is_pure(subject: ModelOnTask) -> None:
    if subject.model.geometry is None:
        raise Skip("it precomputes nothing")
    mesh = subject.toy.train.mesh(0)
    before = mesh.key
    uncached = replace(subject, cache=Cache())
    first, second = uncached.geometry(mesh), uncached.geometry(mesh)
    fresh = type(mesh)(mesh.points, mesh.cells, mesh.tags)
    require(fresh.key == before, "geometry() changes the mesh")
    for name, part in first.items():
        axes, shape = part.axes, part.value.shape
        require(len(axes) == len(shape), f"{name}: axes {axes} for the shape {shape}")
        is_same = np.array_equal(_dense(part), _dense(second[name]), equal_nan=True)
        require(is_same, f"{name}: two calls differ")


def _dense(part: Part) -> Array:
    return np.asarray(part.value if isinstance(part.value, np.ndarray) else part.value.todense())


def _inputs_are_left_alone(subject: ModelOnTask) -> None:
    batch = subject.batch(subject.toy.train, BATCH)
    names = ("window", "static", "scalars", "points", "tags")
    values: dict[str, torch.Tensor] = {name: getattr(batch, name) for name in names}
    for name, value in batch.geometry.items():
        if value.layout == torch.strided:
            values[f"geometry {name}"] = value
    before = {name: value.clone() for name, value in values.items()}
    predict(subject.module, batch)
    changed = [name for name, value in values.items() if not torch.equal(before[name], value)]
    require(not changed, f"the module writes into its batch: {', '.join(changed)}")


def _the_core_can_train_it(subject: ModelOnTask) -> None:
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        outcome = fit(subject.job(subject.build(seed=0), folder=Path(folder), steps=1))
    require(not outcome.reason, outcome.reason)
    scores = [row["valid"] for row in outcome.progress.curve if "valid" in row]
    are_finite = bool(scores) and all(math.isfinite(score) for score in scores)
    require(are_finite, f"validation scores {scores}")


def _preset_works(model: Model, name: str, accepted: Mapping[str, ToyTask], cache: Cache) -> None:
    if not accepted:
        raise Skip("it declines every task")
    subject = set_up(model, name, next(iter(accepted.values())), cache)
    _has_the_declared_shape(subject)
    _is_finite(subject)


def _require_close(a: torch.Tensor, b: torch.Tensor, complaint: str) -> None:
    gap, size = float((a - b).abs().max()), float(a.abs().max())
    if not gap <= TOLERANCE * max(size, 1.0):
        raise Broken(f"{complaint}: by {gap:.2g} where outputs reach {size:.2g}")


DECLARATION = (
    Rule("M001", "the declaration is complete and its presets are valid", _is_complete),
    Rule("M002", "it declines with reasons, and every capability is borne out", _capabilities),
)
BEHAVIOUR: tuple[Rule[ModelOnTask], ...] = (
    Rule("M004", "the output has the declared shape and type", _has_the_declared_shape),
    Rule("M005", "the output is finite", _is_finite),
    Rule("M006", "every parameter of a phase gets a finite gradient", _all_get_a_gradient),
    Rule("M007", "samples of a batch do not see one another", _samples_are_independent),
    Rule("M008", "renumbered nodes give renumbered outputs", _follows_a_permutation),
    Rule("M009", "same seed, same output", _same_seed_gives_the_same_output),
    Rule("M010", "the state survives a round trip through safetensors", _state_can_be_saved),
    Rule("M011", "the module can be placed on any device", _can_be_placed_on_any_device),
    Rule("M012", "it predicts on another mesh", _works_on_another_mesh),
    Rule("M013", "padding does not leak", _padding_does_not_leak),
    Rule("M014", "geometry is a pure function with declared axes", _geometry_is_pure),
    Rule("M015", "the batch is left as it was", _inputs_are_left_alone),
    Rule("M016", "one step of training ends in a finite validation score", _the_core_can_train_it),
)
