"""A training step of GSNO against a textbook version of it: CPU time, memory and gradients.

    OMP_NUM_THREADS=1 python benchmarks/gsno_step.py [--repeats 5] [--json FILE]

Variants are interleaved and the least CPU time of each counts, so that only ratios matter. Memory
is the growth of the resident set over one step, each variant in a process of its own. `plain` is
GSNO in ordinary operations, `fast` its own choice where a latent overflows a processor's cache,
`tiled` the low-memory path of the knob `tile`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import gsnobench as gb
from gsnobench_plugins.models.gsno.gelu import activate
from gsnobench_plugins.models.gsno.model import Gsno, Params
from gsnobench_plugins.models.gsno.tiled import CACHE

BARS = {
    "steady": 0.5,
    "unsteady": 1 / 3,
    "tiled time": 1.15,
    "tiled memory": 0.4,
    "gradients": 1e-5,
}


@dataclass(frozen=True)
class Case:
    """One problem size, as in the paper's tables."""

    nodes: int
    batch: int
    t_in: int
    t_out: int
    static: int

    def task(self) -> gb.Task:
        inputs = tuple(gb.Field(f"a{i}") for i in range(self.static))
        return gb.Task(
            "step", "step", (gb.Field("u"),), dim=2, static=inputs, t_in=self.t_in, t_out=self.t_out
        )

    def inputs(self, k_s: int, dtype: torch.dtype) -> gb.Batch:
        draw = torch.Generator().manual_seed(0)
        modes, _ = torch.linalg.qr(torch.randn(self.nodes, k_s, generator=draw))
        mesh = {
            "modes": modes[None] * self.nodes**0.5,
            "mass": torch.full((1, self.nodes), 1 / self.nodes),
            "level": torch.linspace(0, 1, k_s)[None],
        }
        return gb.Batch(
            task=self.task(),
            window=torch.randn(self.batch, self.t_in, self.nodes, 1, generator=draw).to(dtype),
            static=torch.randn(self.batch, self.nodes, self.static, generator=draw).to(dtype),
            scalars=torch.zeros(self.batch, 0, dtype=dtype),
            points=torch.rand(1, self.nodes, 2, generator=draw).to(dtype),
            tags=torch.zeros(1, self.nodes, 0, dtype=torch.bool),
            mask=None,
            geometry={name: part.to(dtype) for name, part in mesh.items()},
        )


CASES = {"steady": Case(1184, 32, 0, 1, 1), "unsteady": Case(1244, 2, 5, 46, 0)}


class Textbook(nn.Module):
    """The paper's formulas line by line: 1x1 convolutions, torch.fft, a complex kernel."""

    def __init__(self, twin: Gsno) -> None:
        super().__init__()
        self.steps, self.t_out = twin.steps, twin.task.t_out
        self.has_last_gelu = twin.params.last_gelu
        self.lift = _convolution(twin.lift)
        self.second_lift = None if twin.second_lift is None else _convolution(twin.second_lift)
        self.local = nn.ModuleList(_convolution(layer.local) for layer in twin.layers)
        self.kernels = nn.ParameterList(
            nn.Parameter(_parts(layer.kernel.weight.detach())) for layer in twin.layers
        )
        self.head, self.last = _convolution(twin.head), _convolution(twin.last)
        self.clock: Tensor
        self.register_buffer("clock", twin.clock)

    def forward(self, batch: gb.Batch) -> Tensor:
        phi = batch.geometry["modes"][0]  # (N, k)
        dual = phi * batch.geometry["mass"][0][:, None]  # (N, k)
        x = batch.features.permute(0, 2, 1)[..., None]  # (B, F, N, 1)
        x = x.expand(-1, -1, -1, self.steps)  # (B, F, N, T)
        clock = self.clock.mT[None, :, None]  # (1, 0 or 1, 1, T)
        clock = clock.expand(x.shape[0], -1, x.shape[2], -1)  # (B, 0 or 1, N, T)
        v = self.lift(torch.cat([x, clock], 1).contiguous())  # (B, C, N, T)
        if self.second_lift is not None:
            v = self.second_lift(functional.gelu(v))  # (B, C, N, T)
        for local, parts in zip(self.local, self.kernels, strict=True):
            kernel = torch.view_as_complex(parts)  # (k, k_t, C, D)
            c = torch.fft.rfft(torch.einsum("nk,bcnt->bckt", dual, v))  # (B, C, k, T//2 + 1)
            y, k_t = torch.zeros_like(c), kernel.shape[1]
            y[..., :k_t] = torch.einsum("bckq,kqcd->bdkq", c[..., :k_t], kernel)
            spectral = torch.einsum("nk,bckt->bcnt", phi, torch.fft.irfft(y, n=self.steps))
            v = local(v) + spectral  # (B, C, N, T)
            if self.has_last_gelu or local is not self.local[-1]:
                v = functional.gelu(v)
        y = self.last(functional.gelu(self.head(v[..., : self.t_out])))  # (B, 1, N, t_out)
        return y.permute(0, 3, 2, 1)


def _convolution(linear: nn.Linear) -> nn.Conv2d:
    """The same map as a 1x1 convolution."""
    layer = nn.Conv2d(linear.in_features, linear.out_features, 1, dtype=linear.weight.dtype)
    layer.weight.data.copy_(linear.weight.detach()[..., None, None])
    assert layer.bias is not None
    layer.bias.data.copy_(linear.bias.detach())
    return layer


