"""What studies found: their result files, read as evidence, and the pages made from them.

A result file holds its sentence and its tables, so that nothing has to be computed to show it. What
a person says about it is in `note.md` beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from gsnobench.boards.evidence import LARGEST_PICTURE, PNG, leads_out, printable
from gsnobench.boards.markdown import GENERATED, plain, table
from gsnobench.errors import DataError
from gsnobench.reading import parse_json

FOLDER = "studies"  # below the folder of a build: <study>/<subject>/result.json
RESULT, NOTE, INDEX = "result.json", "note.md", "README.md"
NAME = re.compile(r"[\w@+.=-]+")  # of a study and of a subject: also names of folders
WORDS = ("study", "subject", "title", "sentence")  # without which nothing can be shown
MORE = ("question", "printed", "command", "budget")
INTRODUCTION = """\
A study is a fixed set of runs or measurements for one question. It ends in tables, a figure and one
sentence. What each study does, and what its numbers mean, is in
[docs/studies.md](../../docs/studies.md). `gsnobench study NAME --out leaderboards/studies` writes a
result here; this page and the others are made from those files alone."""

LIMITS = "How it is done, and its limits: [docs/studies.md](../../docs/studies.md)."


@dataclass(frozen=True)
class StudyTable:
    """A table as people read it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class StudyResult:
    """One result of a study."""

    study: str
    subject: str
    title: str
    sentence: str
    tables: tuple[StudyTable, ...]
    question: str
    printed: str  # what the paper has on it
    command: str
    budget: str
    runs: Sequence[Mapping[str, Any]]
    numbers: Mapping[str, Any]
    figures: tuple[str, ...] = ()  # paths below the folder of studies
    note: str = ""

    @property
    def folder(self) -> str:
        return f"{self.study}/{self.subject}"


# --------------------------------------------------------------------------------------------- read


def read_studies(root: Path) -> tuple[list[StudyResult], tuple[str, ...]]:
    """All results below a folder of studies, and one line about each file that was skipped."""
    results, problems = [], []
    for path in sorted(root.glob(f"*/*/{RESULT}")):
        name = f"{FOLDER}/{path.relative_to(root).as_posix()}"
        try:
            if leads_out(path, root):
                raise DataError("is a symbolic link; expected a file")
            results.append(_read(path, root))
        except (DataError, OSError, UnicodeDecodeError) as error:
            problems.append(printable(f"{name}: {error}"))
    return results, tuple(problems)


def _read(path: Path, root: Path) -> StudyResult:
    document = parse_json(path.read_bytes(), label=path.name, expected="JSON; run the study again")
    wrong = _wrong(document)
    if wrong:
        expected = "expected the JSON that `gsnobench study` writes"
        raise DataError(f"{', '.join(wrong)} is missing or of the wrong kind; {expected}")
    words = {name: str(document[name]) for name in WORDS}
    if (words["study"], words["subject"]) != (path.parent.parent.name, path.parent.name):
        raise DataError(f"is of {words['study']}/{words['subject']}; move it to that folder")
    note = path.with_name(NOTE)
    return StudyResult(
        **words,
        **{name: str(document.get(name) or "") for name in MORE},
        tables=tuple(StudyTable(**entry) for entry in document["tables"]),
        runs=document.get("runs", ()),
        numbers=document.get("numbers", {}),
        figures=tuple(_figures(path.parent, root)),
        note=note.read_text(encoding="utf-8").strip() if note.is_file() else "",
    )


def _wrong(document: Any) -> list[str]:
    """Names of entries that cannot be shown."""
    if not isinstance(document, dict):
        return ["the document"]
    wrong = [name for name in WORDS if not isinstance(document.get(name), str)]
    wrong += [
        name
        for name in ("study", "subject")
        if name not in wrong and not NAME.fullmatch(document[name])
    ]
    tables = document.get("tables")
    if not isinstance(tables, list) or not all(map(_is_table, tables)):
        wrong.append("tables")
    runs = document.get("runs", [])
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        wrong.append("runs")
    return wrong if isinstance(document.get("numbers", {}), dict) else [*wrong, "numbers"]


def _is_table(entry: Any) -> bool:
    if not isinstance(entry, dict) or set(entry) != {"title", "header", "rows"}:
        return False
    if not isinstance(entry["header"], list) or not isinstance(entry["rows"], list):
        return False
    lines = [entry["header"], *entry["rows"]]
    return isinstance(entry["title"], str) and all(
        isinstance(line, list)
        and len(line) == len(entry["header"])
        and all(isinstance(cell, str) for cell in line)
        for line in lines
    )


def _figures(folder: Path, root: Path) -> Iterator[str]:
    """Pictures that are pictures, of a usual size, with a name that needs no escaping."""
    for path in sorted((folder / "figures").glob("*.png")):
        is_usual = path.is_file() and path.stat().st_size <= LARGEST_PICTURE
        if is_usual and not leads_out(path, root) and NAME.fullmatch(path.name):
            with path.open("rb") as file:
                if file.read(len(PNG)) == PNG:
                    yield path.relative_to(root).as_posix()


# -------------------------------------------------------------------------------------------- pages


def study_pages(results: Sequence[StudyResult]) -> Iterator[tuple[str, str]]:
    """Name and text of one page per study, and of the index; none without a result."""
    groups = {name: list(own) for name, own in groupby(results, key=lambda result: result.study)}
    for name, own in groups.items():
        yield f"{name}.md", _page(name, own)
    if groups:
        yield INDEX, _index(groups)


def _page(name: str, results: Sequence[StudyResult]) -> str:
    first = results[0]
    printed = f"What the paper prints: {plain(first.printed)}" if first.printed else ""
    parts = [GENERATED, f"# Study: {plain(name)}", plain(first.question), printed, LIMITS]
    parts += [part for result in results for part in _section(result)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(result: StudyResult) -> list[str]:
    files = f"[all runs]({result.folder}/table.csv), [all numbers]({result.folder}/{RESULT})"
    return [
        f"## {plain(result.title)}",
        f"**{plain(result.sentence)}**",
        *(f"![{plain(result.title)}]({path})" for path in result.figures),
        *(_table(entry) for entry in result.tables),
        result.note,
        f"Held: {plain(result.budget)}." if result.budget else "",
        f"```sh\n{printable(result.command)}\n```" if result.command else "",
        files,
    ]


def _table(entry: StudyTable) -> str:
    header = [plain(cell) for cell in entry.header]
    return f"{plain(entry.title)}:\n\n" + table(
        header, [[plain(cell) for cell in line] for line in entry.rows]
    )


def _index(groups: Mapping[str, Sequence[StudyResult]]) -> str:
    lines = [
        [f"[{plain(name)}]({name}.md)", plain(result.title), plain(result.sentence)]
        for name, results in groups.items()
        for result in results
    ]
    listed = table(["study", "of", "what came out"], lines, words=3)
    return "\n\n".join([GENERATED, "# Studies", INTRODUCTION, listed]) + "\n"
