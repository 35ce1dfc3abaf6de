"""A trained run, used again: predictions for new inputs and on other meshes of the domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from gsnobench.data import Array, Mesh, Samples, Split, Task
from gsnobench.datasets.task_json import task_from_json
from gsnobench.declare import Capability
from gsnobench.drawing.page import stacked
from gsnobench.drawing.quantities import quantities
from gsnobench.errors import DataError, ParamError, RunError, did_you_mean
from gsnobench.files import read_arrays
from gsnobench.home import open_home
from gsnobench.meshes.interpolation import interpolation
from gsnobench.reading import guarded, read_text
from gsnobench.records import RunSpec
from gsnobench.runs.gallery import case_of, sheets
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import Plan, plan_of_stored
from gsnobench.runs.predictions import open_truth
from gsnobench.runs.stages import SUMMARY_PREFIX, Run, Setup
from gsnobench.shown import facts_html
from gsnobench.training.checkpoint import load_state
from gsnobench.training.evaluate import Evaluation, evaluate_split, predict_samples
from gsnobench.training.loader import Loader
from gsnobench.training.metrics import relative_l2
from gsnobench.training.normaliser import Normaliser
from gsnobench.training.rollout import rollout


@dataclass(frozen=True, eq=False)
class Operator:
    """f(static, window) -> frames on one mesh: physical units, differentiable in every input."""

    module: nn.Module
    loader: Loader
    task: Task

    def __call__(
        self,
        static: torch.Tensor | None = None,
        window: torch.Tensor | None = None,
        scalars: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Frames (B, t_out, N, C) of static (B, N, F), window (B, t_in, N, C), scalars (B, P).

        An input that the task does not have may be left out. The network computes in its own
        precision; the result has that of the inputs.
        """
        given = {"static": static, "window": window, "scalars": scalars}
        known = [value for value in given.values() if value is not None]
        if not known:
            raise DataError("operator: no input given; expected those of the task as tensors")
        size = len(known[0])
        inputs = {name: self._checked(name, value, size) for name, value in given.items()}
        indices = torch.zeros(size, dtype=torch.long)
        batch = self.loader.given(**inputs)
        frames = rollout(self.module, self.loader, batch, indices, self.task.t_out)
        return (frames + self.loader.reference).to(known[0])

    def _checked(self, name: str, value: torch.Tensor | None, size: int) -> torch.Tensor:
        """An input in the precision of the network; one that the task does not have is empty."""
        task, nodes = self.task, int(self.loader.points.shape[1])
        shape = {
            "static": (size, nodes, len(task.static)),
            "window": (size, task.t_in, nodes, len(task.fields)),
            "scalars": (size, len(task.scalars)),
        }[name]
        if value is None and 0 not in shape:
            raise DataError(f"{name}: is missing; expected a tensor {shape}")
        if value is not None and tuple(value.shape) != shape:
            raise DataError(f"{name}: has shape {tuple(value.shape)}; expected {shape}")
        value = torch.zeros(shape) if value is None else value
        return value.to(self.loader.device, torch.float32)


