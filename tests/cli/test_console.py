"""What a command prints is one JSON document or a text, never both."""

from __future__ import annotations

import json
import math

import pytest

from gsnobench.cli.console import knob_table, print_facts, print_result
from gsnobench.params import Params, knob


class Knobs(Params):
    """Two knobs."""

    width: int = knob(default=8, low=1, high=64, help="hidden channels")
    gate: bool = knob(default=False)


def test_a_result_is_a_document_or_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"error": math.nan, "rows": (1, 2)}
    print_result(document, lambda: print("text"), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"error": None, "rows": [1, 2]}
    print_result(document, lambda: print("text"), as_json=False)
    assert capsys.readouterr().out == "text\n"


def test_facts_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"a": 1.23456, "b": None, "c": 3, "d": "x"})
    assert capsys.readouterr().out == "a: 1.235\nb: unknown\nc: 3\nd: x\n"


def test_knobs_are_spelt_as_on_the_command_line() -> None:
    header, rows = knob_table(Knobs, "model")
    assert header == ("knob", "default", "values", "what it does")
    assert rows[0] == ["--model.width", "8", "1..64", "hidden channels"]
    assert rows[1] == ["--model.gate", "False", "true | false", ""]
