"""Task <-> JSON: the attribute `gsnobench_task` that makes a data file complete."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from gsnobench.data import Boundary, Field, Task
from gsnobench.errors import DataError, did_you_mean
from gsnobench.reading import parse_json

NEEDED = ("id", "fields", "dim")
OF_ALL = "headline"  # where a result keeps the mean over all fields
_TEXT, _FLAG = ((str,), "a text"), ((bool,), "true or false")
_LIST, _OBJECT, _INTEGER = ((list,), "a list"), ((dict,), "an object"), ((int,), "a whole number")
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "id": _TEXT,
    "dataset": _TEXT,
    "fields": _LIST,
    "static": _LIST,
    "scalars": _LIST,
    "tags": _LIST,
    "times": _LIST,
    "starts": _LIST,
    "dim": _INTEGER,
    "t_in": _INTEGER,
    "t_out": _INTEGER,
    "resolution": _INTEGER,
    "version": _INTEGER,
    "data_seed": _INTEGER,
    "corresponds": _FLAG,
    "fixed_mesh": _FLAG,
    "sizes": _OBJECT,
    "data": _OBJECT,
    "split_hashes": _OBJECT,
}
_ITEMS: dict[str, tuple[tuple[type, ...], str]] = {
    "tags": ((str,), "texts"),
    "times": ((int, float), "numbers"),
    "starts": ((int,), "whole numbers"),
}


def task_to_json(task: Task) -> str:
    """Everything about a task but its sizes and hashes, which the file itself holds."""
    names = [entry.name for entry in fields(Task) if entry.name not in ("sizes", "split_hashes")]
    return json.dumps({name: _plain(getattr(task, name)) for name in names}, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Field):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in fields(Field)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def task_from_json(text: str) -> Task:
    """The task again; only `id`, `fields` and `dim` have no default."""
    needed = f"an object with {', '.join(NEEDED)}"
    plain = parse_json(text, label="gsnobench_task", expected=needed)
    if not isinstance(plain, dict):
        raise DataError(
            f"gsnobench_task: {plain!r} is not an object; expected {', '.join(NEEDED)} and what "
            "else a task has"
        )
    missing = [name for name in NEEDED if name not in plain]
    if missing:
        raise DataError(
            f"gsnobench_task: {', '.join(missing)} missing; a task needs at least "
            f"{', '.join(NEEDED)}"
        )
    _check_kinds(plain)
    quantities = {
        name: tuple(map(_field, plain[name]))
        for name in ("fields", "static", "scalars")
        if name in plain
    }
    sequences = {name: tuple(plain[name]) for name in _ITEMS if name in plain}
    task = Task(**{"dataset": plain["id"].split("@")[0], **plain, **quantities, **sequences})
    check_names(task, "gsnobench_task")
    return task


def _check_kinds(plain: Mapping[str, Any]) -> None:
    for name, value in plain.items():
        if name not in _KINDS:
            raise DataError(
                f"gsnobench_task: no entry is called {name!r}; {did_you_mean(name, _KINDS)}"
            )
        kinds, expected = _KINDS[name]
        if not _is_a(value, kinds):
            raise DataError(f"gsnobench_task: {name} is {value!r}; expected {expected}")
        if name in _ITEMS and not all(_is_a(item, _ITEMS[name][0]) for item in value):
            raise DataError(
                f"gsnobench_task: {name} is {value!r}; expected a list of {_ITEMS[name][1]}"
            )
    if not 1 <= plain["dim"] <= 3:
        raise DataError(f"gsnobench_task: dim is {plain['dim']!r}; expected 1, 2 or 3")


def _is_a(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)


def _field(plain: Any) -> Field:
    named = {"name": plain} if isinstance(plain, str) else plain
    known = {entry.name for entry in fields(Field)}
    is_field = isinstance(named, dict) and isinstance(named.get("name"), str)
    if not is_field or not set(named) <= known:
        raise DataError(
            f"gsnobench_task: {plain!r} is not a field; expected a name, or an object of "
            f"{', '.join(sorted(known))}"
        )
    conditions = named.get("boundary", {})
    allowed = get_args(Boundary)
    is_known = isinstance(conditions, dict) and all(name in allowed for name in conditions.values())
    if not is_known:
        raise DataError(
            f"gsnobench_task: boundary of {named['name']} is {conditions!r}; expected TAG: "
            f"{' | '.join(allowed)}"
        )
    if not _is_a(named.get("reference", 0.0), (int, float)):
        raise DataError(
            f"gsnobench_task: reference of {named['name']} is {named['reference']!r}; expected a "
            "number"
        )
    texts = ("name", "unit", "support", "vector", "help")
    wrong = [entry for entry in texts if not isinstance(named.get(entry, ""), (str, type(None)))]
    if wrong:
        raise DataError(
            f"gsnobench_task: {wrong[0]} of {named['name']} is {named[wrong[0]]!r}; expected a text"
        )
    return Field(**named)


def check_names(task: Task, subject: str) -> None:
    """Refuse names that cannot name a variable or a folder, and names that occur twice."""
    if not re.fullmatch(r"[A-Za-z0-9]\w*(@\d+-\d+)?", task.id):
        raise DataError(
            f"{subject}: id is {task.id!r}; expected letters, digits and _, then perhaps "
            "@T_IN-T_OUT"
        )
    if not task.fields:
        raise DataError(f"{subject}: fields is empty; expected at least one field to predict")
    for kind in ("fields", "static", "scalars"):
        names = [field.name for field in getattr(task, kind)]
        is_name = re.compile(r"[A-Za-z]\w*").fullmatch
        wrong = [name for name in names if not is_name(name) or names.count(name) > 1]
        wrong += [name for name in task.scored if name == OF_ALL]
        if wrong:
            raise DataError(
                f"{subject}: {kind} holds the name {wrong[0]!r}; expected letters, digits and _, "
                f"each name once, and not {OF_ALL!r}"
            )
    for tag in task.tags:
        if not tag.strip() or not tag.isprintable() or "/" in tag:
            raise DataError(f"{subject}: tags holds the name {tag!r}; expected a word without /")
