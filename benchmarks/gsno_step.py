"""GSNO's training step against the same operator written as in a textbook: CPU time, memory and gradients, in one run.

    OMP_NUM_THREADS=1 python benchmarks/gsno_step.py [--repeats 5] [--json FILE]

Variants are interleaved and the least CPU time of each counts, so that only ratios matter. Memory is the growth of the
resident set over one step, each variant in a process of its own.
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
from gsnobench_plugins.models.gsno import Gsno, Params

BARS = {"steady": 0.5, "unsteady": 1 / 3, "tiled time": 1.15, "tiled memory": 0.4, "gradients": 1e-5}


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
        return gb.Task("step", "step", (gb.Field("u"),), dim=2, static=inputs, t_in=self.t_in, t_out=self.t_out)

    def inputs(self, k_s: int) -> gb.Batch:
        draw = torch.Generator().manual_seed(0)
        modes, _ = torch.linalg.qr(torch.randn(self.nodes, k_s, generator=draw))
        mesh = {
            "modes": modes[None] * self.nodes**0.5,
            "mass": torch.full((1, self.nodes), 1 / self.nodes),
            "level": torch.linspace(0, 1, k_s)[None],
        }
        return gb.Batch(
            task=self.task(),
            window=torch.randn(self.batch, self.t_in, self.nodes, 1, generator=draw),
            static=torch.randn(self.batch, self.nodes, self.static, generator=draw),
            scalars=torch.zeros(self.batch, 0),
            points=torch.rand(1, self.nodes, 2, generator=draw),
            tags=torch.zeros(1, self.nodes, 0, dtype=torch.bool),
            mask=None,
            geometry=mesh,
        )


CASES = {"steady": Case(1184, 32, 0, 1, 1), "unsteady": Case(1244, 2, 5, 46, 0)}


class Textbook(nn.Module):
    """The paper's formulas line by line: channels first, 1x1 convolutions, torch.fft, complex kernel."""

    def __init__(self, twin: Gsno) -> None:
        super().__init__()
        self.steps, self.t_out = twin.steps, twin.task.t_out
        self.lift = _convolution(twin.lift)
        self.local = nn.ModuleList(_convolution(layer.local) for layer in twin.layers)
        self.kernels = nn.ParameterList(_complex(layer.kernel.weight.detach()) for layer in twin.layers)
        self.head, self.last = _convolution(twin.head), _convolution(twin.last)
        self.clock: Tensor
        self.register_buffer("clock", twin.clock)

    def forward(self, batch: gb.Batch) -> Tensor:
        phi = batch.geometry["modes"][0]  # (N, k)
        dual = phi * batch.geometry["mass"][0][:, None]  # (N, k)
        x = batch.features.permute(0, 2, 1)[..., None].expand(-1, -1, -1, self.steps)  # (B, F, N, T)
        clock = self.clock.mT[None, :, None].expand(x.shape[0], -1, x.shape[2], -1)  # (B, 0 or 1, N, T)
        v = self.lift(torch.cat([x, clock], 1).contiguous())  # (B, C, N, T)
        for local, kernel in zip(self.local, self.kernels, strict=True):
            c = torch.fft.rfft(torch.einsum("nk,bcnt->bckt", dual, v))  # (B, C, k, T//2 + 1)
            y = torch.zeros_like(c)
            y[..., : kernel.shape[1]] = torch.einsum("bckq,kqcd->bdkq", c[..., : kernel.shape[1]], kernel)
            v = functional.gelu(local(v) + torch.einsum("nk,bckt->bcnt", phi, torch.fft.irfft(y, n=self.steps)))
        y = self.last(functional.gelu(self.head(v[..., : self.t_out])))  # (B, 1, N, t_out)
        return y.permute(0, 3, 2, 1)


def _convolution(linear: nn.Linear) -> nn.Conv2d:
    made = nn.Conv2d(linear.in_features, linear.out_features, 1)
    made.weight.data.copy_(linear.weight.detach()[..., None, None])
    assert made.bias is not None
    made.bias.data.copy_(linear.bias.detach())
    return made


def _complex(blocks: Tensor) -> nn.Parameter:
    """2 k_t - 1 real blocks (k, ., C, D) -> (k, k_t, C, D) complex."""
    real = torch.cat([blocks[:, :1], blocks[:, 1::2]], 1)
    imag = torch.cat([torch.zeros_like(blocks[:, :1]), blocks[:, 2::2]], 1)
    return nn.Parameter(torch.complex(real, imag))


