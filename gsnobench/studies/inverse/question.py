"""The study: rows trained as everywhere, each inverted by every sampler beside the solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from gsnobench.data import Array
from gsnobench.datasets.store import open_file
from gsnobench.errors import ParamError, did_you_mean
from gsnobench.files import Cache
from gsnobench.params import words_of
from gsnobench.plugins import dataset_named
from gsnobench.runs.machine import with_threads
from gsnobench.runs.request import Request
from gsnobench.runs.trained import Trained
from gsnobench.studies.base import Engine, Study
from gsnobench.studies.catalogue import Inverse
from gsnobench.studies.inverse import reference
from gsnobench.studies.inverse.chains import SAMPLERS
from gsnobench.studies.inverse.conclusion import Setting, conclude
from gsnobench.studies.inverse.inversion import (
    FROM_TRUTH,
    PAPER,
    REPAIRED,
    SOLVER,
    Drawn,
    Inversion,
    Settings,
)
from gsnobench.studies.inverse.judgement import fractions, judged, pictured
from gsnobench.studies.inverse.problems import Problem, World, world_of
from gsnobench.studies.planning import Planner

FIRST_CALIBRATION = 1_000_000  # their problems are never those that are shown


def study(options: Inverse, template: Request, engine: Engine) -> Study:
    """One arm per row; all that is new happens after training."""
    planner = Planner("inverse", options, template, engine)
    names = samplers_of(options.samplers)
    arms = tuple(
        planner.arm({"row": row}, planner.request(row, options.dataset))
        for row in planner.rows(options.models)
    )
    task, dataset = arms[0].plans[0].task, dataset_named(options.dataset)
    cache = Cache(engine.home.cache)
    world = world_of(dataset, task, sensors=options.sensors, noise=options.noise, cache=cache)
    check_gradients(world, names, options)
    percent = f"{100 * options.noise:g} % noise"
    title = f"{task.id}, {len(world.sensors)} sensors, {percent}, track {options.track}"
    settings = Settings(options.chains, options.burn, options.draws, options.law)
    examiner = Examiner(world, names, settings, options, engine, arms[0].plans[0].spec.short)
    words = [f"{len(world.sensors)}x{options.noise:g}", f"{options.problems}p", options.law]
    words += [f"sbc{options.sbc}"] if options.sbc else []
    return Study(
        name="inverse",
        subject=planner.subject(task.id, *words),
        title=title,
        budget=planner.budget,
        arms=arms,
        conclude=partial(conclude, Setting(title, world.mesh, names)),
        examine=examiner.examine,
    )


def samplers_of(text: str) -> list[str]:
    """The named samplers, each once."""
    names = list(dict.fromkeys(words_of(text)))
    known = [PAPER, *SAMPLERS]
    for name in names:
        if name not in known:
            raise ParamError(f"samplers: {name!r} is unknown; {did_you_mean(name, known)}")
    if not [name for name in names if name in SAMPLERS]:
        raise ParamError(f"samplers: expected at least one of {', '.join(SAMPLERS)}")
    return names


def check_gradients(world: World, names: Sequence[str], options: Inverse) -> None:
    """A field with jumps has no gradient in its coefficients, and a solver may have no adjoint."""
    steep = [name for name in names if name in SAMPLERS and SAMPLERS[name].needs_gradient]
    if not steep and options.law == "prior":
        return
    advice = "use --law prior and samplers without one (rwm, pcn)"
    if not world.decoder.is_smooth:
        raise ParamError(f"{world.task.id}: its input jumps, so there is no gradient; {advice}")
    if options.references and world.inverse.adjoint is None:
        raise ParamError(
            f"{world.task.id}: its solver has no adjoint, so there is no gradient for the "
            f"reference; {advice}, or --references 0"
        )


@dataclass(frozen=True, eq=False)
class Examiner:
    """Inverts all problems through a trained run."""

    world: World
    names: Sequence[str]
    settings: Settings
    options: Inverse
    engine: Engine
    first: str  # the run whose pictures are shown
    references: dict[int, Drawn] = field(default_factory=dict, init=False)

    @property
    def judge(self) -> str:
        """The sampler that is repaired and calibrated: the last one of function space."""
        return [name for name in self.names if name in SAMPLERS][-1]

    def examine(self, trained: Trained) -> dict[str, Any]:
        """Everything about one run, as plain numbers."""
        with with_threads(1):  # CPU-seconds of one thread compare
            inversion = self._inversion(trained)
            cases, pictures = [], {}
            for number in range(self.options.problems):
                problem = self.world.problem(number)
                for label in self._labels(number):
                    self._stage(f"{trained.plan.spec.row}: {label}, problem {number + 1}")
                    drawn = self._drawn(inversion, label, problem)
                    truth = inversion.truth_of(problem, label)
                    is_comparable = label not in (PAPER, FROM_TRUTH, SOLVER)
                    exact = self.references.get(number) if is_comparable else None
                    judgement = judged(drawn, *truth, exact)
                    cases.append({"sampler": label, "problem": number, **judgement})
                    if number == 0 and trained.plan.spec.short == self.first:
                        pictures[label] = pictured(drawn, truth[1])
            return {
                "cases": cases,
                "pictures": pictures,
                "calibration": self._calibrated(inversion, trained.plan.spec.row),
            }

    def _stage(self, text: str) -> None:
        self.engine.report.stage(text)

    def _labels(self, number: int) -> list[str]:
        """The solver first: what follows is compared with it."""
        labels = [*([SOLVER] if number < self.options.references else []), *self.names]
        labels += [FROM_TRUTH] if PAPER in self.names else []
        return [*labels, self.judge + REPAIRED]

    def _drawn(self, inversion: Inversion, label: str, problem: Problem) -> Drawn:
        if label != SOLVER:
            return inversion.drawn(label, problem)
        if problem.number not in self.references:  # the same for all rows
            self.references[problem.number] = self._solver.drawn(self.judge, problem)
        return self.references[problem.number]

    @cached_property
    def _solver(self) -> Inversion:
        """The solver in the place of a trained run."""
        key = {"solver": self.world.identity}
        frames = reference.frames_of(self.world)
        return Inversion(self.world, frames, key, self.settings, self.world.cache)

    def _inversion(self, trained: Trained) -> Inversion:
        operator = trained.operator(self.world.mesh)

        def predict(inputs: torch.Tensor) -> torch.Tensor:
            return operator(inputs[:, :, None])[:, -1, :, 0]

        return Inversion(
            world=self.world,
            frames=lambda xi: predict(self.world.inputs(xi)),
            key={"run": trained.plan.spec.short},
            settings=self.settings,
            cache=self.world.cache,
            errors=self._errors(trained)[:, self.world.sensors],
            predict=predict,
        )

    def _errors(self, trained: Trained) -> Array:
        """Truth minus prediction on the validation split, (V, N)."""
        task = self.world.task
        path = self.engine.machine.ensure_data(self.world.dataset, task)
        with open_file(path, task) as opened:
            valid = opened.read("valid")
        truth = np.asarray(valid.frames[:])[:, -1, :, 0]
        return np.asarray(truth - trained.predict(valid)[:, -1, :, 0], dtype=float)

    def _calibrated(self, inversion: Inversion, row: str) -> dict[str, list[list[float]]]:
        """Label -> ranks of the truth on problems drawn for nothing else; shorter chains do."""
        short = replace(self.settings, draws=max(self.settings.draws // 4, 10))
        inversion = replace(inversion, settings=short)
        table: dict[str, list[list[float]]] = {}
        for index in range(self.options.sbc):
            self._stage(f"{row}: calibration, problem {index + 1} of {self.options.sbc}")
            problem = self.world.problem(FIRST_CALIBRATION + index)
            for label in (self.judge, self.judge + REPAIRED):
                drawn, (truth, _) = (
                    inversion.drawn(label, problem),
                    inversion.truth_of(problem, label),
                )
                table.setdefault(label, []).append(fractions(drawn, truth))
        return table
