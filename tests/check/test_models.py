"""Every rule for models can fail: for each there is a model that breaks it, and one breaks none."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from contract_examples import DATASET, METRIC
from scipy.spatial import cKDTree
from torch import nn

import gsnobench as gb
from gsnobench import check as contract
from gsnobench import hookspecs
from gsnobench.check.datasets import check_dataset
from gsnobench.check.findings import Finding
from gsnobench.check.metrics_executors import check_executor, check_metric
from gsnobench.check.models import check_model
from gsnobench.errors import PluginError
from gsnobench.meshes.operators import lumped_mass
from gsnobench.meshes.topology import edges

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial-plugin.md").read_text()
STEADY = frozenset({gb.Capability.STEADY, gb.Capability.FIXED_GEOMETRY})
RAGGED = frozenset({gb.Capability.STEADY, gb.Capability.VARYING_GEOMETRY})


def broken(findings: Sequence[Finding]) -> set[str]:
    return {finding.code for finding in contract.failed(findings)}


# ------------------------------------------------------------------------------------------- models


class Params(gb.Params):
    width: int = gb.knob(default=8, low=4, high=64, help="hidden channels")


class Pointwise(nn.Module):
    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(task.in_channels, params.width),
            nn.GELU(),
            nn.Linear(params.width, task.out_channels),
        )

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        return batch.frames(self.net(batch.features))


def only_steady(task: gb.Task) -> str | None:
    return None if task.t_in == 0 and task.fixed_mesh else "only steady problems on one mesh"


def only_ragged(task: gb.Task) -> str | None:
    return None if task.id == "checkragged" else "only one task, to be quick"


SOUND = gb.Model(
    "sound",
    Params,
    Pointwise,
    declines=only_steady,
    capabilities=STEADY,
    title="Pointwise perceptron",
    cites="unpublished",
)


def changed(
    change: Callable[[Any, gb.Batch, torch.Tensor], torch.Tensor], **extra: Any
) -> gb.Model:
    """The sound model with its output passed through `change`."""

    class Changed(Pointwise):
        def __init__(self, task: gb.Task, params: Params) -> None:
            super().__init__(task, params)
            self.spare = nn.Parameter(torch.zeros(1)) if extra.get("spare") else None
            self.noise = torch.rand(())  # neither parameter nor buffer

        def forward(self, batch: gb.Batch) -> torch.Tensor:
            return change(self, batch, super().forward(batch))

    return replace(
        SOUND, build=Changed, **{name: value for name, value in extra.items() if name != "spare"}
    )


def writes_into_the_batch(module: nn.Module, batch: gb.Batch, y: torch.Tensor) -> torch.Tensor:
    batch.static.add_(1.0)
    return y


def knows_its_mesh(module: nn.Module, batch: gb.Batch, y: torch.Tensor) -> torch.Tensor:
    if batch.nodes != 156:
        raise RuntimeError("another mesh")
    return y


def random_geometry(
    mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary
) -> dict[str, gb.Part]:
    return {"noise": gb.Part(np.random.default_rng().normal(size=(mesh.size, 1)), ("node", "one"))}


def raises(*arguments: object) -> Any:
    raise RuntimeError("no luck")


def infinite(module: nn.Module, fit: gb.Fit) -> float:
    return float("inf")


def undefined_loss(
    module: nn.Module, batch: gb.Batch, target: torch.Tensor, progress: float
) -> torch.Tensor:
    y: torch.Tensor = module(batch)
    return y.sum() * float("nan")


def with_phase(phase: gb.Phase) -> gb.Model:
    return replace(SOUND, phases=lambda task, params: (phase,))


DEFECTS: dict[str, tuple[gb.Model, set[str]]] = {
    "no title": (replace(SOUND, title=""), {"M001"}),
    "preset with an unknown knob": (
        replace(SOUND, presets={"default": gb.Preset(), "wide": gb.Preset({"witdh": 9})}),
        {"M001", "M017"},
    ),
    "preset with an unknown training knob": (
        replace(SOUND, presets={"default": gb.Preset(), "w": gb.Preset(train={"x": 1})}),
        {"M001", "M017"},
    ),
    "settings of an unknown preset": (
        replace(SOUND, settings={"darcy": {"big": {"model.width": 8}}}),
        {"M001"},
    ),
    "declines everything": (replace(SOUND, declines=lambda task: "tired"), {"M002"}),
    "declines by raising": (replace(SOUND, declines=raises), {"M002"}),
    "capability it declines": (
        replace(SOUND, capabilities=STEADY | {gb.Capability.UNSTEADY}),
        {"M002"},
    ),
    "capability not declared": (
        replace(SOUND, capabilities=frozenset({gb.Capability.STEADY})),
        {"M002"},
    ),
    "build raises": (replace(SOUND, build=raises), {"M003"}),
    "wrong shape": (changed(lambda module, batch, y: y[:, :, :-1]), {"M004", "M006", "M016"}),
    "double precision": (changed(lambda module, batch, y: y.double()), {"M004"}),
    "not finite": (changed(lambda module, batch, y: y / 0), {"M005", "M006", "M007", "M016"}),
    "unused parameter": (changed(lambda module, batch, y: y, spare=True), {"M006"}),
    "mean over the batch": (changed(lambda module, batch, y: y - y.mean(0)), {"M007"}),
    "all from the first sample": (changed(lambda module, batch, y: y[:1].expand_as(y)), {"M007"}),
    "random evaluation": (
        changed(lambda module, batch, y: y + torch.rand_like(y)),
        {"M007", "M009", "M010"},
    ),
    "state outside the state": (
        changed(lambda module, batch, y: y + module.noise.to(y.device)),
        {"M010"},
    ),
    "tensor on a default device": (
        changed(lambda module, batch, y: y + torch.ones(y.shape[2], 1)),
        {"M011"},
    ),
    "writes into the batch": (changed(writes_into_the_batch), {"M015", "M009", "M010"}),
    "impure geometry": (replace(SOUND, geometry=random_geometry), {"M014"}),
    "validation score not finite": (with_phase(gb.Phase(score=infinite)), {"M016"}),
    "loss not finite": (with_phase(gb.Phase(loss=undefined_loss)), {"M006", "M016"}),
    "order of the nodes": (
        changed(
            lambda module, batch, y: y + torch.arange(batch.nodes, device=y.device)[:, None],
            capabilities=STEADY | {gb.Capability.PERMUTATION_EQUIVARIANT},
        ),
        {"M008"},
    ),
    "one mesh only": (
        changed(knows_its_mesh, capabilities=STEADY | {gb.Capability.OTHER_MESH}),
        {"M012"},
    ),
    "mean over padding": (
        changed(
            lambda module, batch, y: y + y.mean(2, keepdim=True),
            declines=only_ragged,
            capabilities=RAGGED,
        ),
        {"M013"},
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_breaks_its_rules_and_no_others(defect: str) -> None:
    model, codes = DEFECTS[defect]
    assert broken(check_model(model)) == codes


def test_a_sound_model_breaks_no_rule_on_any_task() -> None:
    findings = check_model(
        replace(SOUND, declines=lambda task: None, capabilities=frozenset(gb.Capability))
    )
    assert broken(findings) == set()
    assert [finding.code for finding in findings] == [f"M{number:03d}" for number in range(1, 18)]
    assert {finding.code for finding in findings if finding.skipped} == {"M014", "M017"}


class Neighbours(nn.Module):
    """Uses a geometry of every kind: a sparse operator, an index into nodes, values on nodes."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.inner = nn.Linear(task.in_channels, params.width)
        self.outer = nn.Linear(3 * params.width + 1, task.out_channels)

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        x = self.inner(batch.features)  # (B, N, width)
        nearest = batch.geometry["nearest"][..., 0]  # (1 or B, N)
        is_shared = nearest.shape[0] == 1
        taken = x[:, nearest[0]] if is_shared else batch.flat(x)[nearest]  # (B, N, width)
        area = batch.geometry["area"].expand(batch.size, -1, -1)  # (B, N, 1)
        inputs = torch.cat([x, batch.apply("average", x), taken, area], dim=-1)
        return batch.frames(self.outer(inputs))


