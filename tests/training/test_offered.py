"""`PRESET+features`: what a wrapped model sees, what it must predict, and that all models keep the
contract with it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import square, steady, unsteady
from torch import Tensor, nn

import gsnobench as gb
from gsnobench.check import failed
from gsnobench.check.models import check_model
from gsnobench.datasets.store import write
from gsnobench.declare import Model, Phase, Preset
from gsnobench.errors import DataError, ParamError, RunError
from gsnobench.files import Cache
from gsnobench.home import open_home
from gsnobench.meshes.distances import boundary_distance
from gsnobench.params import Params
from gsnobench.plugins import listed, load
from gsnobench.registry import read_registry, registry_path
from gsnobench.runs.calibrate import count_steps
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import make_plan
from gsnobench.runs.request import Request
from gsnobench.training import offered
from gsnobench.training.geometry import compute_geometry
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.offered import WithComputedInputs, offered_preset, with_features
from gsnobench.training.optimisation import TrainParams
from gsnobench.training.rollout import rollout

BUNDLED = [entry.name for entry in listed("model") if entry.package == "gsnobench"]
TRAINED = [name for name in BUNDLED if not load("model", name).is_floor]


class Mute(nn.Module):
    """Predicts zero and remembers what it saw."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: gb.Batch) -> Tensor:
        self.seen = batch
        return torch.zeros(batch.size, self.task.t_out, batch.nodes, len(self.task.fields))


def silent(**declared: Any) -> Model:
    return Model("silent", Params, Mute, **declared)


def loader_of(model: Model, data: gb.Samples, preset: Preset) -> Loader:
    assert model.summary is not None
    summary = model.summary(data, Params())
    geometries = [
        compute_geometry(model, Params(), data.task, mesh, summary=summary, cache=Cache())
        for mesh in data.meshes
    ]
    return Loader(
        data,
        task=data.task,
        normaliser=fit_normaliser(data, TrainParams.make(preset.train)),
        geometries=geometries,
        device="cpu",
        impose_boundary=False,
    )


def shown(
    data: gb.Samples, model: Model | None = None
) -> tuple[WithComputedInputs, gb.Batch, Tensor, Tensor]:
    """The wrapped module with its propagator fitted, what it saw, and its output in both units."""
    model = with_features(model or silent())
    loader = loader_of(model, data, offered_preset(Preset(train=gb.UNSCALED), data.task))
    module = model.build(data.task, Params())
    assert isinstance(module, WithComputedInputs) and isinstance(module.inner, Mute)
    everyone = torch.arange(len(data)), torch.zeros(len(data), dtype=torch.long), data.task.t_out
    batch, target = loader.batch(*everyone)
    fit = gb.Fit(
        data.task, data, data, lambda split: [(batch, loader.encode_target(target, batch))]
    )
    for phase in model.phases(data.task, Params()):
        if phase.solve is not None:
            phase.solve(module, fit)
    output = module(batch)
    return module, module.inner.seen, output, loader.normaliser.output.decode(output)


def test_a_steady_model_sees_distances_and_contrasts_of_its_inputs() -> None:
    data = steady()["train"]
    module, seen, output, _ = shown(data)
    mesh, plain = data.mesh(0), torch.from_numpy(np.asarray(data.static[:]))
    assert seen.static.shape[2] == len(seen.task.static) == len(module.task.static) == 1 + 1 + 3
    torch.testing.assert_close(seen.static[..., :1], plain)
    distance = 8 * boundary_distance(mesh, "boundary") / gb.domain_length(mesh) - 1
    torch.testing.assert_close(seen.static[0, :, 1], torch.from_numpy(distance).float())
    smooth = plain[..., 0] - seen.static[..., 2:].cumsum(-1).permute(2, 0, 1)  # (3, S, N)
    spread = [float(plain.var(dim=1).mean()), *(float(part.var(dim=1).mean()) for part in smooth)]
    assert spread[0] > spread[1] > spread[2] > spread[3] > 0  # smoother and smoother
    assert not output.any()


def test_a_constant_has_no_contrast() -> None:
    data = steady()["train"]
    even = replace(data, static=np.full_like(np.asarray(data.static[:]), 2.5))
    _, seen, _, _ = shown(even)
    contrasts = seen.static[..., 2:]
    torch.testing.assert_close(contrasts, torch.zeros_like(contrasts), rtol=0, atol=1e-5)


def test_waves_that_every_mode_makes_by_itself_need_no_model() -> None:
    data = unsteady()["train"]
    _, seen, output, physical = shown(data)
    waves = torch.from_numpy(np.asarray(data.frames[:])[:, 2:]) - 5
    assert float((physical - waves).norm() / waves.norm()) < 1e-3
    # after a distance, all frames to be predicted
    torch.testing.assert_close(seen.static[..., 1:], output[..., 0].transpose(1, 2))
    assert not [name for name in seen.geometry if name.startswith("hints.")]


