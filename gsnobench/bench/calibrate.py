"""CPU-seconds of a track -> numbers of steps, measured once per pair of model and task.

Measured on the reference machine and written to registry.toml.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gsnobench.errors import RunError
from gsnobench.home import RunFolder
from gsnobench.records import FEATURES
from gsnobench.registry import read_registry, write_steps
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan
from gsnobench.runs.stages import Run
from gsnobench.training.fit import fit

PROBE_STEPS = 60  # enough to see every kind of step of a curriculum
WARM_STEPS = 10
RESERVE = 0.95  # of the budget: machines and moments differ


def calibrate(plan: Plan, machine: Machine) -> dict[str, int]:
    """Measure CPU-seconds per step of one pair, and commit the steps that fit the budget."""
    track = plan.spec.track
    budget = read_registry().track(track).train_cpu_s
    if not budget:
        raise RunError(
            f"{track}: this track is counted in epochs; choose one with a budget in CPU-seconds"
        )
    if plan.spec.has_features:
        base = plan.spec.row.removesuffix(FEATURES)
        raise RunError(f"{plan.spec.row}: takes the steps of {base}; calibrate that one")
    descents = [phase for phase in plan.phases if phase.solve is None]
    if not descents:
        return {}  # closed form: no steps to count
    closed_form_s, step_s = _probe(plan, machine)
    left, shares = RESERVE * (budget - closed_form_s), sum(phase.share for phase in descents)
    steps = {phase.name: 0 for phase in plan.phases}
    for phase in descents:
        steps[phase.name] = max(1, int(left * phase.share / shares / step_s[phase.name]))
    write_steps(track, plan.task.id, plan.spec.row, steps)
    return steps


def _probe(plan: Plan, machine: Machine) -> tuple[float, dict[str, float]]:
    """CPU-seconds of the closed-form phases, and of one step of each other phase.

    The first steps are left out: they warm up.
    """
    few = {phase.name: 0 if phase.solve else WARM_STEPS for phase in plan.phases}
    with tempfile.TemporaryDirectory() as name:
        run = Run(plan, machine, RunFolder(Path(name)))
        with run.open_data() as data:
            job = run.job(run.set_up(data.split("train")), data)

            def spent(steps: Mapping[str, int], folder: str) -> float:
                probe = replace(job, steps=steps, seed=0, folder=Path(name) / folder)
                return fit(probe).progress.clock.train_cpu_s

            base = min(spent(few, "warm"), spent(few, "few"))
            step_s = {
                phase.name: (spent({**few, phase.name: PROBE_STEPS}, phase.name) - base)
                / (PROBE_STEPS - WARM_STEPS)
                for phase in plan.phases
                if phase.solve is None
            }
    return max(0.0, base - WARM_STEPS * sum(step_s.values())), step_s
