"""Graph Spectral Neural Operator: layers that mix the modes of a mesh and of time at once.

Formula   v_0     = P(inputs, t)                                      lift
          v_{l+1} = GELU(W v_l + Phi F^-1(R . F(Phi^T M v_l)))        layer
          u       = Q(v_L)                                            head
Symbols   Phi holds k_s eigenvectors of the mesh's Laplacian (graph modes), M the mass of its nodes;
          F is the Fourier transform in time, cut after k_t frequencies (temporal modes);
          R is one learned channel matrix for each pair of a graph mode and a temporal mode;
          P, W and Q act at each node and time by themselves.
Family    spectral
Means     spectral in space, spectral in time, any mesh at inference,
          one kernel for space and time

The same formula serves all problems. A steady field is a trajectory of one frame, whose only
temporal mode is the constant. Samples that share a mesh are further columns of one matrix product;
samples with meshes of their own are a batch of products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

import gsnobench as gb
from gsnobench_plugins.models.gsno import plus, tiled
from gsnobench_plugins.models.gsno.ablations import IdentityKernel, PerceptronKernel
from gsnobench_plugins.models.gsno.preprocessing import geometry, summary
from gsnobench_plugins.models.gsno.presets import COMPACT, DIFFERS, FAMILIES, PAPER, PLUS
from gsnobench_plugins.models.gsno.studied import STUDIES

GSNOBENCH_API = 1


class Params(gb.Params):
    """Knobs of both presets; the defaults are the paper's."""

    k_s: int = gb.knob(
        8,
        low=4,
        high=256,
        log=True,
        geometry=True,
        central=True,
        fits_mesh=True,
        help="graph modes: retained eigenvectors of the Laplacian",
    )
    k_t: int = gb.knob(
        8,
        low=1,
        high=32,
        central=True,
        help="temporal modes: Fourier modes of the latent, or of the decode if time is `channels`",
    )
    width: int = gb.knob(
        0, low=0, high=256, search=False, help="latent channels; 0: 20 for one frame, else 40"
    )
    layers: int = gb.knob(4, low=1, high=8, search=False, help="spectral layers")
    head: int = gb.knob(128, low=8, high=512, search=False, help="hidden channels of the head")
    basis: Literal["gaussian", "fem", "nodes", "knn", "random"] = gb.knob(
        "gaussian",
        geometry=True,
        help="Laplacian whose eigenvectors are the graph modes; `nodes`: `fem` with equal masses",
    )
    kernel: Literal["table", "hats", "identity"] = gb.knob(
        "table", help="R: one matrix per mode, hat functions of log lambda, or the identity"
    )
    knots: int = gb.knob(8, low=2, high=32, search=False, help="hat functions of the kernel `hats`")
    time: Literal["fourier", "mlp", "channels"] = gb.knob(
        "fourier", help="latent time axis mixed by FFT or MLP; `channels`: no such axis"
    )
    nyquist: bool = gb.knob(
        False,
        search=False,
        when={"time": "fourier"},
        help="if T is even, k_t may reach the last of its T/2 + 1 frequencies",
    )
    kernel_start: Literal["unit", "small"] = gb.knob(
        "unit",
        search=False,
        when={"kernel": ("table", "hats")},
        help="R before training: normal with deviation 1/C, or uniform from 0 to 1/C^2",
    )
    lift_layers: int = gb.knob(
        1, low=1, high=2, search=False, help="linear layers of the lift P, GELU between them"
    )
    last_gelu: bool = gb.knob(True, search=False, help="GELU after the last layer as well")
    local: bool = gb.knob(True, search=False, help="the pointwise map W; false sets W = 0")
    residual: bool = gb.knob(False, help="layers add to their input")
    coordinates: bool = gb.knob(True, search=False, help="node coordinates as input")
    padding: int = gb.knob(
        6, low=0, high=32, search=False, help="latent steps after the last frame: FFT is periodic"
    )
    gradients: bool = gb.knob(
        False, geometry=True, help="the kernel also writes on the gradients of the modes"
    )
    features: bool = gb.knob(
        False, geometry=True, help="boundary distances and contrasts of static inputs as input"
    )
    propagated: int = gb.knob(
        0, low=0, high=64, search=False, help="frames of a linear propagator as input; 0: none"
    )
    gain: bool = gb.knob(
        False, help="the layers answer in units of what the propagator leaves, from zero on"
    )
    align: bool = gb.knob(
        False, geometry=True, search=False, help="rotate modes of a new mesh to the training modes"
    )
    sigma_edges: float = gb.knob(
        1.0,
        low=0.1,
        high=100.0,
        geometry=True,
        search=False,
        when={"basis": ("gaussian", "knn")},
        help="sigma of the edge weights, in mean edge lengths of the mesh",
    )
    basis_seed: int = gb.knob(
        0,
        low=0,
        geometry=True,
        search=False,
        when={"basis": "random"},
        help="seed of the basis `random`",
    )
    neighbours: int = gb.knob(
        8, low=2, high=64, geometry=True, search=False, help="edges per node of the basis `knn`"
    )
    blocks: int = gb.knob(
        1,
        low=1,
        high=8,
        search=False,
        help="calls that together predict the frames, each starting from the previous one's last "
        "frames",
    )
    tile: int = gb.knob(
        0,
        low=-1,
        search=False,
        help="numbers per tile of the low-memory path; 0: automatic; -1: off",
    )