def test_a_model_with_a_loss_of_its_own_keeps_its_target_and_gets_the_features() -> None:
    def loss(module: nn.Module, batch: gb.Batch, target: Tensor, progress: float) -> Tensor:
        assert isinstance(module, Mute) and batch.task is module.task
        return target.square().mean() + batch.static.shape[2]

    called: list[int] = []

    def prepare(module: nn.Module, fit: gb.Fit) -> None:
        assert isinstance(module, Mute) and fit.task is module.task
        called.extend(batch.static.shape[2] for batch, _ in fit.batches("train"))

    own = Phase(
        loss=loss,
        prepare=prepare,
        rates={"first.": 0.5},
        parameters=lambda module: [nn.Parameter(torch.ones(1))],
    )
    model = with_features(silent(phases=lambda task, params: (own,)))
    data = unsteady()["train"]
    module, _, output, _ = shown(data, silent(phases=lambda task, params: (own,)))
    assert not output.any()
    features, mine = model.phases(data.task, Params())
    assert features.name == "features" and mine.rates == {"inner.first.": 0.5}
    loader = loader_of(model, data, Preset(train=gb.UNSCALED))
    batch, target = loader.batch(torch.arange(3), torch.zeros(3, dtype=torch.long), 7)
    assert mine.loss is not None and mine.prepare is not None and mine.parameters is not None
    assert float(mine.loss(module, batch, torch.zeros_like(target), 0.5)) == 8
    mine.prepare(module, gb.Fit(data.task, data, data, lambda split: [(batch, target)]))
    assert called == [8] and len(list(mine.parameters(module))) == 1


def test_a_closed_form_of_the_wrapped_model_must_predict_what_is_left() -> None:
    left: list[Tensor] = []

    def solve(module: nn.Module, fit: gb.Fit) -> None:
        left.extend(target for _, target in fit.batches("train"))

    data = unsteady()["train"]
    module, _, start, physical = shown(
        data, silent(phases=lambda task, params: (Phase(solve=solve), Phase("fit")))
    )
    # the propagator predicts nearly all of fields of size 1; the rest is given in its own size
    assert module.gain.shape == (data.task.t_out, 1, 1) and float(module.gain.max()) < 1e-3
    torch.testing.assert_close(left[0].square().mean((0, 2)).sqrt(), torch.ones(7, 1))
    waves = torch.from_numpy(np.asarray(data.frames[:])[:, 2:]) - 5
    scale = float(physical.norm() / start.norm())
    torch.testing.assert_close((start + module.gain * left[0]) * scale, waves, rtol=1e-3, atol=2e-3)