def neighbours(
    mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary
) -> dict[str, gb.Part]:
    ends = edges(mesh)
    both = np.concatenate([ends, ends[:, ::-1]])
    matrix = scipy.sparse.csr_array((np.ones(len(both)), both.T), shape=(mesh.size, mesh.size))
    nearest = cKDTree(mesh.points).query(mesh.points, k=2)[1][:, 1:]
    average = scipy.sparse.csr_array(matrix / matrix.sum(axis=1)[:, None])
    return {
        "average": gb.Part(average, ("node", "node")),
        "nearest": gb.Part(nearest, ("node", "one"), index="node"),
        "area": gb.Part(lumped_mass(mesh)[:, None], ("node", "one")),
    }


def test_a_sound_model_with_geometry_of_every_kind_breaks_no_rule() -> None:
    every = frozenset(gb.Capability)
    model = replace(
        SOUND, build=Neighbours, geometry=neighbours, declines=lambda task: None, capabilities=every
    )
    findings = check_model(model)
    assert broken(findings) == set()
    assert {finding.code for finding in findings if finding.skipped} == {"M017"}


def test_an_index_that_forgets_the_batch_is_caught() -> None:
    class Forgetful(Neighbours):
        def forward(self, batch: gb.Batch) -> torch.Tensor:
            x = self.inner(batch.features)
            taken = batch.flat(x)[batch.geometry["nearest"][..., 0]].expand_as(x)
            area = batch.geometry["area"].expand(batch.size, -1, -1)
            inputs = torch.cat([x, batch.apply("average", x), taken, area], dim=-1)
            return batch.frames(self.outer(inputs))

    assert broken(check_model(replace(SOUND, build=Forgetful, geometry=neighbours))) == {"M007"}


