"""A request, a spec and a stored run lead to the same plan; the key follows what was requested."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from problems import square, steady

import gsnobench as gb
from gsnobench.datasets.store import write
from gsnobench.home import Home
from gsnobench.plugins import load
from gsnobench.records import RunResult, RunSpec
from gsnobench.registry import Registry, Track, read_registry, remember_file
from gsnobench.runs.plan import Plan, configured, make_plan, plan_of_spec, plan_of_stored, with_seed
from gsnobench.runs.request import Request

RESULTS = Path(__file__).resolve().parents[2] / "leaderboards" / "results"
FILES = sorted(RESULTS.rglob("*.json"))


@cache
def registry() -> Registry:
    return read_registry()


@cache
def plan_of_text(spec: str) -> Plan:
    """The plan of a spec in JSON; specs that differ by their seed alone share one."""
    return plan_of_spec(RunSpec.from_json(spec), registry())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_the_plan_of_a_committed_spec_made_anew_has_its_key(path: Path) -> None:
    spec = RunResult.load(path).spec
    model = configured(load("model", spec.model), spec.preset)
    if model.revision != spec.revision:
        pytest.skip(f"made with revision {spec.revision}, installed is {model.revision}")
    plan = plan_of_text(json.dumps(replace(spec, seed=0).to_dict(), sort_keys=True))
    assert with_seed(plan, spec.seed).spec.key == spec.key


@pytest.mark.parametrize("row", ["gsno@paper", "geofno@compact+features"])
def test_a_row_of_a_board_is_requested_by_its_name(row: str) -> None:
    model, _, preset = row.partition("@")
    of_row = make_plan(Request(row, "darcy", track="smoke"))
    assert of_row.spec == make_plan(Request(model, "darcy", track="smoke", preset=preset)).spec
    assert of_row.spec.row == row


def test_the_key_follows_the_request_and_nothing_else(steady_file: Path) -> None:
    base = Request("gsno", str(steady_file), track="smoke")
    spec = make_plan(base).spec
    stated = replace(base, knobs={"train.steps": str(spec.steps["fit"])})
    assert make_plan(stated).spec.key == spec.key
    knobs = ({"model.k_s": "16"}, {"train.lr": "0.5"}, {"train.epochs": "7"})
    changed = [replace(base, seed=1), replace(base, track="laptop")]
    changed += [replace(base, knobs=each) for each in knobs]
    assert len({spec.key, *(make_plan(request).spec.key for request in changed)}) == 6


def test_another_window_of_a_file_is_another_run(unsteady_file: Path) -> None:
    base = Request("mean", str(unsteady_file), track="smoke")
    own, other = make_plan(base), make_plan(replace(base, t_in=1))
    assert own.task.t_in != 1
    assert own.spec.key != other.spec.key and other.spec.task.endswith(f"@1-{other.task.t_out}")
    stated = replace(base, t_in=own.task.t_in, t_out=own.task.t_out)
    assert make_plan(stated).spec == own.spec


def test_steps_are_requested_else_committed_else_the_tracks(steady_file: Path) -> None:
    request = Request("gsno", str(steady_file), track="t")
    task, row = "poisson", "gsno@plus"
    plain = Registry(tracks={"t": Track("t", train_cpu_s=1.0, default_steps=77)})
    committed = replace(plain, steps={"t": {task: {row: {"fit": 5}}}})
    requested = replace(request, knobs={"train.steps": "9"})
    plans = [make_plan(request, plain), make_plan(request, committed)]
    plans += [make_plan(requested, committed)]
    assert [plan.spec.row for plan in plans] == [row] * 3
    assert [plan.spec.steps["fit"] for plan in plans] == [77, 5, 9]
    assert [plan.steps_from for plan in plans] == ["track", "registry", "registry"]
    assert [plan.changed for plan in plans] == [{}, {}, {"steps.fit": 9}]


def test_a_plugin_may_ship_steps_and_a_home_may_count_them(
    steady_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request("gsno", str(steady_file), track="t")
    track = Track("t", train_cpu_s=1.0, default_steps=77, counts_steps=True)
    plain = Registry(tracks={"t": track})
    unknown = make_plan(request, plain)
    counted = replace(plain, home_steps={"t": {unknown.count_name: {"gsno@plus": {"fit": 6}}}})
    at_home = make_plan(request, counted)
    shipped = replace(load("model", "gsno"), steps={"t": {"poisson": {"plus": {"fit": 8}}}})
    monkeypatch.setattr("gsnobench.runs.plan.load", lambda kind, name: shipped)
    by_plugin = make_plan(request, counted)
    plans = (unknown, at_home, by_plugin)
    assert [plan.spec.steps["fit"] for plan in plans] == [77, 6, 8]
    assert [plan.steps_from for plan in plans] == ["track", "home", "plugin"]
    assert [plan.is_uncounted for plan in plans] == [True, False, False]
    requested = make_plan(replace(request, knobs={"train.steps": "77"}), plain)
    assert not requested.is_uncounted  # nothing is to be counted, and it is no row of a board


def test_a_count_of_a_home_is_of_one_file_and_of_one_size(steady_file: Path) -> None:
    usual = make_plan(Request("gsno", "darcy"))
    small = make_plan(Request("gsno", "darcy", resolution=298, samples=16))
    file = make_plan(Request("gsno", str(steady_file)))
    part = make_plan(Request("gsno", str(steady_file), samples=2))
    assert usual.count_name == "darcy"
    assert small.count_name == "darcy [data.resolution=298, data.samples=16]"
    assert file.count_name == f"poisson#{file.spec.source[:12]}"
    assert part.count_name == f"{file.count_name} [data.samples=2]"


def test_a_file_named_like_a_task_of_the_benchmark_has_no_counts_of_it(steady_file: Path) -> None:
    track = Track("t", train_cpu_s=1.0, default_steps=77, counts_steps=True)
    counts = {"t": {"poisson": {"gsno@plus": {"fit": 5}}}}
    request = Request("gsno", str(steady_file), track="t")
    elsewhere = make_plan(request, Registry(tracks={"t": track}, steps=counts))
    assert elsewhere.spec.steps["fit"] == 5
    same_name = Registry(tracks={"t": track}, steps=counts, board_tasks=("poisson",))
    assert make_plan(request, same_name).is_uncounted


def test_a_plan_names_what_differs_from_its_preset(steady_file: Path) -> None:
    request = Request("gsno", str(steady_file), track="smoke")
    assert make_plan(request).changed == {}
    same = {"train.steps": "20", "model.k_s": "40"}  # what the row has anyway, on 121 nodes
    assert make_plan(replace(request, knobs=same)).changed == {}
    other = {"train.steps": "300", "model.k_s": "16", "train.scale_outputs": "minmax"}
    changed = {"model.k_s": 16, "steps.fit": 300, "train.scale_outputs": "minmax"}
    assert make_plan(replace(request, knobs=other)).changed == changed
    spec = make_plan(replace(request, dataset="darcy", knobs=other)).spec
    assert plan_of_spec(spec).changed == changed  # another process says the same


def test_a_new_knob_at_its_default_changes_no_key(steady_file: Path) -> None:
    spec = make_plan(Request("gsno", str(steady_file), track="smoke")).spec
    newer = replace(
        spec,
        model_params={**spec.model_params, "later": 3},
        defaults=(*spec.defaults, "model.later"),
    )
    assert newer.key == spec.key
    assert replace(newer, defaults=spec.defaults).key != spec.key


def test_a_preset_fits_a_small_mesh_and_a_person_decides(tmp_path: Path) -> None:
    """The row stays the row: what a task's size forces is no change of anybody."""
    write(tmp_path / "small.nc", steady(mesh=square(6)), provenance={"title": "36 nodes"})
    file = str(tmp_path / "small.nc")
    plan = make_plan(Request("gsno", file, preset="plus"))
    assert plan.task.resolution == 36 and plan.spec.model_params["k_s"] == 12
    assert not plan.changed
    wanted = make_plan(Request("gsno", file, preset="plus", knobs={"model.k_s": "16"}))
    assert wanted.spec.model_params["k_s"] == 16 and wanted.changed == {"model.k_s": 16}
    assert make_plan(Request("gsno", file, preset="paper")).spec.model_params["k_s"] == 8


