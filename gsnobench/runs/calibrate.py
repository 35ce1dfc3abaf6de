"""A track's budget in CPU-seconds -> numbers of steps, counted once per pair of row and task.

The benchmark's own pairs are counted on one idle machine and written to registry.toml. A plugin may
ship counts (`Model.steps`). Any other pair is counted at its first run, and the home keeps it.
All counts are made with the unmodified preset on one thread, in units of the reference step, so
that a slow or busy machine counts the same steps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from gsnobench.declare import Phase
from gsnobench.errors import RunError
from gsnobench.files import lock
from gsnobench.home import RunFolder
from gsnobench.records import FEATURES
from gsnobench.registry import Registry, read_registry, write_steps
from gsnobench.runs.machine import Machine, with_threads
from gsnobench.runs.plan import Plan, Request, home_name, make_plan
from gsnobench.runs.stages import Run
from gsnobench.training.fit import Job, fit

MEASUREMENTS = 5  # of each phase; their median counts
MEASURED_S = 3.0  # CPU-seconds of one measurement, about
FEWEST, MOST = 12, 60  # steps of one measurement: enough to see every kind of step of a curriculum
WARM_STEPS = 4
REFERENCE_EVERY_S = 0.2  # CPU-seconds between readings of the reference step


@dataclass(frozen=True)
class Count:
    """What was measured for one pair."""

    steps: dict[str, int]  # phase -> optimiser steps; none for a closed form
    step_s: dict[str, float]  # phase -> normalised CPU-seconds per step
    closed_form_s: float = 0.0  # normalised CPU-seconds of the phases without steps

    def within(self, budget_s: float, phases: Sequence[Phase]) -> dict[str, int]:
        """Steps per phase that use up a budget in CPU-seconds."""
        descents = [phase for phase in phases if phase.solve is None]
        left, shares = budget_s - self.closed_form_s, sum(phase.share for phase in descents)
        steps = {phase.name: 0 for phase in phases}
        for phase in descents:
            steps[phase.name] = max(1, round(left * phase.share / shares / self.step_s[phase.name]))
        return steps


def counted_plan(request: Request, machine: Machine) -> Plan:
    """The plan of a request; where nobody has counted its steps, this home does it now."""
    plan = make_plan(request, read_registry(home=machine.home))
    if not plan.is_uncounted:
        return plan
    row = _row_request(request, plan)
    count_at_home(make_plan(row, read_registry(home=machine.home)), machine)
    return make_plan(request, read_registry(home=machine.home))


def _row_request(request: Request, plan: Plan) -> Request:
    """The unmodified preset on the same data: what a count is made with."""
    knobs = {
        name: value for name, value in (request.knobs or {}).items() if name.startswith("data.")
    }
    return replace(request, preset=plan.spec.preset.removesuffix(FEATURES), knobs=knobs)


def count_at_home(plan: Plan, machine: Machine) -> None:
    """Count the steps of a pair and keep them in the home; another process may have done it."""
    registry = read_registry(home=machine.home)
    task = home_name(plan.task.id, plan.spec.source)
    with lock(machine.home.steps.with_suffix(".lock")):
        known = read_registry(home=machine.home).counted_at_home
        if known(plan.spec.track, task, plan.spec.row) is None:
            steps = count_steps(plan, machine, registry).steps
            write_steps(plan.spec.track, task, plan.spec.row, steps, machine.home.steps)


def count_steps(
    plan: Plan,
    machine: Machine,
    registry: Registry,
    *,
    budget_s: float = 0.0,
    measurements: int = MEASUREMENTS,
) -> Count:
    """Measure a pair, and compute the steps that use up a budget, by default its track's."""
    track = registry.track(plan.spec.track)
    budget_s = budget_s or track.train_cpu_s
    if not budget_s:
        raise RunError(
            f"{track.name}: this track is counted in epochs; choose one with a budget in "
            "CPU-seconds"
        )
    if plan.spec.has_features:
        base = plan.spec.row.removesuffix(FEATURES)
        raise RunError(f"{plan.spec.row}: takes the steps of {base}; calibrate that one")
    if all(phase.solve is not None for phase in plan.phases):
        return Count({}, {})  # closed form: no steps to count
    machine.report.stage(f"counting the steps of {plan.title}")
    with with_threads(1):
        closed_form_s, step_s = _measure(plan, machine, registry.reference_step_s, measurements)
    count = Count({}, step_s, closed_form_s)
    return replace(count, steps=count.within(budget_s, plan.phases))


def _measure(
    plan: Plan, machine: Machine, nominal_s: float, measurements: int
) -> tuple[float, dict[str, float]]:
    """Normalised CPU-seconds of the closed-form phases, and of one step of each other phase."""
    with tempfile.TemporaryDirectory() as name:
        run = Run(plan, machine, RunFolder(Path(name)))
        with run.open_data() as data:
            probe = _Probe(run.job(run.set_up(data.split("train")), data), Path(name), nominal_s)
            few = {phase.name: 0 if phase.solve else WARM_STEPS for phase in plan.phases}
            probe.spent(few)  # the first steps are slow
            base = median(probe.spent(few) for _ in range(min(3, measurements)))
            step_s = {
                phase.name: probe.step_s(phase.name, few, base, measurements)
                for phase in plan.phases
                if phase.solve is None
            }
    return max(0.0, base - WARM_STEPS * sum(step_s.values())), step_s


@dataclass
class _Probe:
    """Short trainings of one job, each timed beside the reference step."""

    job: Job
    folder: Path
    nominal_s: float  # CPU-seconds of the reference step where the benchmark was calibrated
    trainings: int = 0

    def spent(self, steps: Mapping[str, int]) -> float:
        """Normalised CPU-seconds of a training with these steps."""
        self.trainings += 1
        folder = self.folder / str(self.trainings)
        job = replace(
            self.job, steps=steps, seed=0, folder=folder, reference_every_s=REFERENCE_EVERY_S
        )
        clock = fit(job).progress.clock
        return clock.train_cpu_s * self.nominal_s / clock.reference_step_s

    def step_s(self, phase: str, few: Mapping[str, int], base: float, measurements: int) -> float:
        """Normalised CPU-seconds per step of a phase, the median of several measurements."""

        def measured(count: int) -> float:
            return (self.spent({**few, phase: WARM_STEPS + count}) - base) / count

        rough = max(measured(WARM_STEPS), 1e-5)
        count = min(MOST, max(FEWEST, round(MEASURED_S / rough)))
        return max(median(measured(count) for _ in range(measurements)), 1e-6)