@dataclass(frozen=True, eq=False, repr=False)
class Trained:
    """A finished run: `predict` returns physical units, `score` compares with the true frames.

    `samples("test")` are the run's own data, `plot(0)` draws one of them.
    """

    run: Run
    setup: Setup

    @property
    def plan(self) -> Plan:
        return self.run.plan

    @property
    def machine(self) -> Machine:
        return self.run.machine

    def loader(self, samples: Samples) -> Loader:
        """Batches of other samples, normalised as in training; a new mesh gets its own geometry."""
        task = self.plan.task
        _check_compatible(self.plan, samples)
        own_window = samples.task.narrowed(task.t_in, task.t_out)
        return self.run.new_loader(self.setup, replace(samples, task=own_window))

    def predict(self, samples: Samples) -> Array:
        """Predicted frames, (S, t_out, N, C), in physical units."""
        frames, batch_size = self.plan.task.t_out, self.plan.train.batch
        return predict_samples(self.setup.module, self.loader(samples), frames, batch_size)

    def predict_trajectories(self, samples: Samples) -> Array:
        """Predicted frames of all windows of a sample one after the other, (S, T, N, C)."""
        predicted = self.predict(samples)
        return predicted.reshape(len(samples), -1, *predicted.shape[2:])

    def predict_on(
        self,
        mesh: Mesh,
        *,
        static: Array | None = None,
        window: Array | None = None,
        scalars: Array | None = None,
    ) -> Array:
        """One prediction, (t_out, N, C), from static (N, F), window (t_in, N, C), scalars (P,)."""
        task, nodes, fields = self.plan.task, mesh.size, len(self.plan.task.fields)
        blank = self._blank(mesh)
        if task.t_in:
            given = _shaped(window, (task.t_in, nodes, fields), "window")
            np.asarray(blank.frames)[0, : task.t_in] = given
        static = _shaped(static, (nodes, len(task.static)), "static")[None]
        scalars = _shaped(scalars, (len(task.scalars),), "scalars")[None]
        return self.predict(replace(blank, static=static, scalars=scalars))[0]

    def operator(self, mesh: Mesh) -> Operator:
        """The run as a differentiable map of torch tensors on a mesh, in physical units."""
        return Operator(self.setup.module.eval(), self.loader(self._blank(mesh)), self.plan.task)

    def _blank(self, mesh: Mesh) -> Samples:
        """One sample on a mesh, all zeros."""
        task, nodes = self.plan.task, mesh.size
        frames = (1, task.t_in + task.t_out, nodes, len(task.fields))
        return Samples(
            task=replace(task, resolution=nodes, starts=(0,)),
            meshes=(mesh,),
            frames=np.zeros(frames, np.float32),
            static=np.zeros((1, nodes, len(task.static)), np.float32),
            scalars=np.zeros((1, len(task.scalars)), np.float32),
        )

    def score(self, samples: Samples) -> Evaluation:
        """Errors against the frames of the samples."""
        frames, batch_size = self.plan.task.t_out, self.plan.train.batch
        return evaluate_split(self.setup.module, self.loader(samples), frames, batch_size)

    def samples(self, split: Split = "test") -> Samples:
        """The run's own samples of a split, in memory; generated again if they are not here."""
        with open_truth(self.plan.spec, self.machine, task=self.plan.task) as truth:
            return truth.read(split)

    def plot(self, sample: int = 0, split: Split = "test", field: str = "") -> Image.Image:
        """Inputs, truth, prediction and error of one sample of the run's own data.

        A notebook shows the picture, `.save(path)` keeps it. `field` chooses among the quantities
        of a task that scores several (`pressure`, `velocity`); all of them without it.
        """
        task, samples = self.plan.task, self.samples(split)
        if not -len(samples) <= sample < len(samples):
            raise ParamError(f"sample: {sample} of {len(samples)} in {split}; count from 0")
        if field and field not in task.scored:
            raise ParamError(f"field: no quantity {field!r}; {did_you_mean(field, task.scored)}")
        chosen = samples.take([sample % len(samples)])
        score = float(self.score(chosen).headline[0])
        label = f"{split} {sample % len(samples)}"
        loader = self.loader(chosen)
        case = case_of(task, self.setup.module, loader, 0, label=label, score=score)
        drawn = [quantity for quantity in quantities(task) if field in ("", quantity.name)]
        return stacked(sheets(task, [case], drawn, title=self.plan.title))

    def __repr__(self) -> str:
        return f"<Trained {self.plan.spec.short}: {self.plan.spec.title}>"

    def _repr_html_(self) -> str:
        spec, task = self.plan.spec, self.plan.task
        numbers = sum(parameter.numel() for parameter in self.setup.module.parameters())
        knobs = ", ".join(f"{name}={value}" for name, value in spec.model_params.items())
        facts = {
            "predicts": ", ".join(task.scored),
            "nodes": task.resolution,
            "parameters": f"{numbers:,}",
            "knobs": knobs,
            "device": str(self.machine.device),
            "folder": str(self.run.folder.path),
        }
        return facts_html(f"Trained {spec.title}", facts)

    def interpolation_floor(self, coarse: Samples, fine: Samples) -> float:
        """Headline error on the fine mesh of this run's interpolated coarse prediction.

        A prediction on the fine mesh itself must be better than this.
        """
        matrix = interpolation(coarse.mesh(0), fine.mesh(0).points)  # (N_fine, N_coarse)
        guess = self.predict(coarse)  # (S, t_out, N_coarse, C)
        frames = [matrix @ frame for frame in guess.reshape(-1, *guess.shape[2:])]
        onto = np.stack(frames).astype(np.float32)  # (S * t_out, N_fine, C)
        loader = self.loader(fine)
        first = fine.task.starts[0] + self.plan.task.t_in
        truth = np.asarray(fine.frames[:])[:, first : first + self.plan.task.t_out]
        p, u = (
            torch.from_numpy(values).to(loader.device) - loader.reference
            for values in (onto.reshape(truth.shape), truth)
        )
        return float(relative_l2(p, u, loader.support, loader.task).mean())


