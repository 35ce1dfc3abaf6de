"""The contract of a model: what it declares is true, and its module treats every sample and every
node fairly.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from gsnobench.check.findings import (
    Broken,
    Finding,
    Rule,
    Skip,
    complaints,
    describe,
    judge,
    require,
)
from gsnobench.check.fixture import (
    BATCH,
    Trial,
    answer,
    make_trial,
    permuted,
    permuted_geometry,
    placed,
)
from gsnobench.check.toy_tasks import Case, make_cases
from gsnobench.declare import Capability, Model, Part
from gsnobench.files import Cache
from gsnobench.training.checkpoint import load_state
from gsnobench.training.fit import fit, fit_view
from gsnobench.training.metrics import relative_l2
from gsnobench.training.optimisation import TrainParams
from gsnobench.training.rollout import rollout

TOLERANCE = 1e-4  # of the largest output: float32 sums in another order


def check_model(model: Model) -> list[Finding]:
    """All rules, in the order of their codes."""
    with tempfile.TemporaryDirectory() as folder:
        return _findings(model, Cache(Path(folder)))


def _findings(model: Model, cache: Cache) -> list[Finding]:
    cases = {case.name: case for case in make_cases()}
    declared = judge(
        Rule("M001", "the declaration is complete and its presets are valid", _is_complete),
        {"": model},
    )
    agreed = judge(
        Rule("M002", "it declines with reasons, and every capability is borne out", _capabilities),
        {"": model},
    )
    accepted = _accepted(model, cases)
    trials, broken = _trials(model, accepted, cache)
    built = Finding(
        "M003",
        "geometry, summary and module can be made on every accepted task",
        not broken,
        "; ".join(broken),
    )
    others = {name: name for name in model.presets if name != model.default_preset("smoke")}
    presets = judge(
        Rule(
            "M017",
            "every preset builds and answers",
            lambda name: _preset(model, name, accepted, cache),
        ),
        others,
    )
    return [declared, agreed, built, *(judge(rule, trials) for rule in BEHAVIOUR), presets]


def _accepted(model: Model, cases: Mapping[str, Case]) -> dict[str, Case]:
    try:
        return {name: case for name, case in cases.items() if model.declines(case.task) is None}
    except Exception:  # M002 calls declines() too and reports what it raised
        return {}


def _trials(
    model: Model, cases: Mapping[str, Case], cache: Cache
) -> tuple[dict[str, Trial], list[str]]:
    trials, broken = {}, []
    for name, case in cases.items():
        try:
            trial = make_trial(model, model.default_preset("smoke"), case, cache)
            trial.build(seed=0)
            trial.loader(case.train)
            trials[name] = trial
        except Exception as error:
            broken.append(f"{name}: {describe(error)}")
    return trials, broken


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
            for kind, params in (("model", model.params), ("train", TrainParams)):
                chosen = {
                    key.partition(".")[2]: value
                    for key, value in values.items()
                    if key.startswith(f"{kind}.")
                }
                params.make(chosen, label=f"settings of {task}: {kind}")


def _capabilities(model: Model) -> str:
    cases = {case.name: case for case in make_cases()}
    reasons = {name: model.declines(case.task) for name, case in cases.items()}
    accepted = [case for name, case in cases.items() if reasons[name] is None]
    declined = "; ".join(
        f"declines {name}: {reason}" for name, reason in reasons.items() if reason is not None
    )
    require(bool(accepted), f"it declines every task; {declined}")
    shown = frozenset[Capability]().union(*(case.needs for case in accepted))
    testable = frozenset[Capability]().union(*(case.needs for case in cases.values()))
    unproven = sorted(one.value for one in model.capabilities & testable - shown)
    undeclared = sorted(one.value for one in shown - model.capabilities)
    complaints(
        [
            (not unproven, f"declared, but every such task is declined: {', '.join(unproven)}"),
            (not undeclared, f"accepted, but not declared: {', '.join(undeclared)}"),
            (
                all(reasons[name] != "" for name in cases),
                "declines() returned an empty reason; return None to accept",
            ),
        ]
    )
    return declined


# ---------------------------------------------------------------------------------------- behaviour


def _has_the_declared_shape(trial: Trial) -> None:
    y = trial.output
    expected = (len(BATCH), trial.horizon.steps, trial.inputs.nodes, len(trial.task.fields))
    require(
        tuple(y.shape) == expected,
        f"output is {tuple(y.shape)}; expected (B, steps, N, C) = {expected}",
    )
    require(y.dtype == torch.float32, f"output is {y.dtype}; expected torch.float32")


def _is_finite(trial: Trial) -> None:
    y = trial.output
    require(
        bool(torch.isfinite(y).all()),
        f"{int((~torch.isfinite(y)).sum())} of {y.numel()} outputs are not finite",
    )


def _every_parameter_gets_a_gradient(trial: Trial) -> str | None:
    module = trial.build(seed=0)
    job = trial.job(module, folder=Path(), steps=1)
    view = fit_view(job)
    indices = torch.tensor(BATCH)
    for phase in trial.phases():
        if phase.solve is not None:
            with torch.no_grad():
                phase.solve(module, view)
            continue
        if phase.prepare is not None:
            phase.prepare(module, view)
        module.train().zero_grad(set_to_none=True)
        batch, target = job.train.batch(indices, torch.zeros_like(indices), trial.horizon.steps)
        if phase.loss is not None:
            loss = phase.loss(module, batch, job.train.normaliser.output.encode(target), 0.5)
        else:
            prediction = rollout(module, job.train, batch, indices, trial.horizon.steps)
            loss = relative_l2(
                prediction, target, job.train.scored_nodes(indices).support, trial.task
            ).mean()
        loss.backward()
        trained = {
            id(one)
            for one in (phase.parameters or torch.nn.Module.parameters)(module)
            if one.requires_grad
        }
        named = [(name, one) for name, one in module.named_parameters() if id(one) in trained]
        without = [name for name, one in named if one.grad is None]
        infinite = [
            name
            for name, one in named
            if one.grad is not None and not bool(torch.isfinite(one.grad).all())
        ]
        require(not without, f"phase {phase.name}: no gradient for {', '.join(without)}")
        require(not infinite, f"phase {phase.name}: gradient not finite for {', '.join(infinite)}")
    return None


def _samples_do_not_see_one_another(trial: Trial) -> None:
    for position, companions in ((0, (0, 2)), (1, (2, 1))):
        other = answer(trial.module, trial.batch(trial.case.train, companions))
        _require_close(
            trial.output[position],
            other[position],
            f"sample {position} of a batch changes with its companion",
        )


def _follows_a_permutation(trial: Trial) -> None:
    if Capability.PERMUTATION_EQUIVARIANT not in trial.model.capabilities:
        raise Skip("not declared node-permutation equivariant")
    samples = trial.case.train
    draw = np.random.default_rng(0)
    orders = [draw.permutation(mesh.size) for mesh in samples.meshes]
    geometries = [trial.geometry(mesh) for mesh in samples.meshes]
    moved = [
        permuted_geometry(geometry, order)
        for geometry, order in zip(geometries, orders, strict=True)
    ]
    turned = answer(trial.module, trial.batch(permuted(samples, orders), BATCH, moved))
    for index in BATCH:
        order = torch.from_numpy(orders[index % len(orders)])
        _require_close(
            trial.output[index][:, order],
            turned[index][:, : len(order)],
            "outputs do not follow the nodes",
        )


def _same_seed_gives_the_same_answer(trial: Trial) -> None:
    again, anew = answer(trial.module, trial.inputs), answer(trial.solved(0), trial.inputs)
    require(torch.equal(trial.output, again), "two calls of one module differ")
    require(torch.equal(trial.output, anew), "two modules built with one seed differ")


def _state_survives_a_round_trip(trial: Trial) -> None:
    state = {name: value.contiguous() for name, value in trial.module.state_dict().items()}
    other = trial.build(seed=1)
    load_state(other, safetensors.torch.load(safetensors.torch.save(state)))
    same = torch.equal(trial.output, answer(other.eval(), trial.inputs))
    require(same, "a module loaded from its state answers otherwise")


def _can_be_placed_on_any_device(trial: Trial) -> None:
    module = trial.solved(0).to("meta")
    y = answer(module, placed(trial.inputs, "meta"))
    require(
        y.device.type == "meta", f"inputs are on the meta device, the output on {y.device.type}"
    )


def _works_on_another_mesh(trial: Trial) -> None:
    if Capability.OTHER_MESH not in trial.model.capabilities:
        raise Skip("not declared fit for another mesh")
    batch = trial.batch(trial.case.elsewhere, BATCH)
    y = answer(trial.module, batch)
    expected = (len(BATCH), trial.horizon.steps, batch.nodes, len(trial.task.fields))
    require(tuple(y.shape) == expected, f"output is {tuple(y.shape)}; expected {expected}")
    require(bool(torch.isfinite(y).all()), "outputs are not finite")


def _padding_does_not_leak(trial: Trial) -> None:
    samples = trial.case.train
    sizes = [mesh.size for mesh in samples.meshes]
    if len(set(sizes)) == 1:
        raise Skip("no node is padding")
    module = trial.module
    index = int(np.argmin(sizes))
    alone = samples.take([index])
    trimmed = replace(
        alone, frames=alone.frames[:, :, : sizes[index]], static=alone.static[:, : sizes[index]]
    )
    padded = answer(module, trial.batch(samples, (index, int(np.argmax(sizes)))))[
        0, :, : sizes[index]
    ]
    _require_close(
        padded, answer(module, trial.batch(trimmed, (0,)))[0], "a sample changes when it is padded"
    )


def _geometry_is_pure(trial: Trial) -> None:
    if trial.model.geometry is None:
        raise Skip("it precomputes nothing")
    mesh = trial.case.train.mesh(0)
    before = mesh.key
    anew = replace(trial, cache=Cache())
    first, second = anew.geometry(mesh), anew.geometry(mesh)
    fresh = type(mesh)(mesh.points, mesh.cells, mesh.tags)
    require(fresh.key == before, "geometry() changes the mesh")
    for name, part in first.items():
        require(
            len(part.axes) == len(part.value.shape),
            f"{name}: axes {part.axes} for the shape {part.value.shape}",
        )
        require(
            np.array_equal(_dense(part), _dense(second[name]), equal_nan=True),
            f"{name}: two calls differ",
        )


def _dense(part: Part) -> np.ndarray:
    return np.asarray(part.value if isinstance(part.value, np.ndarray) else part.value.todense())


def _inputs_are_left_alone(trial: Trial) -> None:
    batch = trial.batch(trial.case.train, BATCH)
    names = ("window", "static", "scalars", "points", "tags")
    before = {name: getattr(batch, name).clone() for name in names}
    dense = {
        name: value.clone()
        for name, value in batch.geometry.items()
        if value.layout == torch.strided
    }
    answer(trial.module, batch)
    changed = [name for name in names if not torch.equal(before[name], getattr(batch, name))]
    changed += [
        f"geometry {name}"
        for name, value in dense.items()
        if not torch.equal(value, batch.geometry[name])
    ]
    require(not changed, f"the module writes into its batch: {', '.join(changed)}")


def _the_core_can_train_it(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        outcome = fit(trial.job(trial.build(seed=0), folder=Path(folder), steps=1))
    require(not outcome.reason, outcome.reason)
    scores = [row["valid"] for row in outcome.progress.curve if "valid" in row]
    require(
        bool(scores) and all(math.isfinite(score) for score in scores),
        f"validation scores {scores}",
    )


def _preset(model: Model, name: str, accepted: Mapping[str, Case], cache: Cache) -> None:
    if not accepted:
        raise Skip("it declines every task")
    trial = make_trial(model, name, next(iter(accepted.values())), cache)
    _has_the_declared_shape(trial)
    _is_finite(trial)


def _require_close(a: torch.Tensor, b: torch.Tensor, complaint: str) -> None:
    gap, size = float((a - b).abs().max()), float(a.abs().max())
    if not gap <= TOLERANCE * max(size, 1.0):
        raise Broken(f"{complaint}: by {gap:.2g} where outputs reach {size:.2g}")


BEHAVIOUR = (
    Rule("M004", "the output has the declared shape and type", _has_the_declared_shape),
    Rule("M005", "the output is finite", _is_finite),
    Rule(
        "M006",
        "every parameter of a phase gets a finite gradient",
        _every_parameter_gets_a_gradient,
    ),
    Rule("M007", "samples of a batch do not see one another", _samples_do_not_see_one_another),
    Rule("M008", "renumbered nodes give renumbered answers", _follows_a_permutation),
    Rule("M009", "same seed, same answer", _same_seed_gives_the_same_answer),
    Rule(
        "M010", "the state survives a round trip through safetensors", _state_survives_a_round_trip
    ),
    Rule("M011", "the module can be placed on any device", _can_be_placed_on_any_device),
    Rule("M012", "it answers on another mesh", _works_on_another_mesh),
    Rule("M013", "padding does not leak", _padding_does_not_leak),
    Rule("M014", "geometry is a pure function with declared axes", _geometry_is_pure),
    Rule("M015", "the batch is left as it was", _inputs_are_left_alone),
    Rule(
        "M016",
        "one step of the training loop ends in a finite validation score",
        _the_core_can_train_it,
    ),
)
