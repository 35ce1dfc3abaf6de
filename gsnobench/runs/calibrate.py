"""A track's budget in CPU-seconds -> numbers of steps, counted once per pair of row and task.

The benchmark's own pairs are counted on one idle machine and written to registry.toml. A plugin may
ship counts (`Model.steps`). Any other pair is counted at its first run, and the home keeps it.
All counts are made with the unmodified preset on one thread, in units of the reference step, so
that a slow or busy machine counts the same steps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

from gsnobench.declare import Phase
from gsnobench.errors import RunError
from gsnobench.files import lock
from gsnobench.home import RunFolder
from gsnobench.records import FEATURES
from gsnobench.registry import Registry, read_registry, write_steps
from gsnobench.runs.machine import Machine, with_threads
from gsnobench.runs.plan import Plan, make_plan
from gsnobench.runs.request import Request
from gsnobench.runs.stages import Run
from gsnobench.training.checkpoint import Clock
from gsnobench.training.fit import Job, prepare, steps_of
from gsnobench.training.reference_step import Metronome

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
    once_s: float = 0.0  # normalised CPU-seconds of closed forms and preparations

    def within(self, budget_s: float, phases: Sequence[Phase]) -> dict[str, int]:
        """Steps per phase that use up a budget in CPU-seconds."""
        descents = [phase for phase in phases if phase.solve is None]
        left, shares = budget_s - self.once_s, sum(phase.share for phase in descents)
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
    with lock(machine.home.steps.with_suffix(".lock")):
        known = read_registry(home=machine.home).counted_at_home
        if known(plan.spec.track, plan.count_name, plan.spec.row) is None:
            steps = count_steps(plan, machine, registry).steps
            write_steps(plan.spec.track, plan.count_name, plan.spec.row, steps, machine.home.steps)


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
        once_s, step_s = _measure(plan, machine, registry.reference_step_s, measurements)
    count = Count({}, step_s, once_s)
    return replace(count, steps=count.within(budget_s, plan.phases))


def _measure(
    plan: Plan, machine: Machine, nominal_s: float, measurements: int
) -> tuple[float, dict[str, float]]:
    """Normalised CPU-seconds of what is computed once, and of one step of each phase."""
    once_s, step_s = 0.0, {}
    with tempfile.TemporaryDirectory() as name:
        run = Run(plan, machine, RunFolder(Path(name)))
        with run.open_data() as data:
            job = run.job(run.set_up(data.split("train")), data)
            for phase in plan.phases:  # in their order: a phase builds on those before it
                once_s += _once_s(job, phase, nominal_s)
                if phase.solve is None:
                    step_s[phase.name] = _step_s(job, phase, nominal_s, measurements)
    return once_s, step_s


def _once_s(job: Job, phase: Phase, nominal_s: float) -> float:
    """Normalised CPU-seconds of a closed form, or of what a phase prepares for its steps."""
    clock = Clock()
    metronome = Metronome(clock, REFERENCE_EVERY_S)
    prepare(job, phase, clock)
    metronome.read()
    return _normalised(clock.train_cpu_s, clock, nominal_s)


def _step_s(job: Job, phase: Phase, nominal_s: float, measurements: int) -> float:
    """Normalised CPU-seconds per step of a prepared phase, the median of several measurements.

    They take turns, a step each, so that all of them see the whole curriculum of a phase.
    """
    rough = max(median(_timed_steps(job, phase, nominal_s, 0, 2 * WARM_STEPS)), 1e-5)
    count = min(MOST, max(FEWEST, round(MEASURED_S / rough)))
    seconds = _timed_steps(job, phase, nominal_s, WARM_STEPS, measurements * count)
    return max(median(mean(seconds[turn::measurements]) for turn in range(measurements)), 1e-6)


def _timed_steps(job: Job, phase: Phase, nominal_s: float, warm: int, count: int) -> list[float]:
    """Normalised CPU-seconds of each step after the first ones, which are slow."""
    clock, seconds = Clock(), [0.0]
    metronome = Metronome(clock, REFERENCE_EVERY_S)
    for _ in steps_of(replace(job, steps={phase.name: warm + count}), phase, clock):
        seconds.append(clock.train_cpu_s)
        metronome.tick(is_last=False)
    steps = [later - earlier for earlier, later in pairwise(seconds)]
    return [_normalised(step, clock, nominal_s) for step in steps[warm:]]


def _normalised(seconds: float, clock: Clock, nominal_s: float) -> float:
    """Seconds in units of the reference step, so that all machines count alike."""
    return seconds * nominal_s / clock.reference_step_s
