"""The matrix of models and tasks. So far: the calibration that turns a track's CPU-seconds into committed step counts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gsnobench.errors import RunError
from gsnobench.pipeline import Where, data_path, make_loader, prepare
from gsnobench.plan import Plan, Request, make_plan
from gsnobench.registry import read_registry, write_steps
from gsnobench.store import open_file
from gsnobench.train import Job, fit

PROBE_STEPS = 60  # enough to see every kind of step a curriculum takes
RESERVE = 0.95  # of the budget: machines and moments differ


def calibrate(request: Request, where: Where) -> dict[str, int]:
    """Measure CPU-seconds a step of one pair, and commit the step count that fits the track's budget."""
    plan = make_plan(request)
    budget = read_registry().track(request.track).train_cpu_s
    if not budget:
        raise RunError(f"{request.track}: this track is counted in epochs; choose one with a budget in CPU-seconds")
    if plan.declined is not None:
        raise RunError(f"{plan.spec.row}: declines {plan.task.id} ({plan.declined}); nothing to calibrate")
    if all(phase.solve is not None for phase in plan.phases):
        return {}  # closed form: no steps to count
    closed, a_step = _probe(plan, where)
    total = max(1, int(RESERVE * (budget - closed) / a_step))
    share = sum(phase.share for phase in plan.phases if phase.solve is None)
    steps = {phase.name: 0 if phase.solve else max(1, round(total * phase.share / share)) for phase in plan.phases}
    write_steps(request.track, plan.task.id, plan.spec.row, steps)
    return steps


def _probe(plan: Plan, where: Where) -> tuple[float, float]:
    """CPU-seconds of the closed-form phases, and of one gradient step (first steps left out: they warm up)."""
    with open_file(data_path(plan, where), plan.task) as opened, tempfile.TemporaryDirectory() as folder:
        setup = prepare(plan, where, opened.split("train"))
        train = make_loader(plan, where, setup, opened.split("train"))
        valid = make_loader(plan, where, setup, opened.split("valid"))

        def spent(count: int, sub: str) -> float:
            steps = {phase.name: 0 if phase.solve else count for phase in plan.phases}
            place = Path(folder) / sub
            job = Job(
                setup.module,
                train,
                valid,
                plan.phases,
                steps,
                plan.horizon,
                plan.task.t_out,
                plan.train,
                0,
                place,
                _ignore,
                _ignore,
            )
            return fit(job).progress.clock.train_cpu_s

        warm = spent(PROBE_STEPS // 6, "warm")
        few = spent(PROBE_STEPS // 6, "few")
        many = spent(PROBE_STEPS, "many")
    gradient = len([phase for phase in plan.phases if phase.solve is None])
    a_step = (many - few) / (gradient * (PROBE_STEPS - PROBE_STEPS // 6))
    return max(0.0, min(warm, few) - a_step * gradient * (PROBE_STEPS // 6)), a_step


def _ignore(*_: object) -> None:
    """Calibration has no audience."""
