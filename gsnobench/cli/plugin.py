"""`gsnobench check` and `gsnobench plugin`: the contract of a plugin, and a new package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsnobench.cli.console import WholeSentences, print_result
from gsnobench.cli.options import JsonOption
from gsnobench.cli.scaffold import Offer
from gsnobench.cli.table import print_table

if TYPE_CHECKING:
    from gsnobench.check import Finding

app = typer.Typer()
plugin_app = typer.Typer(
    cls=WholeSentences,
    help="Write your own plugin.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(plugin_app, name="plugin")


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="A plugin of any kind.")],
    as_json: JsonOption = False,
) -> int:
    """Check a plugin against the contract, rule by rule; exit 1 if a rule is broken."""
    from gsnobench.plugins import kind_of

    kind = kind_of(name)
    from gsnobench import check as contract

    findings = contract.check(kind, name)
    header, rows = ["code", "state", "rule", "detail"], [_row(finding) for finding in findings]
    title = f"Contract of {name}"
    document = json.loads(contract.to_json(findings))
    print_result(document, lambda: print_table(title, header, rows), as_json=as_json)
    return 1 if contract.failed(findings) else 0


def _row(finding: Finding) -> list[str]:
    state = "skip" if finding.skipped else "ok" if finding.passed else "FAIL"
    return [finding.code, state, finding.rule, finding.skipped or finding.detail]


@plugin_app.command("new")
def new_plugin(
    name: Annotated[str, typer.Argument(help="Lower-case letters and digits.")],
    kind: Annotated[Offer, typer.Option(help="What it offers.")] = "model",
    folder: Annotated[Path, typer.Option(help="Folder for the new package.")] = Path("."),
) -> int:
    """Write a package that installs and passes `gsnobench check NAME`."""
    from gsnobench.cli.scaffold import create

    path = create(name, kind, folder)
    print(f"{path}\nnext: pip install -e {path} && gsnobench check {name}")
    return 0