def load(run: str | Path, *, home: Path | None = None, device: str = "auto") -> Trained:
    """A finished run by its key prefix or folder."""
    opened = open_home(home)
    folder = opened.find_run(str(run))
    if not folder.weights.exists():
        raise RunError(f"{folder.name}: has no weights; only a run that ended well can predict")
    readable = "a finished run; repeat it with --force"
    spec = RunSpec.from_json(read_text(folder.spec, expected=readable), label=str(folder.spec))
    task = task_from_json(read_text(folder.task, expected=readable))
    with guarded(folder.path, expected=readable):
        saved = read_arrays(folder.summary)
        weights = read_arrays(folder.weights)
        plan = plan_of_stored(spec, task)
        module = plan.model.build(plan.model_task, plan.params)
        load_state(module, _tensors(weights))
        summary = {
            name.removeprefix(SUMMARY_PREFIX): value
            for name, value in saved.items()
            if name.startswith(SUMMARY_PREFIX)
        }
        normaliser = Normaliser.from_state(_tensors(saved))
    machine = Machine(opened, choose_device(device))
    setup = Setup(module.to(machine.device), normaliser, summary, warm_s=0.0, cold_s=0.0)
    return Trained(Run(plan, machine, folder), setup)


def _tensors(arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def _shaped(value: Array | None, shape: tuple[int, ...], name: str) -> Array:
    array = np.zeros((*shape[:-1], 0)) if value is None else np.asarray(value)
    if array.shape != shape:
        raise DataError(f"{name}: has shape {array.shape}; expected {shape}")
    return array.astype(np.float32)


def _check_compatible(plan: Plan, samples: Samples) -> None:
    task, other = plan.task, samples.task
    nodes = samples.mesh(0).size
    is_other_mesh = task.fixed_mesh and nodes != task.resolution
    if is_other_mesh and Capability.OTHER_MESH not in plan.model.capabilities:
        raise DataError(
            f"inputs: {nodes} nodes; {plan.model.name} works on its training mesh of "
            f"{task.resolution} nodes alone"
        )
    for kind in ("fields", "static", "scalars"):
        trained, given = ([field.name for field in getattr(each, kind)] for each in (task, other))
        if trained != given:
            raise DataError(f"inputs: {kind} are {given}; the run was trained with {trained}")
    frames, needed = int(samples.frames.shape[1]), task.t_in + task.t_out
    if frames < needed:
        raise DataError(
            f"inputs: {frames} frames; the run needs {task.t_in} given and {task.t_out} to compare "
            "with"
        )