def _parts(blocks: Tensor) -> Tensor:
    """Real blocks (k, ., C, D) -> real and imaginary parts of R, (k, k_t, C, D, 2).

    Frequency 0 has no imaginary part, and the Nyquist frequency has none.
    """
    zero = torch.zeros_like(blocks[:, :1])
    real = torch.cat([blocks[:, :1], blocks[:, 1::2]], 1)
    imag = torch.cat([zero, blocks[:, 2::2], zero], 1)[:, : real.shape[1]]
    return torch.stack([real, imag], -1)


def make(
    case: str, variant: str, dtype: torch.dtype = torch.float32, **knobs: Any
) -> tuple[nn.Module, gb.Batch]:
    """A module and its inputs; the weights are the same for all variants and precisions."""
    torch.manual_seed(0)
    params = Params(tile={"fast": 0, "tiled": CACHE}.get(variant, -1), **knobs)
    ours = Gsno(CASES[case].task(), params).to(dtype)
    inputs = CASES[case].inputs(params.k_s, dtype)
    return (Textbook(ours) if variant == "textbook" else ours), inputs


def make_step(module: nn.Module, batch: gb.Batch) -> Callable[[], None]:
    """Forward, backward and optimiser."""
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-4)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        module(batch).square().mean().backward()
        optimiser.step()

    return step


def time_steps(case: str, variants: list[str], repeats: int) -> dict[str, float]:
    """Least CPU-seconds of a step; the variants take turns."""
    steps = {variant: make_step(*make(case, variant)) for variant in variants}
    best = dict.fromkeys(variants, float("inf"))
    for turn in range(repeats + 1):
        for variant, step in steps.items():
            begun = time.process_time()
            step()
            if turn:  # the first turn warms up
                best[variant] = min(best[variant], time.process_time() - begun)
    return best


def gradient_gap(
    case: str, variant: str, dtype: torch.dtype = torch.float32, **knobs: Any
) -> float:
    """Largest relative difference of a gradient from the textbook's in double precision.

    Relative to that gradient's largest entry. In single precision the textbook itself is off by up
    to 7e-6 on some machines, which is no fault of the variant.
    """
    gradients = _gradients(*make(case, variant, dtype, **knobs))
    exact = _gradients(*make(case, "textbook", torch.float64, **knobs))
    return max(_gap(mine, theirs) for mine, theirs in zip(gradients, exact, strict=True))


def _gradients(module: Any, batch: gb.Batch) -> list[Tensor]:
    """All gradients in one layout: maps as matrices, kernels as their real and imaginary parts."""
    module(batch).square().mean().backward()
    if isinstance(module, Textbook):
        local = list(module.local)
        kernels = [parts.grad for parts in module.kernels]
    else:
        local = [layer.local for layer in module.layers]
        kernels = [_parts(layer.kernel.weight.grad) for layer in module.layers]
    lifts = [lift for lift in (module.lift, module.second_lift) if lift is not None]
    maps = [*local, *lifts, module.head, module.last]
    weights = [linear.weight.grad.flatten(1) for linear in maps]
    return [*kernels, *weights, *(linear.bias.grad for linear in maps)]


def _gap(mine: Tensor, theirs: Tensor) -> float:
    largest = theirs.abs().amax()
    return float((mine - theirs).abs().amax() / largest) if largest > 0 else float(mine.any())


def peak_growth(case: str, variant: str) -> float:
    """MB by which one step raises the resident set over the idle module; runs in this process."""
    step = make_step(*make(case, variant))
    activate(torch.zeros(1))  # loads compiled code, once per process: no memory of a step
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    step()
    return (_status("VmHWM") - before) / 1024


def _status(entry: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(entry)).split()[1])  # kB


def peak_growth_apart(case: str, variant: str) -> float:
    """`peak_growth` in a fresh process, where no freed memory can be reused unseen."""
    command = [sys.executable, __file__, "--peak", case, variant]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(repeats: int) -> dict[str, Any]:
    """All figures."""
    variants = dict.fromkeys(CASES, ["textbook", "plain", "fast", "tiled"])
    seconds = {case: time_steps(case, names, repeats) for case, names in variants.items()}
    peaks = {
        case: {name: peak_growth_apart(case, name) for name in names}
        for case, names in variants.items()
    }
    gaps = {
        case: {name: gradient_gap(case, name) for name in names} for case, names in variants.items()
    }
    unsteady, peak = seconds["unsteady"], peaks["unsteady"]
    ratios = {
        "steady": seconds["steady"]["fast"] / seconds["steady"]["textbook"],
        "unsteady": unsteady["fast"] / unsteady["textbook"],
        "tiled time": unsteady["tiled"] / unsteady["plain"],
        "tiled memory": peak["tiled"] / peak["plain"],
        "gradients": max(
            gap for case in gaps.values() for name, gap in case.items() if name != "textbook"
        ),
    }
    return {
        "cpu_s": seconds,
        "peak_mb": peaks,
        "gradient_gap": gaps,
        "ratios": ratios,
        "bars": BARS,
    }


def render(result: dict[str, Any]) -> str:
    """The figures as two small tables."""
    rows = ["case      variant         CPU ms/step   peak MB   gradient gap"]
    for case, seconds in result["cpu_s"].items():
        for name, value in seconds.items():
            peak, gap = result["peak_mb"][case][name], result["gradient_gap"][case][name]
            rows.append(f"{case:9s} {name:14s} {1000 * value:12.1f} {peak:9.0f} {gap:14.1e}")
    rows.append("")
    rows.append("ratio            measured       bar")
    for name, value in result["ratios"].items():
        verdict = "ok" if value <= result["bars"][name] else "MISSED"
        rows.append(f"{name:14s} {value:10.3g} {result['bars'][name]:9.3g}  {verdict}")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peak", nargs=2, metavar=("CASE", "VARIANT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        print(peak_growth(*options.peak))
        return
    result = measure(options.repeats)
    print(render(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
