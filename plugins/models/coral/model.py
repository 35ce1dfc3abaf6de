"""CORAL: fields become short codes by gradient descent, and a small network maps codes to codes.

Operator  a network of sines over coordinates (SIREN), shifted by a code z, is the field; a field's code is what K gradient steps
          from z = 0 find. One codec for the inputs, one for the outputs, and a processor g between their codes.
Formula   z_a = encode(f_a, a), z_u = g((z_a - mean) / std), u(y) = f_u(y; z_u) at any y (see coral_siren.py for f and encode).
          steady g: z + swish(L_2 swish(L_1 z)), 3 times, then a linear map; unsteady, one codec for all frames:
          dz/dt = MLP(z) by RK4, one step a frame, from one given frame; z_{t+1} = z_t + MLP(z_{t-T+1}, .., z_t) from T of them.
          swish x sigmoid(softplus(b) x) / 1.1. Stage 1 fits codecs, through the gradient steps; stage 2 fits g to frozen codes.
Cost      O(K N h^2 D) a field; the gradient of the inner steps is written by hand, hidden layers stay in the cache row by row,
          and on one mesh the first step costs the same for any number of fields: half the time of autograd twice.
Start     compact on a CPU. Look first at stage 1's validation score: the error of f_u on fields it encodes itself is the floor
          of everything after. w0 is the knob that matters: it is the bandwidth of the codec, in units of the box.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.spatial
import torch
from torch import Tensor, nn
from torch.nn import functional

import gsnobench as gb
from gsnobench.training.metrics import relative_l2
from gsnobench_plugins.models.coral.operator import Coral, Dynamics, Params, has_distances, support

GSNOBENCH_API = 1
# progress, and the share of true codes, falling geometrically
FORCED_UNTIL, FORCED_FIRST, FORCED_LAST = 0.7, 0.98, 1e-3
SCORED_FRAMES = 6  # of a trajectory, about, when the codec is scored

# --------------------------------------------------------------------------------------- two stages


def codec_loss(module: nn.Module, batch: gb.Batch, target: Tensor, progress: float) -> Tensor:
    """Error of both codecs on what they encode; of a trajectory a few frames, drawn anew each time."""
    assert isinstance(module, Coral)
    frames = torch.cat([batch.window, target], 1)  # (B, T, N, C)
    count = min(module.params.frames, frames.shape[1])
    chosen = torch.rand(frames.shape[:2]).argsort(1)[:, :count].to(frames.device)  # (B, count)
    frames = frames[torch.arange(len(frames), device=frames.device)[:, None], chosen]
    squares = [module.field.misfit(*module.fields(batch, frames), module.params.inner).mean()]
    if module.inputs is not None:
        squares.append(
            module.inputs.misfit(*module.input_function(batch), module.params.inner).mean()
        )
    losses = torch.stack(squares)
    return (losses.sqrt() if module.params.codec_loss == "rmse" else losses).sum()


def codec_error(module: nn.Module, fit: gb.Fit) -> float:
    """Relative L2, in physical units, of validation frames that f_u encodes and decodes: the floor
    of the final error.
    """
    assert isinstance(module, Coral)
    zero, unit = physical_units(fit)
    errors = []
    with torch.no_grad():
        for batch, target in fit.batches("valid"):
            frames = target[:, :: max(1, target.shape[1] // SCORED_FRAMES)]
            found = module.decode(batch, module.encode_frames(batch, frames))
            found, wanted = ((one - zero.to(one)) * unit.to(one) for one in (found, frames))
            errors.append(relative_l2(found, wanted, support(batch), fit.task))
    return float(torch.cat(errors).mean())


def physical_units(fit: gb.Fit) -> tuple[Tensor, Tensor]:
    """Encoded value of a field's reference and size of an encoded unit, (C,) each, from the
    extremes of one sample.
    """
    _, target = next(iter(fit.batches("valid")))
    nodes, first = fit.valid.mesh(0).size, fit.task.starts[0] + fit.task.t_in
    encoded = target[0, :, :nodes].flatten(0, 1).double().cpu()  # (t_out*N, C)
    frames = np.asarray(fit.valid.frames[np.arange(1)], dtype=np.float64)[
        0, first : first + fit.task.t_out, :nodes
    ]
    values = torch.from_numpy(frames).flatten(0, 1) - torch.tensor(
        [one.reference for one in fit.task.fields]
    )
    low, high = values.argmin(0, keepdim=True), values.argmax(0, keepdim=True)
    rise, encoded_rise = (one.gather(0, high) - one.gather(0, low) for one in (values, encoded))
    unit = torch.where(encoded_rise > 0, rise / encoded_rise.clamp_min(1e-30), 1.0)
    return (encoded.gather(0, low) - values.gather(0, low) / unit)[0], unit[0]


@torch.no_grad()
def compute_codes(module: nn.Module, fit: gb.Fit) -> None:
    """Codes of all training samples, once, standardised; codecs are frozen from here on."""
    assert isinstance(module, Coral)
    for name in ("in_mean", "out_mean"):
        getattr(module, name).zero_()
    for name in ("in_std", "out_std"):
        getattr(module, name).fill_(1.0)
    pairs = [
        (module.encode_frames(batch, torch.cat([batch.window, target], 1)), module.context(batch))
        for batch, target in fit.batches("train")
    ]
    # (S, T, dz), (S, dz + P)
    codes, contexts = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    latent = module.params.latent
    if module.inputs is not None:
        module.in_mean, module.in_std = spread(contexts[:, :latent])
    module.out_mean, module.out_std = spread(codes.flatten(0, 1))
    # one unit for all numbers of a code: an error of any of them weighs as it does in the raw code
    if not module.task.t_in:
        module.out_std = module.out_std.square().mean().sqrt().expand(latent).clone()
    module.codes = (codes - module.out_mean) / module.out_std
    module.contexts = torch.cat(
        [(contexts[:, :latent] - module.in_mean) / module.in_std, contexts[:, latent:]], 1
    )


def spread(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each number of a code; one that never varies must not be blown
    up.
    """
    std = codes.std(0, correction=0)
    return codes.mean(0), std.clamp_min(1e-3 * float(std.max())).clamp_min(1e-12)


