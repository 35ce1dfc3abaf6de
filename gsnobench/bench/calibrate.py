"""A track's CPU-seconds -> step counts: measured once a pair, on the reference machine, and
committed in registry.toml.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from gsnobench.datasets.store import open_file
from gsnobench.errors import RunError
from gsnobench.records import FEATURES
from gsnobench.registry import read_registry, write_steps
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan
from gsnobench.runs.stages import data_path, make_loader, prepare
from gsnobench.training.fit import Job, fit

PROBE_STEPS = 60  # enough to see every kind of step a curriculum takes
WARM_STEPS = 10
RESERVE = 0.95  # of the budget: machines and moments differ


def calibrate(plan: Plan, machine: Machine) -> dict[str, int]:
    """Measure CPU-seconds a step of one pair, and commit the step count that fits the track's
    budget.
    """
    track = plan.spec.track
    budget = read_registry().track(track).train_cpu_s
    if not budget:
        raise RunError(
            f"{track}: this track is counted in epochs; choose one with a budget in CPU-seconds"
        )
    if plan.spec.has_features:
        raise RunError(
            f"{plan.spec.row}: takes the steps of {plan.spec.row.removesuffix(FEATURES)}; "
            "calibrate that one"
        )
    descents = [phase for phase in plan.phases if phase.solve is None]
    if not descents:
        return {}  # closed form: no steps to count
    closed, a_step = _probe(plan, machine)
    left, shares = RESERVE * (budget - closed), sum(phase.share for phase in descents)
    steps = {
        phase.name: max(1, int(left * phase.share / shares / a_step[phase.name]))
        for phase in descents
    }
    steps = {phase.name: steps.get(phase.name, 0) for phase in plan.phases}
    write_steps(track, plan.task.id, plan.spec.row, steps)
    return steps


def _probe(plan: Plan, machine: Machine) -> tuple[float, dict[str, float]]:
    """CPU-seconds of the closed-form phases, and of one step of each other phase (first steps left
    out: they warm up).
    """
    few = {phase.name: 0 if phase.solve else WARM_STEPS for phase in plan.phases}
    with (
        open_file(data_path(plan, machine), plan.task) as opened,
        tempfile.TemporaryDirectory() as folder,
    ):
        setup = prepare(plan, machine, opened.split("train"))
        train = make_loader(plan, machine, setup, opened.split("train"))
        valid = make_loader(plan, machine, setup, opened.split("valid"))

        def spent(steps: Mapping[str, int], sub: str) -> float:
            job = Job(
                module=setup.module,
                train=train,
                valid=valid,
                phases=plan.phases,
                steps=steps,
                horizon=plan.horizon,
                frames=plan.task.t_out,
                params=plan.train,
                seed=0,
                folder=Path(folder) / sub,
                on_epoch=_ignore,
                on_step=_ignore,
            )
            return fit(job).progress.clock.train_cpu_s

        base = min(spent(few, "warm"), spent(few, "few"))
        names = [phase.name for phase in plan.phases if phase.solve is None]
        a_step = {
            name: (spent({**few, name: PROBE_STEPS}, name) - base) / (PROBE_STEPS - WARM_STEPS)
            for name in names
        }
    return max(0.0, base - WARM_STEPS * sum(a_step.values())), a_step


def _ignore(*_: object) -> None:
    """Calibration has no audience."""
