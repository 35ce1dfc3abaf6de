"""How objects show themselves in a notebook: a title and a small table as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """A title and one line per fact; facts that hold nothing are left out."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value not in (None, "", ())
    )
    return f"<div><b>{escape(title)}</b><table>{cells}</table></div>"


def with_unit(name: str, unit: str) -> str:
    """`height [m]`; a quantity without a unit is its name alone."""
    return name if unit in ("", "1") else f"{name} [{unit}]"
