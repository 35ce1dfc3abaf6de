"""A trained run, used again: predictions for new inputs and on other meshes of the domain."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from gsnobench.data import Array, Mesh, Samples, Task
from gsnobench.datasets.task_json import task_from_json
from gsnobench.declare import Capability, Preset
from gsnobench.errors import DataError, RunError
from gsnobench.home import open_home
from gsnobench.meshes.interpolation import interpolation
from gsnobench.records import RunSpec
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import Plan, configured
from gsnobench.runs.stages import Setup, make_loader
from gsnobench.training.checkpoint import load_state
from gsnobench.training.evaluate import Evaluation, evaluate_split, predict_samples
from gsnobench.training.loader import Loader
from gsnobench.training.metrics import relative_l2
from gsnobench.training.normaliser import Normaliser
from gsnobench.training.optimisation import TrainParams


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished run: `predict` answers in physical units, `score` compares with the truth the
    samples carry.
    """

    plan: Plan
    setup: Setup
    machine: Machine

    def loader(self, samples: Samples) -> Loader:
        """Batches of other samples, normalised as in training; their meshes get a geometry of their
        own.
        """
        _check_compatible(self.plan, samples)
        narrowed = replace(
            samples,
            task=replace(samples.task, t_in=self.plan.task.t_in, t_out=self.plan.task.t_out),
        )
        return make_loader(self.plan, self.machine, self.setup, narrowed)

    def predict(self, samples: Samples) -> Array:
        """Predicted frames, (S, t_out, N, C), in physical units."""
        return predict_samples(
            self.setup.module, self.loader(samples), self.plan.task.t_out, self.plan.train.batch
        )

    def predict_on(
        self,
        mesh: Mesh,
        *,
        static: Array | None = None,
        window: Array | None = None,
        scalars: Array | None = None,
    ) -> Array:
        """One prediction, (t_out, N, C), from plain arrays: static (N, F), window (t_in, N, C),
        scalars (P,).
        """
        task = self.plan.task
        frames = np.zeros(
            (1, task.t_in + task.t_out, mesh.size, len(task.fields)), dtype=np.float32
        )
        if task.t_in:
            frames[0, : task.t_in] = _given(
                window, (task.t_in, mesh.size, len(task.fields)), "window"
            )
        samples = Samples(
            task=replace(task, resolution=mesh.size, starts=(0,)),
            meshes=(mesh,),
            frames=frames,
            static=_given(static, (mesh.size, len(task.static)), "static")[None],
            scalars=_given(scalars, (len(task.scalars),), "scalars")[None],
        )
        return self.predict(samples)[0]

    def score(self, samples: Samples) -> Evaluation:
        """Errors against the frames of the samples."""
        return evaluate_split(
            self.setup.module, self.loader(samples), self.plan.task.t_out, self.plan.train.batch
        )

    def interpolation_floor(self, coarse: Samples, fine: Samples) -> float:
        """Headline error on the fine mesh of interpolating this run's coarse prediction: what
        transfer must beat.
        """
        matrix = interpolation(coarse.mesh(0), fine.mesh(0).points)  # (N_fine, N_coarse)
        guess = self.predict(coarse)  # (S, t_out, N, C)
        onto = np.stack([matrix @ frame for frame in guess.reshape(-1, *guess.shape[2:])]).astype(
            np.float32
        )
        loader = self.loader(fine)
        first = fine.task.starts[0] + self.plan.task.t_in
        truth = np.asarray(fine.frames[np.arange(len(fine))])[
            :, first : first + self.plan.task.t_out
        ]
        p, u = (
            torch.from_numpy(each).to(loader.device) - loader.reference
            for each in (onto.reshape(truth.shape), truth)
        )
        return float(relative_l2(p, u, loader.support, loader.task).mean())


def load(run: str | Path, *, home: Path | None = None, device: str = "auto") -> Trained:
    """A finished run by its key prefix or folder."""
    place = open_home(home)
    folder = place.find_run(str(run))
    if not (folder / "weights.safetensors").exists():
        raise RunError(f"{folder.name}: has no weights; only a run that ended well can predict")
    try:
        spec = RunSpec.from_dict(json.loads((folder / "spec.json").read_text(encoding="utf-8")))
        task = task_from_json((folder / "task.json").read_text(encoding="utf-8"))
        saved = load_file(folder / "reference.safetensors")
        weights = load_file(folder / "weights.safetensors")
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder}: not a readable run ({error}); repeat it with --force"
        ) from error
    plan = stored_plan(spec, task)
    module = plan.model.build(plan.model_task, plan.params)
    load_state(module, weights)
    machine = Machine(place, choose_device(device))
    prefix = "reference."
    summary = {
        name.removeprefix(prefix): value.numpy()
        for name, value in saved.items()
        if name.startswith(prefix)
    }
    return Trained(
        plan, Setup(module.to(machine.device), Normaliser.from_state(saved), summary, 0.0), machine
    )


def stored_plan(spec: RunSpec, task: Task) -> Plan:
    """The plan a stored spec stands for; its settings are final, so no preset or registry is asked."""
    model = configured(spec.model, spec.preset)
    if model.revision != spec.revision:
        raise RunError(
            f"{spec.model}: the run has revision {spec.revision}, installed is {model.revision}; "
            "repeat the run"
        )
    params = model.params.make(spec.model_params)
    horizon = model.horizon(task, params)
    return Plan(
        task=task,
        model=model,
        preset=Preset(**spec.scaling),
        params=params,
        train=TrainParams.make(spec.train_params, label="train"),
        horizon=horizon,
        phases=model.phases(task.narrowed(horizon.window, horizon.steps), params),
        spec=spec,
        dataset=None,
        file=None,
        is_calibrated=True,
        declined=None,
    )


def _given(value: Array | None, shape: tuple[int, ...], name: str) -> Array:
    array = np.zeros((*shape[:-1], 0)) if value is None else np.asarray(value)
    if array.shape != shape:
        raise DataError(f"{name}: has shape {array.shape}; expected {shape}")
    return array.astype(np.float32)


def _check_compatible(plan: Plan, samples: Samples) -> None:
    task, other = plan.task, samples.task
    nodes = samples.mesh(0).size
    if (
        task.fixed_mesh
        and nodes != task.resolution
        and Capability.OTHER_MESH not in plan.model.capabilities
    ):
        raise DataError(
            f"inputs: {nodes} nodes; {plan.model.name} works on its training mesh of "
            f"{task.resolution} nodes alone"
        )
    for what in ("fields", "static", "scalars"):
        mine, theirs = ([one.name for one in getattr(each, what)] for each in (task, other))
        if mine != theirs:
            raise DataError(f"inputs: {what} are {theirs}; the run was trained with {mine}")
    frames, needed = int(samples.frames.shape[1]), task.t_in + task.t_out
    if frames < needed:
        raise DataError(
            f"inputs: {frames} frames; the run needs {task.t_in} given and {task.t_out} to compare "
            "with"
        )
