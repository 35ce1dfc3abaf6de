"""A small model, loaders and jobs of the training loop on the shared problems."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import gsnobench as gb
from gsnobench.training.fit import Job
from gsnobench.training.loader import Loader
from gsnobench.training.normaliser import fit_normaliser
from gsnobench.training.optimisation import TrainParams

DEFAULT = TrainParams()


class Pointwise(nn.Module):
    """A perceptron at every node."""

    def __init__(self, task: gb.Task, width: int = 16) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(task.in_channels, width), nn.GELU(), nn.Linear(width, task.out_channels)
        )

    def forward(self, batch: gb.Batch) -> torch.Tensor:
        return batch.frames(self.net(batch.features))


def make_loader(
    samples: gb.Samples, train: gb.Samples, horizon: gb.Horizon, params: TrainParams = DEFAULT
) -> Loader:
    """Batches of `samples`, normalised by the statistics of `train`."""
    return Loader(
        samples,
        task=samples.task.narrowed(horizon.window, horizon.steps),
        normaliser=fit_normaliser(train, params, horizon),
        geometries=[],
        device="cpu",
        impose_boundary=params.impose_boundary,
        predicts_change=params.predict == "change",
    )


def make_job(
    splits: dict[str, gb.Samples],
    folder: Path,
    *,
    steps: int = 30,
    horizon: gb.Horizon | None = None,
    **train: object,
) -> Job:
    """The perceptron to be trained for some steps; further arguments are training knobs."""
    task = splits["train"].task
    horizon = horizon or gb.Horizon(task.t_in, task.t_out)
    params = TrainParams.make({"lr": 0.01, "batch": 8}, train)
    torch.manual_seed(0)
    return Job(
        module=Pointwise(task.narrowed(horizon.window, horizon.steps)),
        train=make_loader(splits["train"], splits["train"], horizon, params),
        valid=make_loader(splits["valid"], splits["train"], horizon, params),
        phases=(gb.Phase(),),
        steps={"fit": steps},
        horizon=horizon,
        frames=task.t_out,
        params=params,
        seed=0,
        folder=folder,
    )
