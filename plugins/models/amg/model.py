"""AMG: attention along three graphs in turn, of physical states, of details, of distant nodes.

Operator  a physics graph joins M soft states of all nodes in each of H heads; a local graph joins
          nodes whose values cannot be interpolated from a coarse sample with their neighbours; a
          global graph joins farthest points that have similar features
Formula   X_0 = MLP([x, inputs]);  P = Phys(X), Q = Graph(P, local), R = Graph(Q, global),
          X <- MLP(LN(R + X)), L times;  u = MLP(LN(X_L + X_0))
          Phys, Graph: Y = LN(A(X) + X), LN(MLP(Y) + Y)
          A of Graph (GATv2): y_i = mean_h sum_j softmax_j(a_h . leaky(s_hj + t_hi)) s_hj + c,
          s_h, t_h = W_h x + b_h, j among the k neighbours and i itself
          A of Phys: w_h = softmax_M((W_p W_in,h x + b) / tau_h), tokens
          T_h = sum_n w s / (sum_n w + 1e-5) of s_h = W_tok,h x, attention among the tokens of a
          head, y_n = W_out [w_h T'_h]_h
Cost      Phys: O(N d H M), its maps act on the M tokens, exactly; Graph: O(S d H (d + k)) for S
          sampled nodes, O(N d^2) for the rest, which attend to themselves alone; building the
          graphs, anew in every block: S^2 d + S^2 log k
Start     compact on a CPU; `--model.local_share 0.4` makes the number of local nodes a share of the
          mesh, for other resolutions
Family    graph, attention
Means     partly spectral in space, any mesh at inference, stacks of graph layers, attention,
          several graphs or gates, partly one kernel for space and time
Paper     https://arxiv.org/abs/2411.15178
Code      https://github.com/lizhihao2022/AMG
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import gsnobench as gb
from gsnobench_plugins.models.amg.graph import EdgeAttention, Graph, Sites, sampled_geometry

GSNOBENCH_API = 1
EMPTY = 1e-5  # keeps the token of a state without nodes finite
EPSILON, MOMENTUM = 1e-5, 0.1  # of the norm over nodes


class Params(gb.Params):
    """The defaults are the paper's table."""

    width: int = gb.knob(256, low=8, high=512, log=True, help="channels d, of every head")
    layers: int = gb.knob(3, low=1, high=8, help="blocks of physics, local and global graph")
    heads: int = gb.knob(8, low=1, high=16, help="heads H, each d channels wide")
    states: int = gb.knob(
        32, low=1, high=128, log=True, help="nodes M of the physics graph, per head"
    )
    local_nodes: int = gb.knob(
        1024,
        low=1,
        high=8192,
        log=True,
        geometry=True,
        help="nodes of the local graph, at most all",
    )
    local_share: float = gb.knob(
        0.0,
        low=0.0,
        high=1.0,
        geometry=True,
        search=False,
        help="nodes of the local graph as a share of all; 0: local_nodes",
    )
    local_k: int = gb.knob(6, low=1, high=16, help="neighbours in the local graph")
    local_space: Literal["place", "features"] = gb.knob(
        "place", search=False, help="distance between local neighbours: of positions or features"
    )
    local_ratio: float = gb.knob(
        0.25,
        low=0.01,
        high=1.0,
        geometry=True,
        search=False,
        help="share of coarse nodes; a detail is what they cannot interpolate",
    )
    global_ratio: float = gb.knob(
        0.75, low=0.01, high=1.0, geometry=True, help="share of nodes in the global graph"
    )
    global_k: int = gb.knob(
        4, low=1, high=16, help="neighbours in the global graph, by the cosine of features"
    )
    batch_norm: bool = gb.knob(
        True, search=False, help="normalise over the nodes of a batch inside the maps of graphs"
    )
    frames: int = gb.knob(
        0,
        low=0,
        search=False,
        help="frames per call, the next call starting from its own prediction; 0: all at once",
    )
    checkpoint: bool = gb.knob(
        False, search=False, help="recompute blocks for the gradient: less memory, 1/3 more time"
    )


# ------------------------------------------------------------------------------------- the operator


