"""What mkdocs calls while it builds the site: pages from the whole repository, rendered offline.

Every file keeps its place below the root, so a link that works on a code host works here.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import mathematics
import pages
import reference
from mkdocs.structure.files import File, Files

GENERATED = {
    "docs/reference/command-line.md": reference.command_line,
    "docs/reference/python.md": reference.python,
}


def on_config(config: Any) -> Any:
    """Anchors as a code host makes them; patterns in the menu become pages."""
    config.nav = pages.expanded(config.nav)
    config.mdx_configs["toc"]["slugify"] = anchor
    config.copyright = " ".join(filter(None, ("Apache-2.0.", published_from())))
    return config


@cache
def published_from() -> str:
    """The commit of the pages and its date; empty where the repository has no history.

    Committed pages cannot name the commit that they are a part of, so hosted ones are told here.
    """
    command = ["git", "log", "-1", "--format=%h %cs"]
    asked = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True)
    commit, _, date = asked.stdout.strip().partition(" ")
    return f"Published from commit {commit} of {date}." if asked.returncode == 0 and date else ""


def anchor(heading: str, separator: str) -> str:
    """The anchor that a code host gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_files(files: Files, config: Any) -> Files:
    """Pages and assets of the repository, the generated reference, and the theme's own files."""
    mine = Files([file for file in files if file.src_dir != config.docs_dir])
    for path in [*pages.pages(), *pages.assets()]:
        mine.append(File.generated(config, path, abs_src_path=str(pages.ROOT / path)))
    for folder in pages.folders():
        text = pages.listing(folder)
        mine.append(File.generated(config, f"{folder}/{pages.INDEX}", content=text))
    for path, text_of in GENERATED.items():
        mine.append(File.generated(config, path, content=text_of()))
    style = Path(__file__).with_name("style.css")
    mine.append(File.generated(config, "style.css", abs_src_path=str(style)))
    return mine


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Folders lead to their pages, and Markdown within a fold is Markdown."""
    markdown = pages.to_index(markdown, page.file.src_uri)
    return markdown.replace("<details>", '<details markdown="1">')


def on_page_content(html: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw themselves."""
    return mathematics.rendered(html)


def on_post_page(output: str, **_: Any) -> str:
    """A name for the theme's search, which screen readers would announce without one."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_post_build(config: Any) -> None:
    """The leaderboard's own pages link to Markdown, as they must on disk; here it is HTML."""
    site = Path(config.site_dir)
    for path in (site / "leaderboards" / "site").rglob("*.html"):
        text = path.read_text().replace("</footer>", f"<p>{published_from()}</p></footer>")
        path.write_text(re.sub(r'href="([^":]+)"', lambda match: _to_page(match, path), text))


def _to_page(match: re.Match[str], page: Path) -> str:
    target, _, fragment = match[1].partition("#")
    html = re.sub(r"\.md$", ".html", re.sub(r"README\.md$", "index.html", target))
    is_page = html != target and (page.parent / html).exists()
    return f'href="{html if is_page else target}{"#" + fragment if fragment else ""}"'