def test_a_change_needs_a_frame_to_start_from(steady_file: Path) -> None:
    request = Request("gsno", str(steady_file), track="smoke", knobs={"train.predict": "change"})
    with pytest.raises(gb.ParamError, match="no frame that a change could start from"):
        make_plan(request)


def test_settings_of_the_registry_are_above_the_preset_and_below_the_request(
    steady_file: Path,
) -> None:
    request = Request("gsno", str(steady_file), track="smoke")
    pairs = {"poisson": {"gsno@plus": {"model.k_s": 16, "train.batch": 3}}}
    settled = replace(read_registry(), pairs=pairs)
    plan = make_plan(request, settled)
    assert (plan.spec.model_params["k_s"], plan.train.batch) == (16, 3)
    plan = make_plan(replace(request, knobs={"model.k_s": "8"}), settled)
    assert (plan.spec.model_params["k_s"], plan.train.batch) == (8, 3)


def test_settings_of_a_family_are_below_those_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    families = {"steady": 11, "unsteady": 12, "varying": 13}
    settings = {name: {"plus": {"model.k_s": k_s}} for name, k_s in families.items()}
    settings["swe"] = {"plus": {"model.k_s": 14}}
    model = replace(load("model", "gsno"), settings=settings)
    monkeypatch.setattr("gsnobench.runs.plan.load", lambda kind, name: model)
    expected = {"darcy": 11, "nse": 12, "elasticity": 13, "swe": 14}
    expected |= {"airfoil": 13, "airfoil_family": 13}  # the dataset says so
    for task, k_s in expected.items():
        assert make_plan(Request("gsno", task, track="smoke")).spec.model_params["k_s"] == k_s, task
        other = make_plan(Request("gsno", task, track="smoke", preset="compact"))
        assert other.spec.model_params["k_s"] == 8


