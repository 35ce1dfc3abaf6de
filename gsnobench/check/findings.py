"""The result of a check: one finding per rule, under a code that never changes its meaning."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from gsnobench.errors import describe_error

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Finding:
    """Whether one rule holds; a skipped rule counts as passed and says why it was not applied."""

    code: str
    rule: str
    passed: bool
    detail: str = ""
    skipped: str | None = None


class Broken(Exception):
    """A rule does not hold; the message says where and by how much."""


class Skip(Exception):
    """A rule does not apply; the message says why."""


@dataclass(frozen=True)
class Rule(Generic[Subject]):
    """A code, a sentence, and a test that returns a detail, or raises Broken or Skip."""

    code: str
    sentence: str
    test: Callable[[Subject], str | None]


def judge(rule: Rule[Subject], subjects: Mapping[str, Subject]) -> Finding:
    """Apply a rule to every named subject; an exception of the plugin's code breaks the rule."""
    broken: dict[str, list[str]] = {}  # text -> subjects
    skipped: dict[str, list[str]] = {}
    details: dict[str, list[str]] = {}
    for name, subject in subjects.items():
        try:
            details.setdefault(rule.test(subject) or "", []).append(name)
        except Skip as reason:
            skipped.setdefault(str(reason), []).append(name)
        except Broken as reason:
            broken.setdefault(str(reason), []).append(name)
        except Exception as error:
            broken.setdefault(describe_error(error), []).append(name)
    if broken:
        return Finding(rule.code, rule.sentence, False, _grouped(broken))
    if not details:
        reasons = "; ".join(skipped) or "nothing to apply it to"
        return Finding(rule.code, rule.sentence, True, skipped=reasons)
    return Finding(rule.code, rule.sentence, True, _grouped(details))


def _grouped(texts: Mapping[str, Sequence[str]]) -> str:
    """Each text once, after the subjects it is about."""
    named = {text: ", ".join(filter(None, names)) for text, names in texts.items() if text}
    return "; ".join(f"{names}: {text}" if names else text for text, names in named.items())


def require(holds: bool, detail: str) -> None:
    """Break the rule unless it holds."""
    if not holds:
        raise Broken(detail)


def complaints(checks: Iterable[tuple[bool, str]]) -> None:
    """Break the rule with the texts of all checks that fail."""
    texts = [text for holds, text in checks if not holds]
    require(not texts, "; ".join(texts))


def failed(findings: Sequence[Finding]) -> list[Finding]:
    """The rules that do not hold; an empty list is a pass."""
    return [finding for finding in findings if not finding.passed]


def to_json(findings: Sequence[Finding]) -> str:
    """One JSON document for machines."""
    body = {"passed": not failed(findings), "findings": [asdict(finding) for finding in findings]}
    return json.dumps(body, indent=2)