class Amg(nn.Module):
    """u = MLP(LN(X_L + X_0)), X <- MLP(LN(Graph(Graph(Phys(X))) + X)), X_0 = MLP([x, inputs])."""

    def __init__(self, task: gb.Task, params: Params) -> None:
        super().__init__()
        self.params, width = params, params.width
        self.lift = Mlp(task.in_channels, 2 * width, width)
        self.blocks = nn.ModuleList(Block(params) for _ in range(params.layers))
        self.norm = nn.LayerNorm(width)
        self.last = Mlp(width, width, task.out_channels)

    def forward(self, batch: gb.Batch) -> Tensor:
        sites, first = Sites.of(batch), self.lift(batch.features)  # (B, N, d)
        x = first
        for block in self.blocks:
            if self.params.checkpoint and torch.is_grad_enabled():
                x = checkpoint(block, x, sites, use_reentrant=False, context_fn=self.contexts)
            else:
                x = block(x, sites)
        return batch.frames(self.last(self.norm(x + first)))  # (B, t_out, N, C)

    def contexts(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """For computing a block, and for recomputing it."""
        return nullcontext(), self.recomputing()

    @contextmanager
    def recomputing(self) -> Iterator[None]:
        """While blocks are recomputed for the gradient: norms do not count their nodes again."""
        norms = [part for part in self.modules() if isinstance(part, NodeNorm)]
        for norm in norms:
            norm.is_tracking = False
        try:
            yield
        finally:
            for norm in norms:
                norm.is_tracking = True


class Block(nn.Module):
    """X <- MLP(LN(R + X)) with R from the physics, the local and the global graph in turn."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params, width = params, params.width
        self.physics = Residual(PhysicsAttention(width, params.heads, params.states), width, False)
        self.local, self.distant = (
            Residual(GraphAttention(width, params.heads), width, params.batch_norm)
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        self.mlp = Mlp(width, width, width)

    def forward(self, x: Tensor, sites: Sites) -> Tensor:
        y = self.physics(x, sites.mask, sites.mask)  # (B, N, d)
        y = self.local(y, self.graph(y, sites, True), sites.mask)
        y = self.distant(y, self.graph(y, sites, False), sites.mask)
        return self.mlp(self.norm(y + x))

    def graph(self, x: Tensor, sites: Sites, is_local: bool) -> Graph:
        """From the current features, in full precision, since neighbours differ by little."""
        params = self.params
        with torch.no_grad(), full_precision(x):
            if is_local:
                return sites.local_graph(x, params.local_k, params.local_space)
            return sites.global_graph(x, params.global_k)


class Residual(nn.Module):
    """LN(MLP(Y) + Y), Y = LN(A(X) + X), for the attention A of a graph."""

    def __init__(self, attention: nn.Module, width: int, is_normed: bool) -> None:
        super().__init__()
        self.attention, self.mlp = attention, Mlp(width, width, width, depth=1, is_normed=is_normed)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, graph: Graph | Tensor | None, mask: Tensor | None) -> Tensor:
        y = self.first(self.attention(x, graph) + x)
        return self.second(self.mlp(y, mask) + y)


class PhysicsAttention(nn.Module):
    """Attention among M soft states of the nodes.

    W_in is first multiplied by W_p, and W_tok and W_out act on the tokens instead of the nodes.
    """

    def __init__(self, width: int, heads: int, states: int) -> None:
        super().__init__()
        self.place, self.place_bias = matrices(heads, width), vectors(heads, width)  # W_in
        self.token, self.token_bias = matrices(heads, width), vectors(heads, width)  # W_tok
        self.state = nn.Linear(width, states)  # W_p, shared by the heads
        nn.init.orthogonal_(self.state.weight)
        self.temperature = nn.Parameter(torch.full((heads,), 0.5))  # tau
        self.query_key_value = matrices(3, width)
        self.out = matrices(heads, width, fan_in=heads * width)  # W_out, per head
        bound = (heads * width) ** -0.5
        self.out_bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def shares(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """w: how much a node belongs to each state, (B, N, H, M), 0 at padding."""
        scale = self.temperature[:, None]  # (H, 1)
        matrix = self.state.weight @ self.place / scale[..., None]  # (H, M, d)
        bias = (self.place_bias @ self.state.weight.mT + self.state.bias) / scale  # (H, M)
        logits = functional.linear(x, matrix.flatten(0, 1), bias.flatten())  # (B, N, H*M)
        shares = logits.unflatten(-1, bias.shape).softmax(-1)
        return shares if mask is None else shares * mask[..., None]

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, N, d) -> (B, N, d); mask (B, N, 1)."""
        shares = self.shares(x, mask)
        heads, flat = shares.shape[2], shares.flatten(2)
        sums = (flat.mT @ x).unflatten(1, (heads, -1))  # (B, H, M, d)
        sizes = shares.sum(1)[..., None]  # (B, H, M, 1)
        tokens = sums @ self.token.mT + sizes * self.token_bias[:, None]  # (B, H, M, d)
        tokens = tokens / (sizes + EMPTY)
        query, key, value = (tokens @ self.query_key_value.flatten(0, 1).mT).chunk(3, -1)
        mixed = functional.scaled_dot_product_attention(query, key, value)  # (B, H, M, d)
        written = mixed @ self.out.mT  # (B, H, M, d)
        return flat @ written.flatten(1, 2) + self.out_bias


class GraphAttention(nn.Module):
    """GATv2 with heads of full width, averaged."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        # of the source and of the target of an edge
        self.weight = nn.Parameter(torch.empty(heads, 2, width, width))
        self.bias = vectors(heads, 2, width)
        self.score = nn.Parameter(torch.empty(heads, width))  # a
        self.shift = nn.Parameter(torch.zeros(width))  # c
        for part, fans in ((self.weight, width + heads * width), (self.score, heads + width)):
            bound = (6 / fans) ** 0.5  # Glorot's, as in the authors' library
            nn.init.uniform_(part, -bound, bound)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """(B, N, d) -> (B, N, d).

        The bias of the sources is added at the end: the shares of a node sum to 1.
        """
        flat = x.flatten(0, 1)
        # nodes outside the graph attend to themselves alone
        alone = functional.linear(flat, self.weight[:, 0].mean(0))  # (B*N, d)
        with full_precision(x):
            rows = flat.index_select(0, graph.nodes).to(self.weight.dtype)  # (R, d)
            weights = self.weight, self.bias.sum(1), self.score
            joined = EdgeAttention.apply(rows, *weights, graph.near, graph.is_missing)  # (R, d)
        y = alone.index_copy(0, graph.nodes, joined.to(alone.dtype))
        return (y + (self.shift + self.bias[:, 0].mean(0))).view_as(x)


class Mlp(nn.Module):
    """W_last ReLU(..) with `depth` square layers, each after a ReLU and optionally a node norm."""

    def __init__(
        self, inputs: int, width: int, outputs: int, *, depth: int = 0, is_normed: bool = False
    ) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.middle = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(NodeNorm(width) for _ in range(depth * is_normed))
        self.last = nn.Linear(width, outputs)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.first(x)
        for index, layer in enumerate(self.middle):
            x = functional.relu(x)
            x = layer(self.norms[index](x, mask) if self.norms else x)
        return self.last(functional.relu(x))


class NodeNorm(nn.Module):
    """Batch norm over all nodes of all samples, without padding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.is_tracking = True  # off while a block is recomputed: its statistics were counted

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, N, d), mask (B, N, 1) -> (B, N, d)."""
        if self.training and mask is not None:
            return self.masked(x, mask)
        mean, variance = self.mean, self.variance
        if not self.is_tracking:
            mean, variance = mean.clone(), variance.clone()
        y = functional.batch_norm(
            x.flatten(0, 1),
            mean,
            variance,
            weight=self.weight,
            bias=self.bias,
            training=self.training,
            momentum=MOMENTUM,
            eps=EPSILON,
        )
        return y.view_as(x)

    def masked(self, x: Tensor, mask: Tensor) -> Tensor:
        """In training, by the statistics of the real nodes; updates the running ones."""
        count = mask.sum()
        mean = (x * mask).sum((0, 1)) / count  # (d,)
        variance = ((x - mean).square() * mask).sum((0, 1)) / count
        if self.is_tracking:
            with torch.no_grad():
                unbiased = variance * count / (count - 1)
                self.mean.lerp_(mean.to(self.mean.dtype), MOMENTUM)
                self.variance.lerp_(unbiased.to(self.variance.dtype), MOMENTUM)
        scale = self.weight * (variance + EPSILON).rsqrt()
        return torch.addcmul(self.bias - mean * scale, x, scale)


def full_precision(x: Tensor) -> AbstractContextManager[None]:
    """No autocast."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def matrices(count: int, width: int, fan_in: int = 0) -> nn.Parameter:
    """Square maps, started as torch starts a linear map of `fan_in` channels."""
    bound = (fan_in or width) ** -0.5
    return nn.Parameter(torch.empty(count, width, width).uniform_(-bound, bound))