class Scaled(nn.Module):
    """One parameter, and an output that depends on all inputs."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))

    def forward(self, batch: gb.Batch) -> Tensor:
        return self.factor * (batch.window[:, -1:] + batch.static.mean(2)[:, None, :, None])


def test_gradients_pass_through_the_features_of_later_calls() -> None:
    data = unsteady()["train"]
    one_step = replace(data, task=data.task.narrowed(2, 1))
    model = with_features(
        Model("scaled", Params, Scaled, horizon=lambda task, params: gb.Horizon(2, 1, unroll=3))
    )
    loader = loader_of(model, one_step, offered_preset(Preset(), one_step.task))
    module = model.build(one_step.task, Params()).double()
    some = torch.arange(4), torch.zeros(4, dtype=torch.long)
    pairs = [loader.batch(*some, 1)]
    fit = gb.Fit(one_step.task, one_step, one_step, lambda split: pairs)
    with torch.no_grad():
        assert (solve := model.phases(one_step.task, Params())[0].solve) is not None
        solve(module.float(), fit)
    module = module.double()
    batch = loader.batch(*some, 1)[0]
    exact = {name: getattr(batch, name).double() for name in ("window", "static", "points")}
    batch = replace(
        batch, **exact, geometry={name: value.double() for name, value in batch.geometry.items()}
    )
    factor = module.get_parameter("inner.factor")

    def loss(value: float) -> Tensor:
        with torch.no_grad():
            factor.fill_(value)
        return rollout(module, loader, batch, some[0], 3).square().sum()

    (slope,) = torch.autograd.grad(loss(0.3), factor)
    step = 1e-5
    with torch.no_grad():
        expected = (loss(0.3 + step) - loss(0.3 - step)) / (2 * step)
    assert float(slope) == pytest.approx(float(expected), rel=1e-4)


def test_features_stay_in_full_precision() -> None:
    module, _, _, _ = shown(data := unsteady()["train"])
    loader = loader_of(with_features(silent()), data, offered_preset(Preset(), data.task))
    batch, _ = loader.batch(torch.arange(3), torch.zeros(3, dtype=torch.long), 7)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, start = module.look(batch)
    torch.testing.assert_close(start, module.look(batch)[1], rtol=0, atol=0)


@pytest.mark.parametrize("name", TRAINED)
def test_every_model_keeps_the_contract_with_features(name: str) -> None:
    model: Model = load("model", name)
    scaled = {
        name: replace(
            preset, train={**preset.train, "scale_window": "scale", "scale_outputs": "scale"}
        )
        for name, preset in model.presets.items()
    }
    findings = failed(check_model(with_features(replace(model, presets=scaled))))
    assert [f"{finding.code}: {finding.detail}" for finding in findings] == []


def test_features_change_the_row_and_the_scaling_but_no_knob_and_no_step() -> None:
    plain, wrapped = (
        make_plan(Request("transolver", "swe", preset=f"compact{suffix}"))
        for suffix in ("", "+features")
    )
    assert wrapped.spec.row == "transolver@compact+features" and wrapped.spec.key != plain.spec.key
    assert wrapped.spec.model_params == plain.spec.model_params
    unshifted = {"scale_window": "scale", "scale_outputs": "scale"}
    assert wrapped.spec.train_params == {**plain.spec.train_params, **unshifted}
    assert {**plain.spec.steps, "features": 0} == wrapped.spec.steps


@pytest.mark.parametrize(
    ("model", "preset", "message"),
    [
        ("pod", "default+features", "a floor takes no features"),
        ("amg", "compat+features", "did you mean 'compact+features'"),
    ],
)
def test_what_cannot_have_features_is_one_line(model: str, preset: str, message: str) -> None:
    with pytest.raises(ParamError, match=re.escape(message)):
        make_plan(Request(model, "darcy", preset=preset))


def test_a_task_that_offers_nothing_is_one_line() -> None:
    bare = replace(steady()["train"].task, tags=(), static=())
    with pytest.raises(ParamError, match="poisson: has no boundaries, no inputs and no frames"):
        offered_preset(Preset(), bare)


def test_steps_and_settings_are_those_without_features(tmp_path: Path) -> None:
    plan = make_plan(Request("transolver", "darcy", preset="compact+features"))
    with pytest.raises(
        RunError, match=r"takes the steps of transolver@compact; calibrate that one"
    ):
        count_steps(plan, Machine(open_home(tmp_path), torch.device("cpu")), read_registry())
    text = (
        registry_path().read_text()
        + '\n[pair.darcy]\n"transolver@compact+features" = { "model.width" = 32 }\n'
    )
    (tmp_path / "registry.toml").write_text(text)
    with pytest.raises(
        DataError, match="a row with features takes steps and settings of the one without"
    ):
        read_registry(tmp_path / "registry.toml")


def test_a_revision_counts_changes_of_the_model_and_of_the_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert with_features(silent(revision=4)).revision == 4 + offered.FEATURES_REVISION
    monkeypatch.setattr(offered, "FEATURES_REVISION", 2)
    assert with_features(silent(revision=4)).revision == 6


@pytest.mark.usefixtures("untracked")
def test_a_rolled_out_run_with_features_predicts_what_it_scored(tmp_path: Path) -> None:
    write(tmp_path / "waves.nc", unsteady(), provenance={"title": "waves", "source": "problems.py"})
    options = {"home": tmp_path, "device": "cpu", "track": "smoke", "knobs": {"train.steps": "5"}}
    result = gb.run("sp2gno", str(tmp_path / "waves.nc"), preset="paper+features", **options)
    trained = gb.load(result.spec.short, home=tmp_path, device="cpu")
    assert trained.plan.horizon.steps == 1 and result.spec.train_params["scale_outputs"] == "scale"
    assert result.headline < 0.5  # from one frame nobody knows which way a wave goes
    assert trained.score(unsteady()["test"]).scores()["headline"]["rel_l2"] == pytest.approx(
        result.headline, rel=1e-5
    )


@pytest.mark.usefixtures("untracked")
def test_a_run_with_features_learns_predicts_and_moves_to_another_mesh(tmp_path: Path) -> None:
    write(
        tmp_path / "poisson.nc", steady(), provenance={"title": "poisson", "source": "problems.py"}
    )
    options = {"home": tmp_path, "device": "cpu", "track": "smoke", "knobs": {"train.steps": "30"}}
    result = gb.run(
        "transolver", str(tmp_path / "poisson.nc"), preset="compact+features", **options
    )
    trained = gb.load(result.spec.short, home=tmp_path, device="cpu")
    assert result.status == "done"
    assert trained.score(steady()["test"]).scores()["headline"]["rel_l2"] == pytest.approx(
        result.headline, rel=1e-5
    )
    assert trained.predict(steady(mesh=square(15))["test"]).shape == (8, 1, 225, 1)
