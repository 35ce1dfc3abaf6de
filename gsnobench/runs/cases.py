"""Which test samples are drawn: the best, the median and the worst, so that a picture cannot
flatter.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from gsnobench.data import Array
from gsnobench.runs.gallery import Case, gallery
from gsnobench.runs.plan import Plan
from gsnobench.training.evaluate import Evaluation
from gsnobench.training.loader import Loader
from gsnobench.training.rollout import rollout

PICTURE = Path("figures", "cases.png")  # in the folder of a run


def draw_cases(
    folder: Path, plan: Plan, module: nn.Module, loader: Loader, evaluation: Evaluation
) -> tuple[Path, ...]:
    """Input, truth, prediction and error of three test samples, as one picture."""
    scores = evaluation.samples["headline"]["rel_l2"]
    order = np.argsort(scores)
    chosen = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
    cases = [
        case_of(plan, module, loader, label, int(index), float(scores[index]))
        for label, index in chosen.items()
    ]
    return gallery(folder / PICTURE, plan.task, cases, model=plan.spec.row)


def case_of(
    plan: Plan,
    module: nn.Module,
    loader: Loader,
    label: str,
    index: int,
    score: float,
    *,
    windows: int = 1,
) -> Case:
    """One test sample with the answers to its first `windows` windows, one after the other."""
    task, samples = plan.task, loader.samples
    mesh, starts = samples.mesh(index), torch.tensor(loader.starts[:windows])
    indices = torch.full_like(starts, index)
    module.eval()
    with torch.no_grad():
        batch, target = loader.batch(indices, starts, task.t_out)
        prediction = rollout(module, loader, batch, indices, task.t_out)
    first = task.starts[0]
    # (t_in, N, C)
    window = np.asarray(samples.frames[index])[first : first + task.t_in, : mesh.size]
    static = np.asarray(samples.static[index])[: mesh.size]  # (N, F)
    inputs: dict[str, Array] = {
        one.name: static[:, position] for position, one in enumerate(task.static)
    }
    inputs |= {
        f"{one.name} (last given)": window[-1, :, position]
        for position, one in enumerate(task.fields)
        if task.t_in
    }
    return Case(
        label=label,
        score=score,
        mesh=mesh,
        inputs=inputs,
        truth=_physical(target, loader)[:, : mesh.size],
        prediction=_physical(prediction, loader)[:, : mesh.size],
        times=tuple(task.times[frame] for frame in task.predicted_frames(windows)),
    )


def _physical(centred: torch.Tensor, loader: Loader) -> Array:
    """(windows, t_out, N, C) -> (windows * t_out, N, C)."""
    return (centred + loader.reference).flatten(0, 1).cpu().numpy()
