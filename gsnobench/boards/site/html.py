"""HTML that data cannot break: every text is escaped once; pages hold their style and script."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files

from gsnobench.boards.plots.style import theme_colours
from gsnobench.boards.wording import generated_by

VOID = frozenset({"meta", "link", "input", "br", "wbr", "img"})
SCRIPTS = ("theme.js", "tables.js", "state.js")
STYLES = ("style.css", "tables.css")


class Html(str):
    """Text that is already markup; a plain str is not, and is escaped."""

    __slots__ = ()


Child = str | Iterable[str]


def tag(name: str, *children: Child, **attributes: str | bool | None) -> Html:
    """An element; `class_` becomes class, `data_value` becomes data-value.

    An attribute that is True has no value, one that is None or False is left out.
    """
    pairs = (
        (key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value not in (None, False)
    )
    opening = "".join(
        f" {key}" if value is True else f' {key}="{escape(_shown(str(value)))}"'
        for key, value in pairs
    )
    inside = "".join(text(child) for child in children)
    return Html(f"<{name}{opening}>" if name in VOID else f"<{name}{opening}>{inside}</{name}>")


def text(child: Child) -> Html:
    """Markup as it is, anything else escaped."""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return Html(escape(_shown(child)))
    return Html("".join(text(part) for part in child))


def coded(words: str) -> Html:
    """Words in which backticks mark code, as docstrings and notes have it."""
    parts = words.split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner
        return text(words)
    return text(tag("code", part) if odd % 2 else part for odd, part in enumerate(parts))


def _shown(value: str) -> str:
    """Control and direction characters would let a name rearrange the page."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in value)


@cache
def asset(name: str) -> str:
    return (files("gsnobench.boards.site") / "assets" / name).read_text(encoding="utf-8")


def script() -> str:
    """All scripts of a page; each is a function of its own that sees nothing of the others."""
    return "\n".join(asset(name) for name in SCRIPTS)


def styles() -> str:
    """The style of a page, with the colours of plots."""
    text = "".join(asset(name) for name in STYLES)
    light, dark = theme_colours(is_dark=False), theme_colours(is_dark=True)
    return text.replace("/* rows, light */", light).replace("/* rows, dark */", dark)


def document(
    title: str,
    header: Child,
    main: Child,
    command: str = "leaderboard build",
    *,
    footer: Child = "",
    about: str = "",
) -> str:
    """A whole page; its policy lets it load pictures beside it and run no script but ours.

    A comment at its top names the command that made it.
    """
    own = script()
    allowed = b64encode(hashlib.sha256(own.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' file: data:; "
        f"script-src 'sha256-{allowed}'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        *([tag("meta", name_="description", content=about)] if about else []),
        tag("style", Html(styles())),
        tag("script", Html(own)),
    )
    theme = tag("button", "Light or dark", type="button", class_="theme", hidden=True)
    body = tag(
        "body",
        tag("a", "Skip to the content", class_="skip", href="#main"),
        tag("header", header, theme),
        tag("main", main, id="main"),
        *([tag("footer", footer)] if footer else []),
    )
    comment = f"<!-- {generated_by(command)} -->"
    return f"<!doctype html>\n{comment}\n{tag('html', head, body, lang='en')}\n"
