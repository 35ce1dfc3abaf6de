"""The reference pages, made from the program itself: options of commands, docstrings of names."""

from __future__ import annotations

import ast
import dataclasses
import enum
import html
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import typer

import gsnobench
from gsnobench.cli.app import GROUPS, make_app

LINE = 88  # letters of a signature that stays on one line

# ------------------------------------------------------------------------------------- command line


def command_line() -> str:
    """Every command with what its help says."""
    group = typer.main.get_command(make_app())
    context = group.make_context("gsnobench", [], resilient_parsing=True)
    parts = [
        "# Command line",
        "Every command, its arguments and its options, as `gsnobench COMMAND --help` prints them. "
        "Knobs (`--model.NAME`, `--train.NAME`, `--data.NAME`) depend on the model and the "
        "dataset: `gsnobench run --model gsno --dataset swe --help` lists them.",
    ]
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}")
        for name in names:
            parts += _command(group.get_command(context, name), f"gsnobench {name}")
    return "\n\n".join(filter(None, parts)) + "\n"


def _command(command: Any, path: str) -> Iterator[str]:
    """One command, and those below it."""
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield f"### {path}"
    yield inspect.cleandoc(command.help or "")
    below = getattr(command, "commands", {})
    if not below:
        yield f"```sh\n{usage}\n```"
        yield _options(command, context)
    for name, inner in below.items():
        yield from _command(inner, f"{path} {name}")


def _options(command: Any, context: Any) -> str:
    """Names and help of arguments and options, as the help itself lists them."""
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [f"| `{names}` | {_cell(text)} |" for names, text in filter(None, records)]
    return "\n".join(["| option | what it does |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return _inert(" ".join(text.split())).replace("|", "\\|")


# ------------------------------------------------------------------------------------------- Python


def python() -> str:
    """Every public name, in the order and under the first line of its module."""
    parts = [
        "# Python",
        "Every public name of `import gsnobench as gb`, from its docstring. In a session, "
        "`help(gb.run)` prints the same.",
    ]
    for module, names in gsnobench._NAMES.items():
        source = import_module(f"gsnobench.{module}")
        parts.append(f"## {_subject(source)}")
        for name in sorted(names, key=str.lower):
            parts += _name(name, getattr(gsnobench, name), source)
    return "\n\n".join(filter(None, parts)) + "\n"


def _name(name: str, thing: Any, module: ModuleType) -> Iterator[str]:
    yield f"### gb.{name}"
    if inspect.isclass(thing) and thing.__module__.startswith("gsnobench"):
        yield from _class(name, thing)
    elif inspect.isfunction(thing):
        yield f"```python\n{_wrapped(_signature(f'gb.{name}', thing))}\n```"
        yield _doc(thing)
    else:
        yield f"```python\n{_assignment(name, module)}\n```"


def _class(name: str, thing: type) -> Iterator[str]:
    yield _doc(thing)
    if issubclass(thing, enum.Enum):
        yield "\n".join(f"- `{member.name}`: {member.value}" for member in thing)
        return
    if dataclasses.is_dataclass(thing) and dataclasses.fields(thing):
        yield _fields(thing)
    methods = filter(None, (_method(*entry) for entry in vars(thing).items()))
    yield "\n".join(methods)


def _method(name: str, thing: Any) -> str:
    """A method with its signature, or a property with its type, and the docstring."""
    is_property = isinstance(thing, property | cached_property)
    function = getattr(thing, "fget", None) or getattr(thing, "func", None) or thing
    function = getattr(function, "__func__", function)  # of a class method
    if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
        return ""
    signature = _signature(name, function)
    shown = signature.replace("()", "", 1) if is_property else signature
    return f"- `{shown}`: {textwrap.indent(_doc(function), '    ').strip()}"


def _fields(thing: type) -> str:
    """Name, type, default and the remark behind every field."""
    remarks = _remarks(thing)
    rows = [
        f"| `{field.name}` | `{_type(field.type)}` | {_default(field)} "
        f"| {_cell(remarks.get(field.name, ''))} |"
        for field in dataclasses.fields(thing)
        if not field.name.startswith("_")
    ]
    return "\n".join(["| field | type | default | what it is |", "|---|---|---|---|", *rows])


def _remarks(thing: type) -> dict[str, str]:
    """The comment at the end of the line of each field."""
    lines = inspect.getsource(thing).splitlines()
    found = (re.match(r"    (\w+):[^#]*#\s*(.*)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def _default(field: Any) -> str:
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        return "required"
    is_value = field.default is not dataclasses.MISSING and not callable(field.default)
    return f"`{field.default!r}`" if is_value else "optional"


def _type(annotation: Any) -> str:
    return str(getattr(annotation, "__name__", annotation))


def _signature(name: str, function: Any) -> str:
    """The signature as it is written in the source."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef)
    node.args.args = [entry for entry in node.args.args if entry.arg not in ("self", "cls")]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{name}({ast.unparse(node.args)}){returns}"


def _wrapped(signature: str) -> str:
    """A long signature with one argument per line."""
    if len(signature) <= LINE:
        return signature
    text, depth = "", 0
    for letter in signature:
        depth += (letter in "([") - (letter in ")]")
        is_end = letter == ")" and depth == 0
        text += ",\n" if is_end else ""
        text += letter
        text += "\n    " if depth == 1 and letter in "(," else ""
    return text.replace("\n     ", "\n    ")


def _assignment(name: str, module: ModuleType) -> str:
    """The line of the module that defines a name which is neither a class nor a function."""
    for node in ast.parse(inspect.getsource(module)).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.unparse(node)
    return name


# ---------------------------------------------------------------------------------------- sentences


def _doc(thing: Any) -> str:
    """A docstring; a paragraph with indented lines stays as it was typed."""
    paragraphs = _inert(inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(
        f"```text\n{html.unescape(paragraph)}\n```" if "\n  " in paragraph else paragraph
        for paragraph in paragraphs
    )


def _subject(module: ModuleType) -> str:
    """What a module is about: its first sentence up to the first colon."""
    line = (inspect.getdoc(module) or module.__name__).splitlines()[0]
    return _inert(re.split(r"[:;.](?= |$)", line)[0])


def _inert(text: str) -> str:
    """No tags outside of code: <name> in a sentence is a word."""
    return re.sub(r"<(?=\w)", "&lt;", text)
