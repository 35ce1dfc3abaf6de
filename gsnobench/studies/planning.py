"""The plans of a study: a named change of a request, with steps or CPU-seconds held."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gsnobench.errors import ParamError, RunError
from gsnobench.files import digest, lock, write_text
from gsnobench.matrix.matrix import seeds_of
from gsnobench.params import Value, numbers_of, words_of
from gsnobench.plugins import load
from gsnobench.reading import read_json
from gsnobench.records import FEATURES
from gsnobench.registry import Registry, Track, read_registry
from gsnobench.runs.calibrate import Count, count_steps, counted_plan
from gsnobench.runs.plan import Plan, make_plan, with_seed
from gsnobench.runs.request import Request, task_of_file
from gsnobench.runs.settings import BUDGETS
from gsnobench.studies.base import Arm, Engine
from gsnobench.studies.catalogue import Held, Seeded


@dataclass(frozen=True, eq=False)
class Planner:
    """Makes the arms of a study, all in the same way."""

    name: str
    options: Seeded
    template: Request  # knobs and track, whatever the model and the task
    engine: Engine

    @property
    def registry(self) -> Registry:
        """With the counts of this home, which may have grown."""
        return read_registry(home=self.engine.home)

    @property
    def track(self) -> Track:
        return self.registry.track(self.options.track)

    @property
    def seeds(self) -> tuple[int, ...]:
        seeds = tuple(dict.fromkeys(numbers_of(self.options.seeds, "seeds")))
        if not seeds:
            raise ParamError("seeds: none given; expected for example 0,1,2")
        return seeds

    @property
    def holds_cpu(self) -> bool:
        return isinstance(self.options, Held) and self.options.hold == "cpu"

    @property
    def is_requested(self) -> bool:
        """Whether a person chose the steps of all runs."""
        return any(f"train.{name}" in (self.template.knobs or {}) for name in BUDGETS)

    @property
    def budget(self) -> str:
        """In words: what the runs of a row share."""
        if self.is_requested:
            return "all runs have the requested steps or epochs"
        if self.holds_cpu:
            return (
                f"every run has the steps that fit into {self.track.train_cpu_s:g} CPU-seconds, "
                "counted for it on this machine"
            )
        return (
            "all runs of a row have the same optimiser steps, those of its preset on the track's "
            "own data; their CPU-seconds differ"
        )

    def subject(self, *words: str, source: str = "") -> str:
        """The name of the study's folder: what was studied, and a digest of knobs if there are.

        `source` is the content of data files: two of them may hold tasks of one name.
        """
        parts = [*words, self.options.track]
        parts += ["cpu"] if self.holds_cpu else []
        template = self.template
        choice = [dict(template.knobs or {}), template.data_seed, template.resolution]
        choice += [source] if source else []  # a name without a file stays as it was
        parts += [digest(choice)[:6]] if any(choice) else []
        return "-".join(parts)

    # ------------------------------------------------------------------------------------ requests

    def request(self, row: str, dataset: str, **changes: Any) -> Request:
        """A row `model@preset`, or a model's default preset, on a task or a data file."""
        model, _, preset = row.partition("@")
        own = replace(self.template, model=model, dataset=dataset, preset=preset or None)
        return replace(own, **changes)

    def rows(self, text: str) -> list[str]:
        """Rows `model@preset` of an option; a model alone is its default preset."""
        rows = []
        for word in words_of(text):
            model, _, preset = word.partition("@")
            rows.append(f"{model}@{preset or load('model', model).default_preset(self.track)}")
        if not rows:
            raise ParamError("models: none given; expected MODEL or MODEL@PRESET, with commas")
        return list(dict.fromkeys(rows))

    def datasets(self, text: str) -> list[str]:
        """Tasks and files of an option; two of one name are refused, tables could not tell them."""
        datasets = list(dict.fromkeys(words_of(text)))
        for name in (names := [self.task_name(dataset) for dataset in datasets]):
            if names.count(name) > 1:
                raise ParamError(
                    f"datasets: two of them hold the task {name!r}; study one after the other"
                )
        return datasets

    def task_name(self, dataset: str) -> str:
        """What tables call a task: as it was typed, or as its file calls it."""
        return self._stored(dataset)[0]

    def source(self, datasets: Iterable[str]) -> str:
        """The content of the files among some datasets; empty where none is a file."""
        return " ".join(filter(None, (self._stored(dataset)[1] for dataset in datasets)))

    def _stored(self, dataset: str) -> tuple[str, str]:
        """Name of a task, and the content of its file if it has one."""
        path = self.registry.file(dataset)
        if path is None:
            return dataset, ""
        task, content_hash = task_of_file(path)
        return task.id, content_hash

    # ---------------------------------------------------------------------------------------- arms

    def arm(
        self,
        point: Mapping[str, Value],
        request: Request,
        *,
        base: Request | None = None,
        seed_knob: str = "",
        budget_s: float = 0.0,
    ) -> Arm:
        """A request under all seeds, with the steps of `base`, or within CPU-seconds.

        A positive `budget_s` holds these CPU-seconds, whatever the study's option says.
        """
        plan = self.plan(request, base or request, budget_s=budget_s)
        seeds = seeds_of(plan, self.seeds)
        if not seed_knob:
            return Arm(point, tuple(with_seed(plan, seed) for seed in seeds))
        plans = []
        for seed in seeds:
            knobs = {**(request.knobs or {}), seed_knob: str(seed)}
            own = make_plan(self._named(replace(request, knobs=knobs, seed=seed)), self.registry)
            plans.append(with_steps(own, plan.spec.steps))
        return Arm(point, tuple(plans))

    def plan(self, request: Request, base: Request, *, budget_s: float = 0.0) -> Plan:
        """The plan of a request, its steps chosen as the study says."""
        is_timed = budget_s > 0 or self.holds_cpu
        if is_timed or self.is_requested:
            plan = make_plan(self._named(request), self.registry)
        else:
            row = self._counted(base)
            plan = with_steps(make_plan(self._named(request), self.registry), row.spec.steps)
        is_trained = any(phase.solve is None for phase in plan.phases)
        if not is_timed or self.is_requested or not is_trained:
            return plan
        count = self._count(plan, request)
        seconds = budget_s or self.track.train_cpu_s
        if count is None:  # the steps are unknown, but differ by budget
            return with_steps(plan, {phase.name: round(seconds) for phase in plan.phases})
        return with_steps(plan, count.within(seconds, plan.phases))

    def _counted(self, base: Request) -> Plan:
        if self.engine.is_dry:
            return make_plan(self._named(base), self.registry)
        return counted_plan(self._named(base), self.engine.machine)

    def _named(self, request: Request) -> Request:
        return replace(request, origin=f"study {self.name}")

    def _count(self, plan: Plan, request: Request) -> Count | None:
        """CPU-seconds of a step of this very plan; the home keeps them, so that resuming agrees.

        None where nobody has counted them and nothing may be computed.
        """
        if not self.track.train_cpu_s:
            raise RunError(
                f"hold: track {self.track.name} is counted in epochs and has no CPU-seconds; use "
                "--hold steps or another track"
            )
        if plan.spec.has_features:  # takes the steps of the row without, as everywhere
            preset = plan.spec.preset.removesuffix(FEATURES)
            plan = make_plan(self._named(replace(request, preset=preset)), self.registry)
        path = self.engine.home.root / "studies" / "counts.json"
        key = digest(replace(plan.spec, steps={}, seed=0).identity())
        with lock(path.with_suffix(".lock")):
            counts = _read_counts(path)
            if key not in counts and self.engine.is_dry:
                return None
            if key not in counts:
                count = count_steps(plan, self.engine.machine, self.registry)
                counts[key] = asdict(count)
                write_text(path, json.dumps(counts, indent=1) + "\n")
        return Count(**counts[key])


def refuse_resolution(template: Request) -> None:
    """A study that varies the mesh takes none from the knobs."""
    if template.resolution is not None:
        raise ParamError("data.resolution: the study varies the mesh itself; drop the option")


def _read_counts(path: Path) -> dict[str, Any]:
    return dict(read_json(path, expected="counted steps; remove it")) if path.exists() else {}


def with_steps(plan: Plan, steps: Mapping[str, int]) -> Plan:
    """The same plan with other steps; phases that have none in the table take none."""
    own = {phase.name: steps.get(phase.name, 0) for phase in plan.phases}
    return replace(plan, spec=replace(plan.spec, steps=own))