def code_loss(module: nn.Module, batch: gb.Batch, target: Tensor, progress: float) -> Tensor:
    """Mean squared error of standardised codes, for samples drawn among all, whatever the batch
    holds.
    """
    assert isinstance(module, Coral)
    chosen = torch.randint(len(module.codes), (module.params.items,)).to(module.codes.device)
    codes, context, given = module.codes[chosen], module.contexts[chosen], module.task.t_in
    if isinstance(module.processor, Dynamics):
        forced = (
            FORCED_FIRST * (FORCED_LAST / FORCED_FIRST) ** (progress / FORCED_UNTIL)
            if progress < FORCED_UNTIL
            else 0.0
        )
        truth = codes[:, given:]
        found = module.processor(
            codes[:, :given], module.further(context), truth.shape[1], truth, forced
        )
    else:
        found = module.process(codes[:, :0], context)
    return functional.mse_loss(found, codes[:, given:])


def codec_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    return (one for name, one in module.named_parameters() if not name.startswith("processor."))


def phases(task: gb.Task, params: Params) -> tuple[gb.Phase, ...]:
    """Codecs first, then the processor on what they found."""
    share, rates = params.codec_share, {"field.": params.codec_rate, "inputs.": params.codec_rate}
    return (
        gb.Phase(
            "codec",
            share=share,
            loss=codec_loss,
            parameters=codec_parameters,
            score=codec_error,
            rates=rates,
        ),
        gb.Phase(
            "processor",
            share=1 - share,
            loss=code_loss,
            prepare=compute_codes,
            parameters=lambda module: module.get_submodule("processor").parameters(),
        ),
    )


# ----------------------------------------------------------------------------------------- geometry


