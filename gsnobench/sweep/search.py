"""A search over knobs: trials scored on validation alone, the best refitted with several seeds, the
winner tested once.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any, Literal, get_args

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from gsnobench.errors import ParamError, Prune, RunError, did_you_mean
from gsnobench.files import digest, is_locked
from gsnobench.home import Home
from gsnobench.records import RunResult
from gsnobench.runs.machine import Machine
from gsnobench.runs.plan import Plan, Request, make_plan, with_seed
from gsnobench.runs.run import run_plan, validate_plan
from gsnobench.sweep.space import Axis, Point, axes_of, grid_points, own_point, suggest
from gsnobench.sweep.trials import Asked, Trials, answering
from gsnobench.training.fit import mix, steps_per_epoch

Sampler = Literal["tpe", "grid", "random", "gp"]
Pruner = Literal["none", "median", "hyperband"]
Objective = Literal["error", "seconds", "parameters"]
FACTS = ("key", "status", "reason", "costs", "same")  # what a trial remembers beside its values
MOST_CELLS = 100_000  # of a grid
Say = Callable[[str, Mapping[str, Any]], None]  # what happened -> whoever shows it


# ------------------------------------------------------------------------------------- the question


@dataclass(frozen=True)
class Search:
    """What is searched, and how; the same on every worker."""

    request: Request
    axes: tuple[Axis, ...]
    name: str
    trials: int
    sampler: Sampler = "tpe"
    pruner: Pruner = "none"
    objectives: tuple[Objective, ...] = ("error",)
    refit_seeds: tuple[int, ...] = (0, 1, 2)
    refit_top: int = 3

    @property
    def has_one_goal(self) -> bool:
        return len(self.objectives) == 1

    def plan(self, point: Point, seed: int | None = None) -> Plan:
        """The run of a point."""
        knobs = {
            **(self.request.knobs or {}),
            **{name: str(value) for name, value in point.items()},
        }
        plan = make_plan(replace(self.request, knobs=knobs))
        return plan if seed is None else with_seed(plan, seed)

    def folder(self, home: Home) -> Path:
        return home.root / "studies" / self.name


def make_search(
    request: Request, over: Sequence[str], *, name: str = "", minimise: str = "error", **how: Any
) -> Search:
    """Check what a person asks for; every mistake is one line before anything is trained."""
    plan = make_plan(request)
    if plan.declined is not None:
        raise RunError(
            f"{plan.spec.row}: declines {plan.spec.task} ({plan.declined}); choose another pair"
        )
    goals = tuple(word.strip() for word in minimise.split(",") if word.strip())
    for goal in goals:
        if goal not in get_args(Objective):
            raise ParamError(
                f"minimise: {goal!r} is unknown; {did_you_mean(goal, get_args(Objective))}"
            )
    if goals[:1] != ("error",) or len(set(goals)) != len(goals):
        raise ParamError(
            f"minimise: {minimise!r} must begin with error and name each goal once; for example "
            "error,seconds"
        )
    axes = axes_of(over, plan, request.knobs or {})
    search = Search(request, axes, name, objectives=goals, **how)  # type: ignore[arg-type]
    _check(search)
    return replace(search, name=name or _default_name(plan, search))


def _check(search: Search) -> None:
    for kind, value, known in (
        ("sampler", search.sampler, get_args(Sampler)),
        ("pruner", search.pruner, get_args(Pruner)),
    ):
        if value not in known:
            raise ParamError(f"{kind}: {value!r} is unknown; {did_you_mean(value, known)}")
    if search.pruner != "none" and not search.has_one_goal:
        raise ParamError(
            "pruner: a search with several goals cannot prune; drop --pruner or minimise error "
            "alone"
        )
    if search.trials < 1 or search.refit_top < 1 or not search.refit_seeds:
        raise ParamError(
            "sweep: needs at least one trial, one point to refit and one refit seed; raise the "
            "number"
        )
    if search.name and not re.fullmatch(r"[A-Za-z0-9][\w.@+-]{0,99}", search.name):
        raise ParamError(
            f"name: {search.name!r} cannot be a folder; expected letters, digits and . _ @ + -"
        )
    cells = math.prod(len(axis.grid()) for axis in search.axes)
    if search.sampler == "grid" and cells > MOST_CELLS:
        raise ParamError(
            f"sampler: a grid of {cells} points; search fewer knobs or name values, as in "
            "model.k_s=4:8:16"
        )


def _default_name(plan: Plan, search: Search) -> str:
    """Tells the searches of one pair apart, so that a default name never holds another search."""
    spec = plan.spec
    return f"{spec.row}-{spec.task}-{spec.track}-{digest(identity(search, plan))[:6]}"


def identity(search: Search, plan: Plan) -> dict[str, Any]:
    """What makes two commands the same search: the question without the searched knobs, and what is
    varied for what.
    """
    spec = plan.spec.to_dict()
    for axis in search.axes:
        section, name = axis.name.split(".", 1)
        spec[f"{section}_params"] = {
            one: value for one, value in spec[f"{section}_params"].items() if one != name
        }
    return {
        **spec,
        "over": [axis.describe() for axis in search.axes],
        "minimise": list(search.objectives),
    }


def open_trials(search: Search, home: Home, storage: str) -> Trials:
    """The study of the search; refused if the name is that of another one."""
    plan = search.plan({})
    trials = Trials.open(search.name, search.folder(home), storage, len(search.objectives))
    wanted = identity(search, plan)
    with answering(storage):
        found = trials.study.user_attrs.get("search")
        if found is None:
            trials.study.set_user_attr("search", wanted)
            start = own_point(search.axes, plan)
            if start and search.sampler != "grid":
                trials.study.enqueue_trial(dict(start), skip_if_exists=True)
        elif found != wanted:
            odd = ", ".join(
                sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
            )
            raise RunError(
                f"sweep {search.name}: holds another search ({odd} differ); choose another --name"
            )
    trials.study.pruner = _pruner(search)
    return trials


def _pruner(search: Search) -> optuna.pruners.BasePruner:
    if search.pruner == "median":
        return optuna.pruners.MedianPruner()
    return (
        optuna.pruners.HyperbandPruner()
        if search.pruner == "hyperband"
        else optuna.pruners.NopPruner()
    )


def _sampler(search: Search, slot: int, known: int) -> optuna.samplers.BaseSampler:
    """A worker's own stream of random numbers: two workers with one stream would ask the same
    points.
    """
    seed = mix(search.request.seed, "sampler", slot, known) % 2**32
    if search.sampler == "gp":
        return optuna.samplers.GPSampler(seed=seed, warn_independent_sampling=False)
    return (
        optuna.samplers.TPESampler(seed=seed)
        if search.sampler == "tpe"
        else optuna.samplers.RandomSampler(seed=seed)
    )


# ----------------------------------------------------------------------------------------- the work


def work(search: Search, trials: Trials, machine: Machine, say: Say, *, slot: int = 0) -> None:
    """The life of a worker: trials until there are enough, then its share of the refits."""
    base = search.plan({})
    trials.study.sampler = _sampler(search, slot, len(trials.all()))
    grid = grid_points(search.axes, base) if search.sampler == "grid" else []
    with answering(trials.url):
        while (asked := trials.ask(wanted(search, grid), grid)) is not None:
            _answer(search, trials, asked, base, machine, say)
    if search.has_one_goal:
        _refit(search, trials, machine, say)


def wanted(search: Search, grid: Sequence[Point]) -> int:
    """How many trials there will be: a grid may hold fewer than were asked for."""
    return min(search.trials, len(grid)) if grid else search.trials


def _answer(
    search: Search, trials: Trials, asked: Asked, base: Plan, machine: Machine, say: Say
) -> None:
    point = suggest(asked.trial, search.axes, base)
    plan, started = search.plan(point), time.monotonic()
    same = next(
        (one for one in trials.answered() if one.user_attrs.get("key") == plan.spec.key), None
    )
    # no point is trained twice; what this home has from elsewhere is found by `validate`
    if same is not None:
        values = list(same.values) if same.state == TrialState.COMPLETE else None
        facts = {**same.user_attrs, "same": same.number}
    else:
        tags = {**(machine.tags or {}), "trial": str(asked.trial.number)}
        watch = None if search.pruner == "none" else _watch(asked.trial, plan)
        result = _validate(plan, replace(machine, tags=tags, watch=watch))
        values = _values(search, result)
        facts = {
            "key": plan.spec.key,
            "status": result.status,
            "reason": result.reason,
            "costs": dict(result.costs),
        }
    facts = {name: value for name, value in facts.items() if name in FACTS}
    trials.tell(asked, values, facts)
    spent = time.monotonic() - started
    say(
        "trial",
        {
            "number": asked.trial.number,
            "point": dict(point),
            "values": values,
            "seconds": spent,
            **facts,
        },
    )


def _validate(plan: Plan, machine: Machine) -> RunResult:
    """A point that the model refuses (more modes than nodes) is an answer too."""
    try:
        return validate_plan(plan, machine)
    except ParamError as error:
        return RunResult(plan.spec, "failed", str(error))


def _values(search: Search, result: RunResult) -> list[float] | None:
    """The goals of a run; None where it has no finite error."""
    if result.status != "done":
        return None
    numbers = {
        "error": result.scores["valid"]["headline"]["rel_l2"],
        "seconds": result.costs["train_cpu_s"],
        "parameters": result.costs["parameters"],
    }
    return [float(numbers[goal]) for goal in search.objectives]


def _watch(trial: Trial, plan: Plan) -> Callable[[str, int, Mapping[str, float]], None]:
    """Report validation errors by the epochs since the beginning, also after a resume, and end what
    the pruner gives up.
    """
    an_epoch = steps_per_epoch(plan.task.sizes["train"], len(plan.task.starts), plan.train)
    first, offsets = 0, {}
    for phase in plan.phases:
        offsets[phase.name] = first
        first += max(1, math.ceil(plan.spec.steps[phase.name] / an_epoch))

    def watch(phase: str, epoch: int, scores: Mapping[str, float]) -> None:
        if "valid" in scores:
            step = offsets[phase] + epoch
            trial.report(scores["valid"], step)
            if trial.should_prune():
                raise Prune(
                    f"{phase}: validation error {scores['valid']:.4g} at epoch {epoch}, not among "
                    "the better trials"
                )

    return watch


# ------------------------------------------------------------------------------------------- refits


def point_of(search: Search, trial: FrozenTrial) -> Point:
    """The point of a trial, in the order of the axes."""
    return {axis.name: trial.params[axis.name] for axis in search.axes if axis.name in trial.params}


def ranked(search: Search, trials: Trials) -> list[tuple[Point, float]]:
    """Distinct points with their validation error, best first; ties in the order of asking."""
    best: dict[str, tuple[Point, float]] = {}
    for one in trials.answered():
        if one.state == TrialState.COMPLETE:
            best.setdefault(one.user_attrs["key"], (point_of(search, one), one.values[0]))
    return sorted(best.values(), key=lambda pair: pair[1])


def refits(search: Search, trials: Trials) -> list[tuple[Point, dict[int, Plan]]]:
    """The best points, and for each the runs that judge it."""
    top = [point for point, _ in ranked(search, trials)[: search.refit_top]]
    return [
        (point, {seed: search.plan(point, seed) for seed in search.refit_seeds}) for point in top
    ]


def refit_error(trials: Trials, plan: Plan) -> float | None:
    """The validation error of a refit that was made, here or on another host; infinite if it has
    none.
    """
    value = trials.study.user_attrs.get(f"refit {plan.spec.short}")
    return None if value is None else float(value)


def _refit(search: Search, trials: Trials, machine: Machine, say: Say) -> None:
    """Every run that nobody has made: first those that nobody is at, then the rest."""
    plans = [plan for _, by_seed in refits(search, trials) for plan in by_seed.values()]
    for is_patient in (False, True):
        for plan in plans:
            is_taken = is_locked(machine.home.run_folder(plan.spec.key).lock)
            if (is_taken and not is_patient) or refit_error(trials, plan) is not None:
                continue
            result = _validate(
                plan, replace(machine, tags={**(machine.tags or {}), "kind": "refit"})
            )
            error = (
                result.scores["valid"]["headline"]["rel_l2"]
                if result.status == "done"
                else math.inf
            )
            with answering(trials.url):
                trials.study.set_user_attr(f"refit {plan.spec.short}", str(error))
            say("refit", {"row": plan.spec.row, "seed": plan.spec.seed, "error": error})


# ------------------------------------------------------------------------------------------- answer


def is_complete(search: Search, trials: Trials) -> bool:
    """Whether all trials and refits have been made."""
    grid = grid_points(search.axes, search.plan({})) if search.sampler == "grid" else []
    if len(trials.answered()) < wanted(search, grid):
        return False
    runs = (
        [plan for _, by_seed in refits(search, trials) for plan in by_seed.values()]
        if search.has_one_goal
        else []
    )
    return all(refit_error(trials, plan) is not None for plan in runs)


def answer(search: Search, trials: Trials, machine: Machine) -> dict[str, Any]:
    """What the search has found, as one JSON document; the winner is scored on test here, and
    nothing else ever is.
    """
    spec = search.plan({}).spec
    told = trials.answered()
    status = [str(one.user_attrs.get("status")) for one in told]
    counts = {
        "answered": len(told),
        **{one: status.count(one) for one in ("done", "pruned", "diverged", "failed")},
    }
    found: dict[str, Any] = {
        "name": search.name,
        **{"row": spec.row, "task": spec.task, "track": spec.track, "seed": spec.seed},
        "over": [axis.describe() for axis in search.axes],
        "minimise": list(search.objectives),
        "trials": counts,
    }
    order = ranked(search, trials)
    if not order:
        reasons = [text for one in told if (text := one.user_attrs.get("reason"))]
        return {
            **found,
            "status": "failed",
            "reason": f"no trial finished: {reasons[0] if reasons else 'all were pruned'}",
        }
    found["best"] = {"point": dict(order[0][0]), "valid": order[0][1]}
    if search.has_one_goal:
        return {**found, **_judged(search, trials, machine)}
    front = sorted(trials.study.best_trials, key=lambda one: one.values)
    points = {
        one.user_attrs["key"]: {"point": dict(point_of(search, one)), "values": list(one.values)}
        for one in front
    }
    return {**found, "status": "done", "pareto": list(points.values())}


def _judged(search: Search, trials: Trials, machine: Machine) -> dict[str, Any]:
    table: list[dict[str, Any]] = []
    for point, plans in refits(search, trials):
        errors = {seed: refit_error(trials, plan) for seed, plan in plans.items()}
        known = [math.inf if error is None else error for error in errors.values()]
        table.append({"point": dict(point), "seeds": errors, "mean": mean(known)})
    place = min(range(len(table)), key=lambda n: table[n]["mean"])
    winner = dict(table[place])
    if not math.isfinite(winner["mean"]):
        return {
            "refits": table,
            "status": "failed",
            "reason": "every refitted point diverged with some seed",
        }
    tests = {
        seed: _tested(trials, plan, machine)
        for seed, plan in refits(search, trials)[place][1].items()
    }
    scores = [score for score, _ in tests.values()]
    is_done = all(math.isfinite(score) for score in scores)
    winner |= {
        "test": {seed: score for seed, (score, _) in tests.items()},
        "test_mean": mean(scores),
    }
    winner["keys"] = [key[:12] for _, key in tests.values()]
    return {"refits": table, "winner": winner, "status": "done" if is_done else "diverged"}


def _tested(trials: Trials, plan: Plan, machine: Machine) -> tuple[float, str]:
    """The test error of a run, once: another host of this study may have scored it already."""
    name = f"test {plan.spec.short}"
    known = trials.study.user_attrs.get(name)
    if known is None:
        known = str(
            run_plan(
                plan, replace(machine, tags={**(machine.tags or {}), "kind": "winner"})
            ).headline
        )
        with answering(trials.url):
            trials.study.set_user_attr(name, known)
    return float(known), plan.spec.key
