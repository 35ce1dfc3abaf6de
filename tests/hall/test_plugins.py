"""Plugins are listed by entry point, loaded by name, and fail alone in one line."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gsnobench
from gsnobench import plugins
from gsnobench.errors import PluginError, Prune

Install = Callable[..., None]

MODEL = """
import gsnobench as gb
from torch import nn

GSNOBENCH_API = 1

@gb.hookimpl
def gsnobench_model():
    return gb.Model("{name}", gb.Params, lambda task, params: nn.Identity())
"""
METRIC = """
import gsnobench as gb

GSNOBENCH_API = 1

@gb.hookimpl
def gsnobench_metric():
    return gb.Metric("{name}", lambda p, u, batch: (p - u).abs().mean((1, 2, 3)))
"""
OBSERVER = """
import gsnobench as gb

GSNOBENCH_API = 1
CALLS = []

@gb.hookimpl
def gsnobench_epoch_ended(epoch, scores):
    CALLS.append((epoch, dict(scores)))
    {body}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution (metadata and one module) on the path, as an installer would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for variable in (plugins.ALLOW, plugins.DENY):
        monkeypatch.delenv(variable, raising=False)

    def write(
        package: str,
        name: str,
        source: str,
        *,
        kind: str = "model",
        version: str = "1.2",
        entries: str = "",
    ) -> None:
        module = package.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(source)
        folder = tmp_path / f"{module}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        )
        (folder / "entry_points.txt").write_text(
            entries or f"[gsnobench.{kind}s]\n{name} = {module}\n"
        )

    return write