# ------------------------------------------------------------------------------------- the operator


class Gsno(nn.Module):
    """u = Q(v_L), v_{l+1} = Layer_l(v_l), v_0 = P(inputs, t).

    A latent v is (G, N, S*T*C): G meshes with S samples each, N nodes, T latent steps, C channels.
    Its modal coefficients c = Phi^T M v are (G, k, S*T*C).
    """

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.task, self.params = task, params
        has_time_axis = params.time != "channels"
        self.steps = task.t_out + min(params.padding, task.t_out - 1) if has_time_axis else 1
        self.width = params.width or 20 * min(2, task.t_out)
        self.hints = gb.ComputedInputs(task, params.features, params.propagated, params.k_s)
        clocks = min(1, self.steps - 1)  # a single step needs no time coordinate
        inputs = task.in_channels - task.dim * (not params.coordinates) + self.hints.channels
        copies = 1 + task.dim * params.gradients
        self.lift = nn.Linear(inputs + clocks, self.width)
        self.second_lift = nn.Linear(self.width, self.width) if params.lift_layers == 2 else None
        self.layers = nn.ModuleList(
            Layer(self.width, self.steps, params, copies, activates=params.last_gelu or more > 0)
            for more in reversed(range(params.layers))
        )
        self.head = nn.Linear(self.width, params.head)
        self.last = nn.Linear(params.head, task.out_channels // min(self.steps, task.t_out))
        self.joint = None
        if not has_time_axis:
            self.joint = plus.JointDecode(task, self.width, params.k_s, params.k_t)
        self.gain: Tensor
        self.register_buffer("gain", torch.ones(task.t_out, 1, len(task.fields)))
        if params.gain and self.hints.propagator is not None:
            self.answer_zero()
        self.clock: Tensor
        clock = torch.linspace(0, 1, self.steps)[:, None][:, :clocks]  # (T, 0 or 1)
        self.register_buffer("clock", clock, persistent=False)

    def forward(self, batch: gb.Batch) -> Tensor:
        """Predict all frames, (B, t_out, N, fields)."""
        mesh = batch.geometry
        hints, start = self.hints(batch)  # (B, N, .), (B, t_out, N, fields)
        given = batch.features[..., 0 if self.params.coordinates else self.task.dim :]
        x = torch.cat([given, hints], -1)  # (B, N, F)
        dual = dual_modes(mesh)  # (G, N, k)
        v, c = self.lifted(x.unflatten(0, (dual.shape[0], -1)), dual)

        tiling = tiled.choose(v, self.params.tile)
        step: Callable[..., Any] = Layer.forward
        project: Callable[..., Tensor] = Gsno.projected
        if tiling is not None:  # the same formula in tiles that fit a processor's cache
            step, project = partial(tiled.layer, tiling=tiling), partial(tiled.head, tiling=tiling)

        for layer in self.layers[:-1]:
            v, c = step(layer, v, c, mesh, dual)
        if not self.params.last_gelu:  # tiles are made for a GELU
            step = Layer.forward
        # only the joint decode uses the coefficients of the last latent
        v, c = step(self.layers[-1], v, c, mesh, None if self.joint is None else dual)
        y = project(self, v)  # (G, N, S*t_out*fields)
        if self.joint is not None:
            y = y + mesh["modes"][..., : self.params.k_s] @ self.joint(c)  # (G, N, S*t_out*fields)
        frames = y.unflatten(-1, (-1, self.task.t_out, len(self.task.fields)))
        frames = frames.permute(0, 2, 3, 1, 4).flatten(0, 1)  # (B, t_out, N, fields)
        return start + self.gain * frames

    @torch.no_grad()
    def answer_zero(self) -> None:
        """Make the layers add nothing before they are trained."""
        ends = [*self.last.parameters(), *([] if self.joint is None else self.joint.parameters())]
        for parameter in ends:
            parameter.zero_()

    def lifted(self, x: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
        """P: inputs (G, S, N, F), equal at all latent steps, and time -> the first v and c."""
        spatial, temporal = self.lift.weight.split([x.shape[-1], self.clock.shape[1]], 1)
        v = functional.linear(x.transpose(1, 2), spatial, self.lift.bias)  # (G, N, S, C)
        pulse = self.clock @ temporal.mT  # (T, C)
        if self.second_lift is not None:
            h = functional.gelu(v[..., None, :] + pulse)  # (G, N, S, T, C)
            v = self.second_lift(h).flatten(2)  # (G, N, S*T*C)
            return v, dual.mT @ v
        # coefficients of both summands by themselves: T times cheaper than those of the sum
        c = (dual.mT @ v.flatten(2)).unflatten(2, v.shape[2:])  # (G, k, S, C)
        moved = c[..., None, :] + dual.sum(1)[..., None, None, None] * pulse  # (G, k, S, T, C)
        return (v[..., None, :] + pulse).flatten(2), moved.flatten(2)

    def projected(self, v: Tensor) -> Tensor:
        """Q: the last latent -> values at the frames that exist, (G, N, S*t_out*fields)."""
        used = min(self.steps, self.task.t_out)
        x = v.unflatten(-1, (-1, self.steps, self.width))[..., :used, :]  # (G, N, S, used, C)
        return self.last(functional.gelu(self.head(x))).flatten(2)


class Layer(nn.Module):
    """v <- GELU(W v + Phi R Phi^T M v), or with `residual` v <- v + O GELU(...)."""

    def __init__(
        self, width: int, steps: int, params: Params, copies: int, activates: bool
    ) -> None:
        super().__init__()
        self.kernel = make_kernel(width, steps, params, copies)
        self.local = nn.Linear(width, width) if params.local else None  # W
        self.out = nn.Linear(width, width) if params.residual else None  # O
        self.width, self.steps, self.copies = width, steps, copies
        self.activates = activates  # false: no GELU

    def forward(
        self, v: Tensor, c: Tensor, mesh: Mapping[str, Tensor], dual: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """v and its coefficients c -> the next v and c; no c without `dual`."""
        phi, y = mesh["modes"], self.spectral(c, mesh["level"])  # (G, N, K), (G, K, S*T*C)
        x = v.unflatten(-1, (-1, self.width))  # (G, N, S*T, C)
        z = phi @ y if self.local is None else torch.baddbmm(self.local(x).flatten(2), phi, y)
        h = functional.gelu(z) if self.activates else z  # (G, N, S*T*C)
        u = h if self.out is None else v + self.out(h.view_as(x)).flatten(2)  # (G, N, S*T*C)
        return u, None if dual is None else dual.mT @ u

    def spectral(self, c: Tensor, level: Tensor) -> Tensor:
        """R c, laid out for the product with the modes: (G, k, S*T*C) -> (G, K, S*T*C).

        K = copies*k: with `gradients` the kernel also writes on the gradients of the modes.
        """
        c = c.unflatten(-1, (-1, self.steps, self.width))  # (G, k, S, T, C)
        y = self.kernel(c, level)  # (G, k, S, T, copies*C)
        y = y.unflatten(-1, (self.copies, self.width))  # (G, k, S, T, copies, C)
        return y.permute(0, 4, 1, 2, 3, 5).flatten(3).flatten(1, 2)  # (G, K, S*T*C)


def dual_modes(mesh: Mapping[str, Tensor]) -> Tensor:
    """M Phi, (G, N, k): its transpose maps node values to modal coefficients."""
    phi = mesh["modes"][..., : mesh["level"].shape[1]]  # (G, N, k), without gradients of the modes
    return phi * mesh["mass"][..., None]


def make_kernel(width: int, steps: int, params: Params, copies: int) -> nn.Module:
    """The kernel F^-1 R F of a layer, or what replaces it in an ablation."""
    if params.time == "mlp":
        return PerceptronKernel(width, steps, params.k_s, copies)
    if params.kernel == "identity":
        return IdentityKernel(fourier_waves(params.k_t, steps, params.nyquist), copies)
    return JointKernel(width, steps, params, copies)


class JointKernel(nn.Module):
    """F^-1 (R . F c): a channel matrix per pair of a graph and a temporal mode (section 2.2).

    F is the real Fourier transform as a dense orthonormal matrix. A complex matrix of R is a pair
    of real ones; frequency 0 and the Nyquist frequency need only one. With the kernel `hats` R is
    a piecewise linear function of the mode's log lambda.
    """

    def __init__(self, width: int, steps: int, params: Params, copies: int) -> None:
        super().__init__()
        waves = fourier_waves(params.k_t, steps, params.nyquist)  # (Q, T)
        self.knots = 0 if params.kernel == "table" else params.knots
        shape = (self.knots or params.k_s, len(waves), width, copies * width)
        is_small = params.kernel_start == "small"
        start = torch.rand(shape) / width**2 if is_small else torch.randn(shape) / width
        self.weight = nn.Parameter(start)
        self.waves: Tensor
        self.register_buffer("waves", waves, persistent=False)

    def forward(self, c: Tensor, level: Tensor) -> Tensor:
        """Modal coefficients (G, k, S, T, C) -> (G, k, S, T, D)."""
        x = self.waves @ c  # (G, k, S, Q, C): frequency 0, P pairs, perhaps the Nyquist frequency
        R = self._matrices(level)  # (1 or G, k, Q, C, D)
        G, k, S, Q, C = x.shape
        P = (Q - 1) // 2
        first, pairs, last = R.split([1, 2 * P, Q - 1 - 2 * P], 2)
        real, imag = pairs.unflatten(2, (P, 2)).unbind(3)  # (., k, P, C, D)
        above, below = torch.cat([real, imag], -1), torch.cat([-imag, real], -1)
        turns = torch.cat([above, below], -2)  # (., k, P, 2C, 2D)
        waves = x[..., 1 : 1 + 2 * P, :].reshape(G, k, S, P, 2 * C)
        mixed = (waves.transpose(2, 3) @ turns).transpose(2, 3)  # (G, k, S, P, 2D)
        mixed = mixed.reshape(G, k, S, 2 * P, R.shape[-1])  # (G, k, S, 2P, D)
        mean, highest = (  # (G, k, S, 1, D), (G, k, S, 0 or 1, D)
            (rows.transpose(2, 3) @ matrices).transpose(2, 3)
            for rows, matrices in ((x[..., :1, :], first), (x[..., 1 + 2 * P :, :], last))
        )
        return self.waves.mT @ torch.cat([mean, mixed, highest], 3)  # (G, k, S, T, D)

    def _matrices(self, level: Tensor) -> Tensor:
        """R of every graph mode, by its number or by its level log lambda: (1 or G, k, Q, C, D)."""
        if not self.knots:
            return self.weight[None]  # (1, k, Q, C, D)
        centres = torch.arange(self.knots, device=level.device)
        position = level[..., None].clamp(0, 1) * (self.knots - 1)  # (G, k, 1)
        hats = (1 - (position - centres).abs()).clamp_min(0)  # (G, k, knots)
        return torch.tensordot(hats, self.weight, dims=1)  # (G, k, Q, C, D)


def fourier_waves(k_t: int, steps: int, nyquist: bool = False) -> Tensor:
    """Rows 1, cos t, -sin t, cos 2t, -sin 2t, ..., orthonormal: (Q, T).

    T steps have (T + 1) // 2 frequencies and, if T is even, the Nyquist frequency, whose sine is
    zero; k_t is cut to what there is. Q = 2 k_t - 1, less one with the Nyquist frequency.
    """
    k_t = min(k_t, steps // 2 + 1 if nyquist else (steps + 1) // 2)
    # (k_t, T), whole turns dropped while they are exact
    turns = torch.arange(k_t)[:, None] * torch.arange(steps) % steps
    angle = 2 * math.pi * turns / steps  # (k_t, T)
    rows = torch.stack([angle.cos(), -angle.sin()], 1).flatten(0, 1)  # (2 k_t, T)
    rows = rows * math.sqrt(2 / steps)
    rows = torch.cat([rows[:1] / math.sqrt(2), rows[2:]])  # the sine of frequency 0 is zero
    if len(rows) <= steps:
        return rows
    return torch.cat([rows[:-2], rows[-2:-1] / math.sqrt(2)])


# -------------------------------------------------------------------------------------- declaration


def phases(task: gb.Task, params: Params) -> tuple[gb.Phase, ...]:
    """The propagator is fitted in closed form before the rest is trained."""
    if not (params.propagated and task.t_in):
        return (gb.Phase(),)

    def solve(module: Any, fit: gb.Fit) -> None:
        plus.solve(module.hints, module.joint, fit)
        if params.gain:
            module.gain.copy_(gb.residual_size(module.hints, fit)[:, None])

    return (gb.Phase("propagator", solve=solve), gb.Phase())


def horizon(task: gb.Task, params: Params) -> gb.Horizon:
    """All frames in one call, or in `blocks` calls, trained from any frame of a trajectory."""
    return gb.Horizon(task.t_in, math.ceil(task.t_out / params.blocks), unroll=params.blocks)


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "gsno",
        Params,
        Gsno,
        presets={"paper": PAPER, "compact": COMPACT, "plus": PLUS},
        # the paper prints a wider model for the car
        settings={
            **FAMILIES,
            "car": {name: {"model.width": 40} for name in ("paper", "compact")},
        },
        geometry=geometry,
        summary=summary,
        phases=phases,
        horizon=horizon,
        capabilities=frozenset(gb.Capability),
        title="Graph Spectral Neural Operator",
        cites="Behroozi and Shen, Joint Spatiotemporal Spectral Neural Operators for Learning PDEs "
        "on Irregular Domains",
        differs=DIFFERS,
        studies=STUDIES,
        tuned=(
            "Before these searches `plus` had more trials than any other row: 31 for its first "
            "version and about 80 for its second, on validation (docs/models/gsno-trials.md).",
        ),
        revision=3,  # `compact` and `plus` take what the equal tuning found
    )