def test_a_stored_run_has_the_plan_it_was_made_with(steady_file: Path) -> None:
    plan = make_plan(Request("gsno", str(steady_file), track="smoke", preset="plus+features"))
    stored = plan_of_stored(plan.spec, plan.task)
    assert stored.spec == plan.spec and stored.params == plan.params
    assert (stored.train, stored.horizon) == (plan.train, plan.horizon)
    assert [phase.name for phase in stored.phases] == [phase.name for phase in plan.phases]
    with pytest.raises(gb.RunError, match="installed is .*; repeat the run"):
        plan_of_stored(replace(plan.spec, revision=99), plan.task)


def test_a_spec_of_other_plugins_or_of_an_unknown_file_is_refused(
    steady_file: Path, tmp_path: Path
) -> None:
    spec = make_plan(Request("mean", "darcy", track="smoke")).spec
    assert plan_of_spec(spec).spec == spec
    with pytest.raises(gb.RunError, match="revision differ here; install the versions"):
        plan_of_spec(replace(spec, revision=99))
    on_file = make_plan(Request("mean", str(steady_file), track="smoke")).spec
    with pytest.raises(gb.RunError, match="is not known here; name it with --data FILE.nc"):
        plan_of_spec(on_file)
    remember_file(on_file.source, steady_file, Home(tmp_path))
    assert plan_of_spec(on_file, read_registry(home=Home(tmp_path))).spec == on_file


def test_a_window_of_a_file_survives_its_spec(unsteady_file: Path, tmp_path: Path) -> None:
    spec = make_plan(Request("mean", str(unsteady_file), track="smoke", t_in=2, t_out=1)).spec
    remember_file(spec.source, unsteady_file, Home(tmp_path))
    assert spec.task.endswith("@2-1")
    assert plan_of_spec(spec, read_registry(home=Home(tmp_path))).spec == spec


def test_a_plan_loads_its_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def counting(kind: str, name: str) -> object:
        loaded.append((kind, name))
        return load(kind, name)  # type: ignore[call-overload]

    monkeypatch.setattr("gsnobench.runs.plan.load", counting)
    make_plan(Request("gsno", "darcy", track="smoke"))
    assert loaded == [("model", "gsno")]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"track": "smok"}, "did you mean 'smoke'?"),
        ({"preset": "plu"}, "gsno: no preset 'plu'; did you mean 'plus'?"),
        ({"model": "gsno@plu"}, "gsno: no preset 'plu'; did you mean 'plus'?"),
        ({"model": "gsno@plus", "preset": "paper"}, "gsno@plus: is another preset than --preset"),
        ({"knobs": {"mdel.k_s": "4"}}, "--mdel.k_s: unknown option"),
        ({"knobs": {"train.steps": "few"}}, "train.steps: 'few' is not a whole number above 0"),
        ({"knobs": {"data.psi": "exp"}}, "data.psi: a file has no data knobs"),
        ({"t_in": 99}, "does not fit"),
        ({"dataset": "absent.nc"}, "absent.nc: no such file"),
    ],
)
def test_a_mistake_in_a_request_is_one_line(
    changes: dict[str, object], part: str, unsteady_file: Path
) -> None:
    request = Request("gsno", str(unsteady_file), track="smoke")
    with pytest.raises(gb.GsnobenchError) as caught:
        make_plan(replace(request, **changes))  # type: ignore[arg-type]
    assert part in str(caught.value) and "\n" not in str(caught.value)