def message(name: str, kind: str = "model", **options: list[str]) -> str:
    with pytest.raises(PluginError) as caught:
        plugins.load(kind, name, **options)  # type: ignore[call-overload]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_listing_imports_nothing_and_is_cheap() -> None:
    code = (
        "import sys, time; from gsnobench import plugins; entries = plugins.listed();"
        "heavy = {'torch', 'mlflow', 'xarray', 'optuna', 'numpy', 'gsnobench.declare'} & "
        "set(sys.modules);"
        "bundled = 'gsnobench_plugins' in sys.modules;"
        "print(len(entries), sorted(heavy), bundled, time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, heavy, imported, seconds = done.stdout.split()
    assert int(count) > 5
    assert (heavy, imported) == ("[]", "False")
    assert float(seconds) < 0.5


def test_the_public_names_are_spelt_out_for_type_checkers() -> None:
    tree = ast.parse(Path(gsnobench.__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    (block,) = [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]
    spelt = {
        alias.asname: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert spelt == {name: f"gsnobench.{home}" for name, home in gsnobench._MODULE_OF.items()}
    assert all(getattr(gsnobench, name) is not None for name in dir(gsnobench))


def test_bundled_plugins_take_the_same_road() -> None:
    names = {(entry.kind, entry.name, entry.package) for entry in plugins.listed()}
    assert {("model", "gsno", "gsnobench"), ("dataset", "darcy", "gsnobench")} <= names


def test_a_foreign_model_is_listed_and_loaded_with_its_provenance(install: Install) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha"))
    (entry,) = [entry for entry in plugins.listed("model") if entry.name == "alpha"]
    assert (entry.package, entry.version) == ("gsnobench-alpha", "1.2")
    assert (entry.module, entry.problem) == ("gsnobench_alpha", None)
    assert "gsnobench_alpha" not in sys.modules
    assert plugins.load("model", "alpha").name == "alpha"
    assert plugins.provenance("model", "alpha") == {"package": "gsnobench-alpha", "version": "1.2"}
    assert plugins.kind_of("alpha") == "model"


def test_an_unknown_name_gets_the_nearest_one(install: Install) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha"))
    assert "did you mean 'alpha'?" in message("alhpa")
    with pytest.raises(PluginError, match="did you mean 'alpha'"):
        plugins.kind_of("alhpa")


def test_a_name_of_two_kinds_is_ambiguous(install: Install) -> None:
    install("gsnobench-one", "both", MODEL.format(name="both"))
    install("gsnobench-two", "both", METRIC.format(name="both"), kind="metric")
    with pytest.raises(PluginError, match="metric and of a model"):
        plugins.kind_of("both")
    assert plugins.load("metric", "both").better == "lower"


@pytest.mark.parametrize(
    "source", ["raise RuntimeError('no\\nluck')", "import sys; sys.exit('no luck')", "syntax error"]
)
def test_a_module_that_cannot_be_imported_names_its_package(install: Install, source: str) -> None:
    install("gsnobench-broken", "broken", source)
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha"))
    text = message("broken")
    assert text.startswith(
        "model broken (gsnobench-broken 1.2): gsnobench_broken cannot be imported, "
    )
    assert plugins.load("model", "alpha").name == "alpha"


def test_the_original_error_is_chained(install: Install) -> None:
    install("gsnobench-broken", "broken", "raise RuntimeError('no luck')")
    with pytest.raises(PluginError, match="RuntimeError: no luck") as caught:
        plugins.load("model", "broken")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_missing_api_version_is_refused(install: Install) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha").replace("GSNOBENCH_API = 1", ""))
    assert "states no API version; write GSNOBENCH_API = 1" in message("alpha")


def test_another_api_version_is_refused(install: Install) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha").replace("API = 1", "API = 2"))
    assert "written for API version 2, this gsnobench has 1" in message("alpha")


def test_a_misspelt_hook_gets_the_right_spelling(install: Install) -> None:
    source = MODEL.format(name="alpha").replace("gsnobench_model", "gsnobench_modle")
    install("gsnobench-alpha", "alpha", source)
    text = message("alpha")
    assert "gsnobench_modle() is not a hook; did you mean 'gsnobench_model'?" in text
    assert "(gsnobench-alpha 1.2)" in text


def test_a_hook_with_an_unknown_argument_is_refused(install: Install) -> None:
    source = MODEL.format(name="alpha").replace("gsnobench_model()", "gsnobench_model(task)")
    install("gsnobench-alpha", "alpha", source)
    assert "{'task'}" in message("alpha")


def test_a_hook_without_its_mark_is_refused(install: Install) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha").replace("@gb.hookimpl", ""))
    assert "gsnobench_model() is missing or returned nothing; define gsnobench_model()" in message(
        "alpha"
    )


def test_a_hook_that_raises_names_its_package(install: Install) -> None:
    source = MODEL.format(name="alpha").replace("return gb", "1 / 0; return gb")
    install("gsnobench-alpha", "alpha", source)
    assert "(gsnobench-alpha 1.2): gsnobench_model() raised ZeroDivisionError" in message("alpha")


@pytest.mark.parametrize(
    ("keyword", "line"),
    [
        ("reference", "Model has no 'reference'; it is called 'summary' now"),
        ("presest", "Model has no 'presest'; did you mean 'presets'? known: "),
        ("geometri", "Model has no 'geometri'; did you mean 'geometry'? known: "),
    ],
)
def test_a_keyword_that_a_declaration_lacks_gets_its_name(
    install: Install, keyword: str, line: str
) -> None:
    source = MODEL.format(name="alpha").replace("Identity())", f"Identity(), {keyword}=None)")
    install("gsnobench-alpha", "alpha", source)
    assert message("alpha").startswith(f"model alpha (gsnobench-alpha 1.2): {line}")


def test_a_keyword_that_a_knob_lacks_gets_its_name_though_the_module_cannot_be_imported(
    install: Install,
) -> None:
    source = f"import gsnobench as gb\nWIDTH = gb.knob(8, lo=4)\n{MODEL.format(name='alpha')}"
    install("gsnobench-alpha", "alpha", source)
    assert "(gsnobench-alpha 1.2): knob has no 'lo'; did you mean 'low'?" in message("alpha")


def test_an_unknown_keyword_of_the_plugin_s_own_functions_is_its_own_error(
    install: Install,
) -> None:
    source = MODEL.format(name="alpha").replace("return gb", "dict.fromkeys(value=1); return gb")
    install("gsnobench-alpha", "alpha", source)
    assert "gsnobench_model() raised TypeError" in message("alpha")


def test_a_renamed_keyword_ends_a_command_with_one_line(install: Install, tmp_path: Path) -> None:
    source = MODEL.format(name="alpha").replace("Identity())", "Identity(), reference=None)")
    install("gsnobench-alpha", "alpha", source)
    done = subprocess.run(
        [sys.executable, "-m", "gsnobench", "show", "alpha"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.endswith("Model has no 'reference'; it is called 'summary' now")


def test_a_wrong_return_type_is_refused(install: Install) -> None:
    source = MODEL.format(name="alpha").replace("return gb.Model", "return tuple; gb.Model")
    install("gsnobench-alpha", "alpha", source)
    assert "returned a type; return a gsnobench.Model" in message("alpha")


def test_a_name_that_differs_from_the_entry_point_is_refused(install: Install) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="beta"))
    assert "returned the name 'beta', the entry point says 'alpha'" in message("alpha")


def test_a_clash_is_refused_with_both_packages_and_only_when_requested(install: Install) -> None:
    install("gsnobench-one", "alpha", MODEL.format(name="alpha"))
    install("gsnobench-two", "alpha", MODEL.format(name="alpha"), version="3.0")
    install("gsnobench-beta", "beta", MODEL.format(name="beta"))
    assert "offered by gsnobench-one 1.2 and gsnobench-two 3.0" in message("alpha")
    assert plugins.load("model", "beta").name == "beta"
    problems = {
        entry.package: entry.problem
        for entry in plugins.listed("model")
        if entry.name in ("alpha", "beta")
    }
    assert problems.pop("gsnobench-beta") is None
    assert len(problems) == 2
    assert all("gsnobench-two 3.0" in str(problem) for problem in problems.values())


def test_a_stranger_cannot_replace_a_bundled_plugin(install: Install) -> None:
    install("gsnobench-evil", "gsno", MODEL.format(name="gsno"))
    assert "offered by gsnobench 0" in message("gsno")


def test_denying_one_package_ends_a_clash(install: Install) -> None:
    install("gsnobench-one", "alpha", MODEL.format(name="alpha"))
    install("gsnobench-two", "alpha", "raise RuntimeError", version="3.0")
    assert plugins.load("model", "alpha", deny=["gsnobench_Two"]).name == "alpha"


def test_the_same_package_twice_on_the_path_is_no_clash(install: Install, tmp_path: Path) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha"))
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha"), version="0.9")
    assert plugins.load("model", "alpha").name == "alpha"


def test_unreadable_metadata_are_reported_and_hide_nobody(install: Install) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha"))
    install("gsnobench-torn", "torn", "", entries="[gsnobench.models]\ntorn")
    (torn,) = [entry for entry in plugins.listed("model") if entry.package == "gsnobench-torn"]
    assert torn.problem is not None and "reinstall gsnobench-torn" in torn.problem
    assert plugins.load("model", "alpha").name == "alpha"


def test_a_denied_plugin_is_not_imported(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha"))
    monkeypatch.setenv(plugins.DENY, "other, alpha")
    assert "model alpha (gsnobench-alpha 1.2): denied here" in message("alpha")
    assert "gsnobench_alpha" not in sys.modules


def test_an_allow_list_keeps_strangers_out_and_bundled_plugins_in(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("gsnobench-alpha", "alpha", MODEL.format(name="alpha"))
    install("gsnobench-beta", "beta", MODEL.format(name="beta"))
    monkeypatch.setenv(plugins.ALLOW, "gsnobench-alpha")
    assert plugins.load("model", "alpha").name == "alpha"
    assert "not on the list of allowed plugins" in message("beta")
    problems = {entry.name: entry.problem for entry in plugins.listed("model")}
    assert problems["gsno"] is None and problems["beta"] is not None


def test_a_bundled_plugin_can_be_denied_by_its_own_name_only(install: Install) -> None:
    assert "denied" in message("gsno", deny=["gsno"])
    assert all(entry.problem is None for entry in plugins.listed("model", deny=["gsnobench"]))


def test_a_broken_observer_yields_a_line_and_the_others_load(install: Install) -> None:
    install("gsnobench-watch", "watch", OBSERVER.format(body="pass"), kind="observer")
    install("gsnobench-broken", "broken", "raise RuntimeError('no luck')", kind="observer")
    install("gsnobench-deaf", "deaf", "GSNOBENCH_API = 1", kind="observer")
    observers, problems = plugins.load_observers(deny=["mlflow"])
    assert [name for name, _ in observers.list_name_plugin()] == ["watch (gsnobench-watch 1.2)"]
    assert len(problems) == 3
    assert any("gsnobench-broken 1.2" in line and "no luck" in line for line in problems)
    assert any(
        "gsnobench-deaf 1.2" in line and "implements no observer hook" in line for line in problems
    )


def test_an_observer_that_fails_stops_neither_the_others_nor_the_run(install: Install) -> None:
    install("gsnobench-watch", "watch", OBSERVER.format(body="pass"), kind="observer")
    install("gsnobench-fails", "fails", OBSERVER.format(body="1 / 0"), kind="observer")
    observers, _ = plugins.load_observers(deny=["mlflow"])
    details = {"spec": None, "phase": "fit", "epoch": 3, "scores": {"loss": 0.5}}
    (problem,) = plugins.notify(observers, "gsnobench_epoch_ended", **details)
    assert (
        "observer fails (gsnobench-fails 1.2): gsnobench_epoch_ended raised ZeroDivisionError"
        in problem
    )
    assert sys.modules["gsnobench_watch"].CALLS == [(3, {"loss": 0.5})]


def test_a_prune_reaches_the_run_after_all_observers_were_called(install: Install) -> None:
    install("gsnobench-watch", "watch", OBSERVER.format(body="pass"), kind="observer")
    install("gsnobench-stops", "stops", OBSERVER.format(body="raise gb.Prune"), kind="observer")
    observers, _ = plugins.load_observers(deny=["mlflow"])
    with pytest.raises(Prune):
        plugins.notify(
            observers, "gsnobench_epoch_ended", spec=None, phase="fit", epoch=1, scores={}
        )
    assert sys.modules["gsnobench_watch"].CALLS and sys.modules["gsnobench_stops"].CALLS


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("x = = 1", "gsnobench_broken.py:1: invalid syntax"),
        ("import numpy, no_such_package.sub", "needs the package 'no_such_package'"),
        ("from no_such_package import x", "needs the package 'no_such_package'"),
        ("try:\n    import no_such_package\nexcept ImportError:\n    pass", None),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_known_without_importing_it(
    install: Install, source: str, fault: str | None
) -> None:
    install("gsnobench-broken", "broken", source)
    (entry,) = [entry for entry in plugins.listed("model") if entry.name == "broken"]
    assert "gsnobench_broken" not in sys.modules
    assert entry.fault is None if fault is None else fault in str(entry.fault)


def test_no_bundled_plugin_is_said_to_be_broken() -> None:
    bundled = [entry for entry in plugins.listed() if entry.package == "gsnobench"]
    assert not [entry.name for entry in bundled if entry.fault is not None]