def make(case: str, variant: str) -> tuple[nn.Module, gb.Batch]:
    """A module of the variant, with the same weights whatever the variant, and its inputs."""
    torch.manual_seed(0)
    params = Params(tile=0 if variant == "tiled" else -1)
    ours = Gsno(CASES[case].task(), params)
    return (Textbook(ours) if variant == "textbook" else ours), CASES[case].inputs(params.k_s)


def make_step(module: nn.Module, batch: gb.Batch) -> Callable[[], None]:
    """Forward, backward and optimiser."""
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-4)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        module(batch).square().mean().backward()
        optimiser.step()

    return step


def time_steps(case: str, variants: list[str], repeats: int) -> dict[str, float]:
    """Least CPU seconds of a step, the variants taking turns."""
    steps = {variant: make_step(*make(case, variant)) for variant in variants}
    best = dict.fromkeys(variants, float("inf"))
    for turn in range(repeats + 1):
        for variant, step in steps.items():
            begun = time.process_time()
            step()
            if turn:  # the first turn warms up
                best[variant] = min(best[variant], time.process_time() - begun)
    return best


def gradient_gap(case: str, variant: str) -> float:
    """Largest difference of a gradient from the textbook's, relative to that gradient's largest entry."""
    found: list[Any] = []
    for name in ("textbook", variant):
        module, batch = make(case, name)
        module(batch).square().mean().backward()
        found.append(module)
    textbook, ours = found
    gaps = []
    for layer, local, kernel in zip(ours.layers, textbook.local, textbook.kernels, strict=True):
        gaps.append(_gap(layer.local.weight.grad, local.weight.grad[..., 0, 0]))
        blocks = layer.kernel.weight.grad
        gaps.append(_gap(torch.cat([blocks[:, :1], blocks[:, 1::2]], 1), kernel.grad.real))
        gaps.append(_gap(blocks[:, 2::2], kernel.grad.imag[:, 1:]))
    for mine, theirs in ((ours.lift, textbook.lift), (ours.head, textbook.head), (ours.last, textbook.last)):
        gaps.append(_gap(mine.weight.grad, theirs.weight.grad[..., 0, 0]))
        gaps.append(_gap(mine.bias.grad, theirs.bias.grad))
    return max(gaps)


def _gap(mine: Tensor, theirs: Tensor) -> float:
    return float((mine - theirs).abs().amax() / theirs.abs().amax()) if theirs.numel() else 0.0


def peak_growth(case: str, variant: str) -> float:
    """MB by which one step raises the resident set over the idle module; runs in this process."""
    step = make_step(*make(case, variant))
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
    variants = dict.fromkeys(CASES, ["textbook", "plain", "tiled"])
    seconds = {case: time_steps(case, names, repeats) for case, names in variants.items()}
    peaks = {case: {name: peak_growth_apart(case, name) for name in names} for case, names in variants.items()}
    gaps = {case: {name: gradient_gap(case, name) for name in names[1:]} for case, names in variants.items()}
    unsteady, peak = seconds["unsteady"], peaks["unsteady"]
    ratios = {
        "steady": seconds["steady"]["tiled"] / seconds["steady"]["textbook"],
        "unsteady": unsteady["tiled"] / unsteady["textbook"],
        "tiled time": unsteady["tiled"] / unsteady["plain"],
        "tiled memory": peak["tiled"] / peak["plain"],
        "gradients": max(gap for case in gaps.values() for gap in case.values()),
    }
    return {"cpu_s": seconds, "peak_mb": peaks, "gradient_gap": gaps, "ratios": ratios, "bars": BARS}


def render(found: dict[str, Any]) -> str:
    """The figures as two small tables."""
    rows = ["case      variant         CPU ms/step   peak MB   gradient gap"]
    for case, seconds in found["cpu_s"].items():
        for name, value in seconds.items():
            gap = found["gradient_gap"][case].get(name)
            shown = "-" if gap is None else f"{gap:.1e}"
            rows.append(f"{case:9s} {name:14s} {1000 * value:12.1f} {found['peak_mb'][case][name]:9.0f} {shown:>14s}")
    rows.append("")
    rows.append("ratio            measured       bar")
    for name, value in found["ratios"].items():
        verdict = "ok" if value <= found["bars"][name] else "MISSED"
        rows.append(f"{name:14s} {value:10.3g} {found['bars'][name]:9.3g}  {verdict}")
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
    found = measure(options.repeats)
    print(render(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
