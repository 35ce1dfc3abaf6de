"""A digest of a plugin's source, so that an old result is not shown for new code in silence.

It covers the plugin's module and every module of the same package that it imports, as syntax trees
without docstrings: comments, layout and explanations may change. So may what a model declares in
settings and words, its presets above all: every result holds its own settings, and says which of
them its preset does not have. A digest that differs is said, only a new `revision` makes a result
stale.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from importlib.util import find_spec, resolve_name
from pathlib import Path

from gsnobench.plugins import Kind, find

DIGITS = 16
# arguments of `Model(...)` that say nothing about how a run computes with given settings
DECLARED = frozenset(
    ("presets", "settings", "steps", "studies", "published", "revision")
    + ("title", "cites", "differs", "tuned")
)


def source_digest(kind: Kind, name: str) -> str:
    """The digest of the named plugin; empty where its source cannot be read."""
    hashed = hashlib.sha256()
    for module, tree in sorted(_own_code(find(kind, name).module.partition(":")[0]).items()):
        hashed.update(f"{module}\n{_canonical(tree)}\n".encode())
    return hashed.hexdigest()[:DIGITS]


def declared_revision(model: str) -> int:
    """The revision that a model's source declares; 0 where it is not spelt out as a number.

    Read from the source, since importing every plugin takes seconds that boards do not have.
    """
    path = _source_file(find("model", model).module.partition(":")[0])
    if path is None:
        return 0
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_model(node.func)]
    given = [entry for call in calls for entry in call.keywords if entry.arg == "revision"]
    if calls and not given:
        return 1  # the default
    values = [entry.value.value for entry in given if isinstance(entry.value, ast.Constant)]
    return max((value for value in values if isinstance(value, int)), default=0)


def _is_model(function: ast.expr) -> bool:
    """Whether a call is `Model(...)` or `gb.Model(...)`."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "Model"


def _own_code(module: str) -> dict[str, ast.Module]:
    """The syntax tree of a module, and of all modules of its package that it leads to.

    Without the declared settings and what serves nothing else.
    """
    trees: dict[str, ast.Module] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _source_file(name)
        if name in trees or path is None:
            continue
        trees[name] = _without_settings(ast.parse(path.read_text(encoding="utf-8")))
        is_package = path.name == "__init__.py"
        waiting += _own_imports(trees[name], name if is_package else name.rpartition(".")[0])
    return trees


def _without_settings(tree: ast.Module) -> ast.Module:
    """Without what `Model(...)` declares in settings and words, and the names only they use."""
    unneeded: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_model(node.func):
            dropped = [entry for entry in node.keywords if entry.arg in DECLARED]
            node.keywords = [entry for entry in node.keywords if entry.arg not in DECLARED]
            unneeded |= {name for entry in dropped for name in _names_read(entry)}
    while unneeded:
        unneeded -= _names_read(tree)
        gone = [node for node in tree.body if _names_bound(node) & unneeded]
        unneeded = {name for node in gone for name in _drop(tree, node, unneeded)}
    return tree


def _names_read(tree: ast.AST) -> set[str]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in nodes if isinstance(node.ctx, ast.Load)}


def _names_bound(node: ast.stmt) -> set[str]:
    """What a constant or an import of names at the top of a module is called."""
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _drop(tree: ast.Module, node: ast.stmt, unneeded: set[str]) -> set[str]:
    """Take a constant out, or single names out of an import; the names that it has read itself."""
    if isinstance(node, ast.ImportFrom):
        kept = [alias for alias in node.names if (alias.asname or alias.name) not in unneeded]
        node.names = kept
        if kept:
            return set()
    tree.body.remove(node)
    return _names_read(node)


def _source_file(module: str) -> Path | None:
    """The file of a module; None if there is no such module (a function's name, for example).

    Only the first package is looked up, since Python imports the parents of all others for that.
    """
    top, *parts = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, AttributeError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    if parts:
        inside = path.parent.joinpath(*parts)
        path = inside / "__init__.py" if inside.is_dir() else inside.with_suffix(".py")
    return path if path.suffix == ".py" and path.is_file() else None


def _own_imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Modules of the same top package that a tree may import, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (name for name in names if _has_same_top(name, package))
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            absolute = resolve_name(base, package) if node.level else base
            if _has_same_top(absolute, package):
                yield absolute
                if _is_package(absolute):  # else its names are no modules
                    yield from (f"{absolute}.{alias.name}" for alias in node.names)


def _has_same_top(module: str, package: str) -> bool:
    return module.partition(".")[0] == package.partition(".")[0]


def _is_package(module: str) -> bool:
    path = _source_file(module)
    return path is not None and path.name == "__init__.py"


def _canonical(node: object) -> str:
    """A syntax tree as text without docstrings and positions, the same for every Python version."""
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = []
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list):
            value = _without_docstring(node, value)
        if value is not None and value != []:  # newer versions of Python have further, empty fields
            parts.append(f"{name}={_canonical(value)}")
    return f"{type(node).__name__}({','.join(parts)})"


def _without_docstring(node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    if not isinstance(node, documented) or ast.get_docstring(node, clean=False) is None:
        return body
    return body[1:]