def vectors(*shape: int) -> nn.Parameter:
    """Biases, started as torch starts those of a linear map."""
    bound = shape[-1] ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


# -------------------------------------------------------------------------------------- declaration


def geometry(mesh: gb.Mesh, task: gb.Task, params: Params, summary: gb.Summary) -> gb.Geometry:
    """Farthest points, the detail operator, and the number of nodes in each graph."""
    local = math.ceil(params.local_share * mesh.size) if params.local_share else params.local_nodes
    coarse, sampled = params.local_ratio, params.global_ratio
    return sampled_geometry(mesh, coarse=coarse, sampled=sampled, local=local)


def horizon(task: gb.Task, params: Params) -> gb.Horizon:
    """All frames in one call, or `frames` per call, trained from any frame of a trajectory."""
    return gb.Horizon(task.t_in, min(params.frames or task.t_out, task.t_out))


# The authors' sizes for the benchmark nearest to each task: Poisson, airfoil, plate, Navier-Stokes,
# car.
POISSON: Mapping[str, gb.Value] = {
    "model.local_k": 4,
    "model.global_k": 3,
    "model.local_space": "features",
    "train.weight_decay": 1e-4,
    "train.batch": 64,
}
AIRFOIL: Mapping[str, gb.Value] = {"model.local_space": "features"}
PLATE: Mapping[str, gb.Value] = {
    "model.layers": 2,
    "model.local_nodes": 128,
    "model.local_k": 4,
    "train.batch": 128,
}
NAVIER_STOKES: Mapping[str, gb.Value] = {"model.local_nodes": 1024, "train.batch": 32}
OFFICIAL: Mapping[str, Mapping[str, gb.Value]] = {
    "darcy": POISSON,
    "darcy_threshold": POISSON,
    "airfoil": AIRFOIL,
    "airfoil_family": AIRFOIL,
    "elasticity": PLATE,
    "elasticity_radii": PLATE,
    "elasticity_stretched": PLATE,
    "nse": NAVIER_STOKES,
    "nse_printed": NAVIER_STOKES,
    "swe": NAVIER_STOKES,
    "burgers2d": NAVIER_STOKES,
    "burgers2d_lively": NAVIER_STOKES,
    "burgers3d": NAVIER_STOKES,
    "burgers3d_lively": NAVIER_STOKES,
    "car": {"model.heads": 4, "train.weight_decay": 1e-4, "train.batch": 1, "train.accumulate": 16},
}


