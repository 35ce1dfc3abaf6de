"""The badges of the README, drawn from what the project declares: `python docs/site/badges.py`."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "badges"
LETTER, PADDING, HEIGHT = 6.6, 8, 20  # pixels; text is stretched to its box in every font
COLOUR = {"python": "#3949ab", "licence": "#00695c", "datasets": "#6a1b9a", "models": "#ad1457"}


def badges() -> dict[Path, str]:
    """File and content of every badge."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    floors = tomllib.loads((ROOT / "registry.toml").read_text())["floors"]
    plugins = {
        kind: declared["entry-points"][f"gsnobench.{kind}"] for kind in ("datasets", "models")
    }
    values = {
        "python": declared["requires-python"].replace(">=", "") + " or newer",
        "licence": declared["license"],
        "datasets": str(len(plugins["datasets"])),
        "models": f"{len(plugins['models']) - len(floors)} and {len(floors)} floors",
    }
    return {FOLDER / f"{name}.svg": badge(name, value) for name, value in values.items()}


def badge(name: str, value: str) -> str:
    """Two boxes of text side by side."""
    left, right = (len(text) * LETTER + 2 * PADDING for text in (name, value))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right:.0f}" height="{HEIGHT}" '
        f'role="img" aria-label="{name}: {value}">'
        f'<rect width="{left + right:.0f}" height="{HEIGHT}" rx="3" fill="#424242"/>'
        f'<rect x="{left:.0f}" width="{right:.0f}" height="{HEIGHT}" rx="3" fill="{COLOUR[name]}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"{_text(name, PADDING)}{_text(value, left + PADDING)}</g></svg>\n"
    )


def _text(text: str, x: float) -> str:
    width = len(text) * LETTER
    return f'<text x="{x:.0f}" y="14" textLength="{width:.0f}">{text}</text>'


if __name__ == "__main__":
    for path, content in badges().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