def test_a_declined_task_is_recorded_with_its_reason() -> None:
    (finding,) = [finding for finding in check_model(SOUND) if finding.code == "M002"]
    assert finding.passed
    assert "declines unsteady: only steady problems on one mesh" in finding.detail


def test_a_finding_names_the_place_in_the_plugin() -> None:
    (finding,) = [
        finding for finding in check_model(replace(SOUND, build=raises)) if finding.code == "M003"
    ]
    assert "steady: RuntimeError: no luck (test_models.py:" in finding.detail


def test_a_closed_form_model_is_checked_after_it_is_solved() -> None:
    class Constant(nn.Module):
        def __init__(self, task: gb.Task, params: Params) -> None:
            super().__init__()
            self.value: torch.Tensor
            self.register_buffer("value", torch.full((len(task.fields),), torch.nan))

        def forward(self, batch: gb.Batch) -> torch.Tensor:
            return self.value.expand(batch.size, batch.task.t_out, batch.nodes, -1)

    def solve(module: nn.Module, fit: gb.Fit) -> None:
        module.value = torch.stack(
            [target.mean((0, 1, 2)) for _, target in fit.batches("train")]
        ).mean(0)

    model = replace(SOUND, build=Constant, phases=lambda task, params: (gb.Phase(solve=solve),))
    assert broken(check_model(model)) == set()


# ----------------------------------------------------------------------------------- the front door


def test_a_bundled_floor_keeps_the_contract_and_json_says_so() -> None:
    findings = contract.check("model", "persistence")
    body = json.loads(contract.to_json(findings))
    assert body["passed"] is True and body["findings"][0]["code"] == "P001"
    contract.assert_contract("model", "persistence")


def test_an_unknown_name_is_an_error_and_no_finding() -> None:
    with pytest.raises(PluginError, match="did you mean 'persistence'"):
        contract.check("model", "persistance")


def test_a_plugin_that_does_not_load_breaks_the_first_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSNOBENCH_PLUGINS_DENY", "persistence")
    (finding,) = contract.check("model", "persistence")
    assert finding.code == "P001" and not finding.passed and "denied" in finding.detail
    with pytest.raises(AssertionError, match="breaks 1 rules of the contract\nP001"):
        contract.assert_contract("model", "persistence")


def test_every_code_is_in_the_tutorial() -> None:
    executor = gb.Executor("toy", lambda specs, limits: iter(specs), help="nowhere")
    loaded = contract.check("model", "persistence")[:1]
    findings = [
        *loaded,
        *check_model(SOUND),
        *check_dataset(DATASET),
        *check_metric(METRIC),
        *check_executor(executor),
    ]
    rows = [f"| {finding.code} | {finding.rule} |" for finding in findings]
    assert not [row for row in rows if row not in TUTORIAL]


def test_every_hook_is_in_the_tutorial_with_its_arguments() -> None:
    hooks = [value for name, value in vars(hookspecs).items() if name.startswith("gsnobench_")]
    assert len(hooks) == 9
    assert not [
        hook
        for hook in hooks
        if f"`{hook.__name__}({', '.join(inspect.signature(hook).parameters)})`" not in TUTORIAL
    ]
