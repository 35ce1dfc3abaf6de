"""The contract that every plugin must keep, as rules with stable codes.

`gsnobench check NAME` runs it; an author writes one test,
`gsnobench.check.assert_contract("model", "pointmlp")`. `models`, `datasets`, `importers` and
`metrics_executors` hold the rules, `findings` what a rule returns, `toy_tasks` the tiny tasks on
which models and metrics are checked, `fixture` a model set up on one of them, `metric_samples` what
a metric is checked on.
"""

from __future__ import annotations

from gsnobench import plugins
from gsnobench.check.datasets import check_dataset
from gsnobench.check.findings import Finding, failed, to_json
from gsnobench.check.importers import check_importer, check_invariant
from gsnobench.check.metrics_executors import check_executor, check_metric, check_observer
from gsnobench.check.models import check_model
from gsnobench.errors import PluginError
from gsnobench.plugins import Kind

__all__ = ["Finding", "assert_contract", "check", "failed", "to_json"]


def check(kind: Kind, name: str) -> list[Finding]:
    """All rules of the plugin's kind; a plugin that does not load breaks P001."""
    if name not in {entry.name for entry in plugins.listed(kind)}:
        plugins.provenance(kind, name)  # raises an error with the nearest known name
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
    if kind == "importer":
        return check_importer(plugins.load("importer", name))
    if kind == "invariant":
        return check_invariant(plugins.load("invariant", name))
    return check_observer(name)


def assert_contract(kind: Kind, name: str) -> None:
    """For an author's test suite: fail with one line per broken rule."""
    broken = failed(check(kind, name))
    lines = [f"{finding.code} {finding.rule}: {finding.detail}" for finding in broken]
    if lines:
        head = f"{kind} {name} breaks {len(lines)} rules of the contract"
        raise AssertionError("\n".join([head, *lines]))
