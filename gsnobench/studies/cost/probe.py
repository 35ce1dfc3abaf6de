"""One measurement: steps of training, or forwards, with their memory and their operations."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch.utils.flop_counter import FlopCounterMode

from gsnobench.home import RunFolder, open_home
from gsnobench.processes import Parent
from gsnobench.records import RunSpec
from gsnobench.runs.costs import count_parameters, describe_environment
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import Plan, plan_of_spec
from gsnobench.runs.stages import Run, Setup
from gsnobench.training.checkpoint import Clock
from gsnobench.training.fit import Job, prepare, steps_of
from gsnobench.training.loader import Loader
from gsnobench.training.rollout import rollout

Kind = Literal["train", "forward"]
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Reading:
    """What came out."""

    # what was timed -> of each time: the phases of a training, or "forward"
    seconds: Mapping[str, list[float]]
    environment: Mapping[str, Any]
    mb: float = 0.0  # growth of the memory over the first step or forward
    flops: float = 0.0  # by torch's counter: products and convolutions of one step or forward
    parameters: int = 0


@dataclass(frozen=True, kw_only=True)
class Probe(ABC):
    """What can be measured in another process; its entries name the file of what it finds."""

    home: str
    device: str = "cpu"

    @abstractmethod
    def read(self) -> Reading:
        """Measure it, in this process."""


def answer(parent: Parent, probe: Probe) -> None:
    """The life of a child: one reading, or why there is none."""
    try:
        parent.send(asdict(probe.read()))
    except Exception as error:  # a plugin may raise anything; the parent names it
        parent.send({"reason": f"{type(error).__name__}: {error}"})


@dataclass(frozen=True, kw_only=True)
class ModelProbe(Probe):
    """Steps or forwards of a row; a RunSpec is enough to make its plan in another process."""

    spec: Mapping[str, Any]
    kind: Kind
    samples: int  # of the data that it works on
    batch: int  # of a forward; a training step has the batch of its preset
    warm: int
    timed: int

    def read(self) -> Reading:
        """Set up a module on a few samples and measure it, on one thread."""
        torch.set_num_threads(1)
        plan = small(plan_of_spec(RunSpec(**self.spec)), self.samples)
        machine = Machine(open_home(Path(self.home)), choose_device(self.device))
        with TemporaryDirectory() as name:
            run = Run(plan, machine, RunFolder(Path(name)))
            with run.open_data() as data:
                samples = data.split("train")
                setup = run.set_up(samples)
                loader = run.new_loader(setup, samples)
                measure = _train if self.kind == "train" else _forward
                seconds, mb, flops = measure(self, run, setup, loader)
        environment = describe_environment(machine.device)
        return Reading(seconds, environment, mb, flops, count_parameters(setup.module))


def small(plan: Plan, samples: int) -> Plan:
    """The same plan on few training samples and no others."""
    return replace(plan, task=replace(plan.task, sizes={"train": samples}))


def _train(
    probe: ModelProbe, run: Run, setup: Setup, loader: Loader
) -> tuple[dict[str, list[float]], float, float]:
    plan, steps = run.plan, probe.warm + probe.timed + 2  # memory and operations have one each
    job = Job(
        module=setup.module,
        train=loader,
        valid=loader,
        phases=plan.phases,
        steps={phase.name: steps for phase in plan.phases},
        horizon=plan.horizon,
        frames=plan.task.t_out,
        params=plan.train,
        seed=0,
        folder=run.folder.path,
    )
    seconds: dict[str, list[float]] = {}
    mb = flops = 0.0
    for phase in plan.phases:
        prepare(job, phase, Clock())
        if phase.solve is not None:
            continue
        step = steps_of(job, phase)
        with _memory(loader.device) as grown:
            next(step)
        mb = max(mb, grown())
        with FlopCounterMode(display=False) as counter:
            next(step)
        flops = float(counter.get_total_flops())
        seconds[phase.name] = _timed(partial(next, step), probe, loader.device)
    return seconds, mb, flops


def _forward(
    probe: ModelProbe, run: Run, setup: Setup, loader: Loader
) -> tuple[dict[str, list[float]], float, float]:
    frames, module = run.plan.task.t_out, setup.module.eval()
    indices = torch.arange(probe.batch)
    starts = torch.full_like(indices, loader.starts[0])
    batch, _ = loader.batch(indices, starts, run.plan.horizon.steps)

    def forward() -> torch.Tensor:
        return rollout(module, loader, batch, indices, frames)

    with torch.no_grad():
        with _memory(loader.device) as grown:
            forward()
        with FlopCounterMode(display=False) as counter:
            forward()
        seconds = _timed(forward, probe, loader.device)
    return {"forward": seconds}, grown(), float(counter.get_total_flops())


# -------------------------------------------------------------------------------- clocks and memory


def _timed(work: Callable[[], Any], probe: ModelProbe, device: torch.device) -> list[float]:
    """Seconds of each timed call, after the warm ones: CPU-seconds, or synchronised wall time."""
    spent = []
    for _ in range(probe.warm + probe.timed):
        begun = _now(device)
        work()
        spent.append(_now(device) - begun)
    return spent[probe.warm :]


def _now(device: torch.device) -> float:
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


@contextmanager
def _memory(device: torch.device) -> Iterator[Callable[[], float]]:
    """Megabytes by which the memory grew at its highest inside the block."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        yield lambda: (torch.cuda.max_memory_allocated(device) - before) / 2**20
        return
    Path("/proc/self/clear_refs").write_text("5")  # the highest value starts anew
    resident = _status_mb("VmRSS")
    highest: list[float] = []
    yield lambda: highest[0] - resident
    highest.append(_status_mb("VmHWM"))


def _status_mb(name: str) -> float:
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 2**10
