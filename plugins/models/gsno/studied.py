"""What `gsnobench study` can ask about the Graph Spectral Neural Operator.

The ablations of the printed operator are those of the paper's table; those of `plus` leave one of
its parts out. The readings are the points that the paper leaves open, each the other way.
"""

from __future__ import annotations

import gsnobench as gb


def _has_frames(task: gb.Task) -> bool:
    return task.t_out > 1


def _has_window(task: gb.Task) -> bool:
    return task.t_in > 0


PRINTED = (
    gb.Change("R = I", {"model.kernel": "identity"}, matched="width", printed="no_kernel"),
    gb.Change("W = 0", {"model.local": False}, matched="width", printed="no_local"),
    gb.Change("MLP over time", {"model.time": "mlp"}, printed="mlp_time", applies=_has_frames),
    gb.Change("kNN graph", {"model.basis": "knn"}, printed="knn_graph"),
    gb.Change(
        "random basis",
        {"model.basis": "random"},
        seed_knob="model.basis_seed",
        printed="random_basis",
    ),
    gb.Change("no coordinates", {"model.coordinates": False}),
)
LEFT_OUT = (
    gb.Change("no features", {"model.features": False}),
    gb.Change("no propagator", {"model.propagated": 0, "model.gain": False}, applies=_has_window),
    gb.Change("no residual path", {"model.residual": False}),
    gb.Change("table instead of hats", {"model.kernel": "table"}),
    gb.Change("Gaussian graph basis", {"model.basis": "gaussian"}),
    gb.Change("8 graph modes", {"model.k_s": 8}),
    gb.Change("latent time axis", {"model.time": "fourier"}, applies=_has_frames),
    gb.Change("boundary predicted", {"train.impose_boundary": False}),
    # the one rate at which AdamW was tried for `plus`, see docs/models/gsno-trials.md
    gb.Change("AdamW instead of Muon", {"train.optimiser": "adamw", "train.lr": 3e-3}),
)
READINGS = (
    gb.Change("no GELU after the last layer", {"model.last_gelu": False}),
    gb.Change("6 padded steps", {"model.padding": 6}, applies=_has_frames),
    gb.Change("no padded steps", {"model.padding": 0}, applies=_has_frames),
    gb.Change("R starts small", {"model.kernel_start": "small"}),
    gb.Change("two-layer lift", {"model.lift_layers": 2}),
    gb.Change("all temporal modes", {"model.k_t": 32, "model.nyquist": True}, applies=_has_frames),
    gb.Change("sigma of 2 edges", {"model.sigma_edges": 2.0}),
    gb.Change("sigma of 4 edges", {"model.sigma_edges": 4.0}),
    gb.Change("no coordinates", {"model.coordinates": False}),
    gb.Change("mean square as loss", {"train.loss": "mse"}),
    gb.Change("step decay", {"train.schedule": "step"}),
    gb.Change("mean square and step decay", {"train.loss": "mse", "train.schedule": "step"}),
    gb.Change("boundary imposed", {"train.impose_boundary": True}),
    gb.Change("boundary predicted", {"train.impose_boundary": False}),
    gb.Change("min-max to [-1, 1]", {f"train.{name}": "box" for name in gb.MINMAX}),
    gb.Change("min-max to [0, 1]", {f"train.{name}": "minmax" for name in gb.MINMAX}),
)
STUDIES = gb.Studies(
    ablations={"compact": PRINTED, "paper": PRINTED, "plus": LEFT_OUT},
    readings={"compact": READINGS, "paper": READINGS},
    ladder=gb.Ladder(
        first="compact",
        last="plus",
        rungs=(
            gb.Change("FEM basis", takes=("model.basis",)),
            gb.Change("hats and more modes", takes=("model.kernel", "model.knots", "model.k_s")),
            gb.Change("residual path", takes=("model.residual",)),
            gb.Change("time in channels", takes=("model.time", "model.k_t")),
            gb.Change("width and head", takes=("model.width", "model.head")),
            gb.Change("computed features", takes=("model.features",)),
            gb.Change("propagator", takes=("model.propagated", "model.gain")),
        ),
    ),
)
