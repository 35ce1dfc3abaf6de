"""The contract for models, datasets, metrics and executors: for the bundled plugins and for
anybody's.

An author writes one test: `gsnobench.check.assert_contract("model", "pointmlp")`.
"""

from __future__ import annotations

from gsnobench import plugins
from gsnobench.check.datasets import check_dataset
from gsnobench.check.findings import Finding, failed, to_json
from gsnobench.check.metrics_executors import check_executor, check_metric, check_observer
from gsnobench.check.models import check_model
from gsnobench.errors import PluginError
from gsnobench.plugins import Kind

__all__ = ["Finding", "assert_contract", "check", "failed", "to_json"]


def check(kind: Kind, name: str) -> list[Finding]:
    """All rules of the plugin's kind; a plugin that does not load breaks P001, an unknown name is
    an error.
    """
    if name not in {entry.name for entry in plugins.listed(kind)}:
        plugins.provenance(kind, name)
    rule = "it loads: module, API version, hook, name"
    try:
        findings = _findings(kind, name)
    except PluginError as error:
        return [Finding("P001", rule, False, str(error))]
    return [Finding("P001", rule, True), *findings]


def _findings(kind: Kind, name: str) -> list[Finding]:
    if kind == "model":
        return check_model(plugins.load("model", name))
    if kind == "dataset":
        return check_dataset(plugins.load("dataset", name))
    if kind == "metric":
        return check_metric(plugins.load("metric", name))
    if kind == "executor":
        return check_executor(plugins.load("executor", name))
    return check_observer(name)


def assert_contract(kind: Kind, name: str) -> None:
    """For an author's test suite: fail with every broken rule."""
    broken = [
        f"{finding.code} {finding.rule}: {finding.detail}" for finding in failed(check(kind, name))
    ]
    if broken:
        raise AssertionError(
            f"{kind} {name} breaks {len(broken)} rules of the contract\n" + "\n".join(broken)
        )