DIFFERS = (
    "a layer norm that the authors' blocks build and never use is left out: 2 d L parameters "
    "fewer, on Darcy 14,060,921 instead of 14,062,457",
    "farthest points begin at the node nearest to the centroid, and ties go by coordinates; the "
    "authors begin at a random node, in evaluation too, so that two of their predictions for one "
    "input differ",
    "of nodes without any detail, such as the coarse ones, the local graph contains the farthest "
    "points first; the authors use any",
    "samples and neighbours are chosen by physical positions, whatever scaling the inputs have; "
    "scalars are inputs of every node",
    "`paper`: what it leaves open is the authors': 6 local neighbours by position, 4 global ones "
    "by the cosine of features, details against 25 % of the nodes, batch norm, ReLU; loss "
    "(relative L2) and schedule (cosine) are ours",
    "all frames are predicted in one call, time in the channels, as in the paper's table; the "
    "authors train and score single steps (`--model.frames 1`)",
    "`official`: the rate falls along a cosine, not by half every 100 or 200 epochs; the loss is "
    "relative L2 in physical units, averaged over the batch, not summed; two numbers per channel "
    "scale the data",
    "`official`: a batch is one car and gradients are added over 16, so that batch norm uses the "
    "statistics of one car at a time",
    "padding is left out of batch norm, states and graphs; the authors join samples of different "
    "size end to end instead",
    "`compact` is ours: small, trained by Muon, known boundary values imposed",
)


@gb.hookimpl
def gsnobench_model() -> gb.Model:
    return gb.Model(
        "amg",
        Params,
        Amg,
        presets={
            "paper": gb.Preset(
                train={
                    **gb.MINMAX,
                    "optimiser": "adam",
                    "lr": 1e-3,
                    "batch": 32,
                    "schedule": "cosine",
                    "impose_boundary": False,
                },
                is_paper=True,
            ),
            "official": gb.Preset(
                model={"width": 128, "local_nodes": 512, "global_ratio": 0.25},
                train={
                    "optimiser": "adamw",
                    "lr": 1e-3,
                    "weight_decay": 1e-5,
                    "batch": 16,
                    "schedule": "cosine",
                    "scale_points": "zscore",
                    "impose_boundary": False,
                },
            ),
            "compact": gb.Preset(
                model={
                    "width": 32,
                    "layers": 2,
                    "heads": 2,
                    "local_nodes": 128,
                    "global_ratio": 0.25,
                },
                train={
                    "optimiser": "muon",
                    "lr": 1e-2,
                    "batch": 8,
                    "schedule": "cosine",
                    "warmup": 0.1,
                    "clip": 1.0,
                },
                is_default=True,
            ),
        },
        settings={task: {"official": knobs} for task, knobs in OFFICIAL.items()},
        geometry=geometry,
        horizon=horizon,
        capabilities=frozenset(gb.Capability),
        revision=3,  # `compact` takes what the equal tuning found
        title="AMG",
        cites="Li, Song, Xiao, Lai and Wang, Harnessing Scale and Physics: A Multi-Graph Neural "
        "Operator Framework for PDEs on Arbitrary Geometries, KDD 2025",
        differs=DIFFERS,
    )