def summary(train: gb.Samples, params: Params) -> gb.Summary:
    """The box of the training meshes, and, where nodes correspond, their mean places in it: the
    codecs' common ground.
    """
    low = np.min([mesh.points.min(0) for mesh in train.meshes], axis=0)
    extent = np.max([mesh.points.max(0) for mesh in train.meshes], axis=0) - low
    found = {"low": low, "extent": np.where(extent > 0, extent, 1.0)}
    if train.task.corresponds and not train.task.fixed_mesh:
        found["place"] = (np.mean([mesh.points for mesh in train.meshes], axis=0) - low) / found[
            "extent"
        ]
    return found


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Where a node of this mesh is on the common ground, or how far it is from each part of the
    boundary.
    """
    if has_distances(task):
        return {
            "distance": gb.Part(
                distances(mesh, task, float(summary["extent"].max())), ("node", "tag")
            )
        }
    if "place" not in summary:
        return {}
    place = summary["place"]
    # another mesh: a node is taken to be where it would be if nothing were deformed
    if mesh.size != len(place):
        place = (mesh.points - summary["low"]) / summary["extent"]
    return {"place": gb.Part(place, ("node", "dim"))}


def distances(mesh: gb.Mesh, task: gb.Task, unit: float) -> np.ndarray:
    """From every node to the nearest node of each tag, (N, tags); a tag without nodes is one unit
    away.
    """
    columns = np.ones((mesh.size, max(1, len(task.tags))))
    for column, is_tagged in enumerate(mesh.tag_matrix(task.tags).T):
        if is_tagged.any():
            columns[:, column] = (
                scipy.spatial.cKDTree(mesh.points[is_tagged]).query(mesh.points)[0] / unit
            )
    return columns


# -------------------------------------------------------------------------------------- declaration

# The authors' configurations: sizes of the benchmark nearest to each task; elasticity and Darcy are
# the preset itself.
FLOW: dict[str, gb.Value] = {"model.width": 128, "model.processor": 512, "train.batch": 16}
OFFICIAL: dict[str, dict[str, gb.Value]] = {
    "elasticity": {"model.w0_out": 15.0},
    "pipe": {"model.depth": 5, "model.width": 128, "model.w0_in": 5.0},
    "airfoil": {"model.w0_in": 5.0, "model.w0_out": 5.0, "model.processor": 512, "train.batch": 16},
    "car": {"model.w0_in": 5.0, "model.w0_out": 5.0, "train.batch": 1},
    "swe": {**FLOW, "model.depth": 6, "model.width": 256, "model.latent": 256},
    **{task: {**FLOW, "model.w0_out": 30.0} for task in ("nse", "burgers2d", "burgers3d")},
}
# `compact` where nodes correspond and move: places are in [0, 1], half as wide as the box of other
# coordinates.
PLACED: dict[str, dict[str, dict[str, gb.Value]]] = {"pipe": {"compact": {"model.w0_out": 15.0}}}


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "coral",
        Params,
        Coral,
        presets={
            "paper": gb.Preset(
                is_paper=True,
                train={"optimiser": "adam", "lr": 1e-3, "batch": 32, "schedule": "cosine"},
                inputs="minmax",
                outputs="minmax",
                impose_boundary=False,
            ),
            "official": gb.Preset(
                model={
                    "width": 256,
                    "processor": 128,
                    "codec_rate": 0.1,
                    "codec_loss": "mse",
                    "checkpoint": True,
                },
                train={
                    "optimiser": "adamw",
                    "lr": 1e-3,
                    "batch": 64,
                    "schedule": "cosine",
                    "clip": 1.0,
                },
                points="minmax",
                impose_boundary=False,
            ),
            "compact": gb.Preset(
                model={
                    "width": 64,
                    "processor": 128,
                    "codec_rate": 1.0,
                    "codec_loss": "mse",
                    "codec_share": 0.75,
                    "frames": 3,
                    "items": 32,
                },
                train={
                    "optimiser": "muon",
                    "lr": 5e-3,
                    "batch": 8,
                    "schedule": "cosine",
                    "warmup": 0.1,
                    "clip": 1.0,
                },
            ),
        },
        settings={
            task: {"official": knobs, **PLACED.get(task, {})} for task, knobs in OFFICIAL.items()
        },
        summary=summary,
        geometry=geometry,
        phases=phases,
        capabilities=frozenset(gb.Capability),
        revision=2,  # coordinates in [-1, 1] but for `official` and places
        title="CORAL",
        cites="Serrano, Le Boudec, Kassai Koupai, Wang, Yin, Vittaut and Gallinari, Operator "
        "Learning with Neural Fields: "
        "Tackling PDEs on General Geometries, NeurIPS 2023",
        differs=(
            "`paper`: its decoder, an MLP of 3 layers 64 wide, exists in no CORAL; it is read as "
            "the processor, 3 blocks 64 wide",
            "`paper`: codecs learn at half of the paper's rate; both stages share its 1000 epochs",
            "`paper`: stage 1 minimises the root of the mean squared error, as no loss is named "
            "there; the authors, `official` "
            "and `compact` minimise the mean squared error itself",
            "weights of stage 1 are chosen by the validation error of f_u, not by the training "
            "loss; both rates follow a "
            "cosine, where the authors lower that of stage 2 on plateaus",
            "`official`: the widths of steady processors, the batches, and w0 on the car are ours",
            "`official`: codecs learn at 1e-4 everywhere, the authors' rate for elasticity; they "
            "take down to 5e-6 over 5 to 10 "
            "times as many epochs. The norm of the gradient is clipped, not its values",
            "several given frames: the next code is the last one plus an MLP of all of them "
            "(ours); the authors start from one",
            "stage 1 sees a few random frames of each trajectory a step, not all; all fields share "
            "one codec, where the authors "
            "have one a field for shallow water",
            "codes of a steady output are centred and divided by one number for stage 2; the "
            "authors leave them raw",
            "places common to all samples are mean node positions in the box, for pipe too, where "
            "the authors take a grid of "
            "indices; a mesh with other nodes uses its own positions there",
            "a shape given without static fields on nodes that do not correspond is encoded as "
            "distances to the tagged nodes; "
            "scalars join the code by a linear map (steady) or as inputs of the MLP (unsteady): "
            "ours",
            "airfoil: one frame to the next by the dynamics, as the task asks; the authors map the "
            "first frame to the last",
            "`compact` is ours: small, trained by Muon, known boundary values imposed",
        ),
    )
