"""The contracts of importers and invariants; the rest only the authors' files can tell."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from gsnobench.check.findings import Broken, Finding, Rule, complaints, judge, require
from gsnobench.declare import Importer, Invariant
from gsnobench.errors import DataError


def check_importer(importer: Importer) -> list[Finding]:
    """Declaration, and what a wrong folder gives."""
    return [judge(rule, {"": importer}) for rule in RULES]


def check_invariant(invariant: Invariant) -> list[Finding]:
    """Declaration only: whether it holds, `data verify` measures on data."""
    return [judge(INVARIANT_RULE, {"": invariant})]


def _has_a_limit(invariant: Invariant) -> None:
    complaints(
        [
            (bool(invariant.help), "help is empty; say in a line what is measured"),
            (invariant.limit >= 0, f"limit is {invariant.limit}; expected 0 or more"),
        ]
    )


def _is_complete(importer: Importer) -> None:
    entries = ("layout", "title", "licence", "cites")
    complaints([(bool(getattr(importer, entry)), f"{entry} is empty") for entry in entries])


def _refuses_an_empty_folder(importer: Importer) -> None:
    with TemporaryDirectory() as folder:
        try:
            importer.read(Path(folder), importer.params.make({}))
        except DataError as error:
            require("\n" not in str(error), "its message has several lines")
            return
    raise Broken("it read an empty folder; raise gb.DataError that names the missing file")


RULES = (
    Rule("I001", "the declaration is complete", _is_complete),
    Rule("I002", "an empty folder is a gb.DataError of one line", _refuses_an_empty_folder),
)
INVARIANT_RULE = Rule("V001", "the declaration is complete", _has_a_limit)
