"""List and load plugins by entry point; every failure names the package and stops no other plugin.

Loading a plugin runs its code. GSNOBENCH_PLUGINS_ALLOW and GSNOBENCH_PLUGINS_DENY (names of plugins
or packages, separated by commas) decide whose code may run. The plugins of gsnobench itself are
allowed unless one is denied by its own name.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import pluggy

from gsnobench import hookspecs
from gsnobench.errors import PluginError, Prune, did_you_mean

if TYPE_CHECKING:
    from gsnobench.declare import Dataset, Executor, Importer, Invariant, Metric, Model

Kind = Literal["dataset", "importer", "invariant", "model", "metric", "executor", "observer"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ALLOW = "GSNOBENCH_PLUGINS_ALLOW"
DENY = "GSNOBENCH_PLUGINS_DENY"
_BUNDLED = "gsnobench"
_OBSERVER_HOOKS = ("gsnobench_run_started", "gsnobench_epoch_ended", "gsnobench_run_finished")
# (name, keyword) -> what the keyword is called now
_RENAMED = {("Model", "reference"): "summary"}
_UNKNOWN_KEYWORD = re.compile(
    r"(\w+?)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'"
)


@dataclass(frozen=True)
class Listed:
    """One plugin as its package's metadata announce it; nothing of it has been imported."""

    name: str
    kind: Kind
    package: str
    version: str
    module: str
    problem: str | None = None

    @property
    def origin(self) -> str:
        """The package and its version, as every message names them."""
        return f"{self.package} {self.version}"

    @property
    def summary(self) -> str:
        """The first line of its module's docstring, read without importing anything."""
        with suppress(ImportError, ValueError, OSError, SyntaxError):
            text = ast.get_docstring(ast.parse(self._file().read_text(encoding="utf-8"))) or ""
            return text.partition("\n")[0]
        return ""

    @property
    def fault(self) -> str | None:
        """Why the module cannot be imported, as far as its text shows; nothing is imported."""
        try:
            tree = ast.parse(self._file().read_text(encoding="utf-8"))
        except SyntaxError as error:
            return f"{self._file().name}:{error.lineno}: {error.msg}"
        except (ImportError, ValueError, OSError):
            return f"there is no module {self.module}; reinstall {self.package}"
        for node in tree.body:  # those at the top: others may be tried and done without
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in (name.partition(".")[0] for name in names):
                if name not in sys.modules and find_spec(name) is None:
                    return f"needs the package {name!r}, which is not installed"
        return None

    def _file(self) -> Path:
        """The source of the module."""
        package, *inner = self.module.partition(":")[0].split(".")
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ImportError(package)
        path = Path(spec.origin)
        path = path.parent.joinpath(*inner) if inner else path
        file = path if path.is_file() else path.with_suffix(".py")
        return file if file.is_file() else path / "__init__.py"


def listed(
    kind: Kind | None = None, *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> list[Listed]:
    """All announced plugins (of one kind), sorted; clashes and denials are marked as problems."""
    found = [entry for entry in _announced(_search_path()) if kind in (None, entry.kind)]
    marked = [
        replace(entry, problem=entry.problem or _refusal(entry, allow, deny)) for entry in found
    ]
    usable = [entry for entry in marked if entry.problem is None]
    return sorted(
        (_mark_clash(entry, usable) for entry in marked),
        key=lambda entry: (entry.kind, entry.name, entry.package),
    )


def find(kind: Kind, name: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> Listed:
    """The usable plugin of this name, by metadata alone; an unknown or refused one is one line."""
    entries = listed(kind, allow=allow, deny=deny)
    offers = [entry for entry in entries if entry.name == name]
    if not offers:
        raise PluginError(
            f"{name}: no such {kind}; {did_you_mean(name, {entry.name for entry in entries})}"
        )
    for entry in offers:
        if entry.problem is None:
            return entry
    raise PluginError(f"{kind} {name} ({offers[0].origin}): {offers[0].problem}")


def kind_of(name: str) -> Kind:
    """The kind of the plugin with this name; unknown and ambiguous names are refused."""
    entries = listed()
    kinds = sorted({entry.kind for entry in entries if entry.name == name})
    if not kinds:
        raise PluginError(
            f"{name}: no such plugin; {did_you_mean(name, {entry.name for entry in entries})}"
        )
    if len(kinds) > 1:
        raise PluginError(
            f"{name}: is the name of a {' and of a '.join(kinds)}; say which one is meant"
        )
    return kinds[0]


@overload
def load(
    kind: Literal["dataset"], name: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> Dataset: ...
@overload
def load(
    kind: Literal["importer"], name: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> Importer: ...
@overload
def load(
    kind: Literal["invariant"], name: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> Invariant: ...
@overload
def load(
    kind: Literal["model"], name: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> Model: ...
@overload
def load(
    kind: Literal["metric"], name: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> Metric: ...
@overload
def load(
    kind: Literal["executor"], name: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> Executor: ...
def load(kind: Kind, name: str, *, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> Any:
    """What the named plugin declares, checked; no other plugin is imported."""
    entry = find(kind, name, allow=allow, deny=deny)
    hook = f"gsnobench_{kind}"
    manager = _isolated(entry)
    try:
        results = getattr(manager.hook, hook)()
    except Exception as error:
        problem = f"{hook}() raised {_describe(error)}"
        raise _failure(entry, error, problem, "report it to its author") from error
    if not results:
        remedy = (
            f"define {hook}() in {entry.module} with @gb.hookimpl, return a {kind.capitalize()}"
        )
        raise PluginError(_blame(entry, f"{hook}() is missing or returned nothing", remedy))
    return _checked(entry, hook, results[0])


def dataset_name(text: str, known_names: Iterable[str]) -> str:
    """The dataset that a task id names: the longest known name before the end, a `_` or a `@`."""
    base, known = text.split("@")[0], sorted(known_names)
    matching = [name for name in known if base == name or base.startswith(f"{name}_")]
    if not matching:
        raise PluginError(f"{text}: no such dataset; {did_you_mean(base.split('_')[0], known)}")
    return max(matching, key=len)


def dataset_named(text: str) -> Dataset:
    """The installed dataset that a task id names: `swe` for `swe@5-46`."""
    return load("dataset", dataset_name(text, [entry.name for entry in listed("dataset")]))


def provenance(kind: Kind, name: str) -> dict[str, str]:
    """The package and version behind a name, for run records."""
    entry = find(kind, name)
    return {"package": entry.package, "version": entry.version}


def load_observers(
    *, allow: Iterable[str] = (), deny: Iterable[str] = ()
) -> tuple[pluggy.PluginManager, list[str]]:
    """All observers that load, and one line for each that does not; nothing is raised."""
    manager = _manager()
    problems = []
    for entry in listed("observer", allow=allow, deny=deny):
        if entry.problem is not None:
            problems.append(f"observer {entry.name} ({entry.origin}): {entry.problem}")
            continue
        try:
            manager.register(_observer(entry), name=f"{entry.name} ({entry.origin})")
        except (PluginError, ValueError) as error:
            problems.append(str(error))
    return manager, problems


def load_metrics() -> tuple[Metric, ...]:
    """All metrics that load; `list` shows the others, and none of them may cost a run."""
    metrics = []
    for entry in listed("metric"):
        with suppress(PluginError):
            metrics.append(load("metric", entry.name))
    return tuple(metrics)


def load_invariants() -> tuple[Invariant, ...]:
    """All invariants that load; `list` shows the others."""
    invariants = []
    for entry in listed("invariant"):
        with suppress(PluginError):
            invariants.append(load("invariant", entry.name))
    return tuple(invariants)


def _observer(entry: Listed) -> Any:
    """The module of an observer, which must implement one of its hooks."""
    alone = _isolated(entry)
    plugin = next(iter(alone.get_plugins()))
    if not alone.get_hookcallers(plugin):
        remedy = f"define {' or '.join(_OBSERVER_HOOKS)}"
        raise PluginError(_blame(entry, "it implements no observer hook", remedy))
    return plugin


def notify(observers: pluggy.PluginManager, hook: str, **details: Any) -> list[str]:
    """Call a hook of every observer; an observer that fails gives one line of the result.

    `Prune` is the exception that an observer may raise on purpose: it is raised again after all
    observers were called.
    """
    problems = []
    prune: Prune | None = None
    for implementation in getattr(observers.hook, hook).get_hookimpls():
        try:
            implementation.function(*(details[argument] for argument in implementation.argnames))
        except Prune as request:
            prune = request
        except Exception as error:
            problems.append(
                f"observer {implementation.plugin_name}: {hook} raised {_describe(error)}; the run "
                "goes on without it"
            )
    if prune is not None:
        raise prune
    return problems


# --------------------------------------------------------------------------------- reading metadata


def _search_path() -> tuple[tuple[str, int], ...]:
    """The folders that hold distributions; one with a new or a removed package has a new time."""
    return tuple((folder, _changed(folder)) for folder in sys.path)


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)  # one run lists the plugins dozens of times
def _announced(search_path: tuple[tuple[str, int], ...]) -> tuple[Listed, ...]:
    """Entries of every distribution on the path, read once as long as the path stays as it is."""
    return tuple(_read_entries())


def _read_entries() -> Iterator[Listed]:
    """One distribution with unreadable metadata does not hide the others."""
    seen: set[str] = set()
    for distribution in metadata.distributions():
        try:
            text = distribution.read_text("entry_points.txt") or ""
        except (OSError, UnicodeDecodeError):
            continue
        if "gsnobench." not in text:
            continue
        package = distribution.metadata["Name"] or "an unnamed package"
        if _normal(package) in seen:  # the first on the path is the one that would be imported
            continue
        seen.add(_normal(package))
        yield from _entries_of(distribution, package, text)


def _entries_of(distribution: metadata.Distribution, package: str, text: str) -> Iterator[Listed]:
    version = distribution.metadata["Version"] or "of unknown version"
    try:
        points = list(distribution.entry_points)
    except Exception as error:
        problem = f"its entry_points.txt cannot be read ({_describe(error)}); reinstall {package}"
        yield from (
            Listed("?", kind, package, version, "?", problem)
            for kind in KINDS
            if f"[gsnobench.{kind}s]" in text
        )
        return
    for point in points:
        for kind in KINDS:
            if point.group == f"gsnobench.{kind}s":
                yield Listed(point.name, kind, package, version, point.value)


def _mark_clash(entry: Listed, usable: list[Listed]) -> Listed:
    rivals = [other for other in usable if (other.kind, other.name) == (entry.kind, entry.name)]
    if entry.problem is not None or len(rivals) < 2:
        return entry
    packages = " and ".join(sorted(rival.origin for rival in rivals))
    return replace(
        entry,
        problem=f"offered by {packages}; uninstall one of them or deny its package with {DENY}",
    )


def _refusal(entry: Listed, allow: Iterable[str], deny: Iterable[str]) -> str | None:
    denied = {_normal(name) for name in (*deny, *_variable(DENY))}
    allowed = {_normal(name) for name in (*allow, *_variable(ALLOW))}
    is_bundled = _normal(entry.package) == _BUNDLED
    names = {_normal(entry.name)} if is_bundled else {_normal(entry.name), _normal(entry.package)}
    if names & denied:
        return f"denied here; take it off {DENY} to use it"
    if allowed and not is_bundled and not names & allowed:
        return f"not on the list of allowed plugins; add it to {ALLOW} to use it"
    return None


def _variable(name: str) -> list[str]:
    return [item.strip() for item in os.environ.get(name, "").split(",") if item.strip()]


def _normal(name: str) -> str:
    """The spelling under which package names are equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


# ------------------------------------------------------------------------------------------ loading


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("gsnobench")
    manager.add_hookspecs(hookspecs)
    return manager


def _isolated(entry: Listed) -> pluggy.PluginManager:
    """A plugin manager that holds this one plugin, imported and checked."""
    try:
        plugin = metadata.EntryPoint(entry.name, entry.module, f"gsnobench.{entry.kind}s").load()
    except (Exception, SystemExit) as error:
        problem = f"{entry.module} cannot be imported, {_describe(error)}"
        raise _failure(entry, error, problem, f"repair or uninstall {entry.package}") from error
    _check_version(entry, getattr(plugin, "GSNOBENCH_API", None))
    manager = _manager()
    known = [hook for hook in vars(hookspecs) if hook.startswith("gsnobench_")]
    try:
        manager.register(plugin, name=entry.name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        callers = manager.get_hookcallers(plugin) or ()
        unknown = [caller.name for caller in callers if caller.name not in known]
        problem = _describe(error)
        if unknown:
            problem = f"{unknown[0]}() is not a hook; {did_you_mean(unknown[0], known)}"
        raise PluginError(_blame(entry, problem, f"correct it in {entry.module}")) from error
    return manager


def _check_version(entry: Listed, stated: object) -> None:
    """Refuse a plugin that was written for another version of the hooks, or states none."""
    ours = hookspecs.API_VERSION
    if stated is None:
        remedy = f"write GSNOBENCH_API = {ours} in {entry.module}"
        raise PluginError(_blame(entry, "it states no API version", remedy))
    if stated != ours:
        problem = f"it is written for API version {stated!r}, this gsnobench has {ours}"
        remedy = f"install a matching version of {entry.package} or of gsnobench"
        raise PluginError(_blame(entry, problem, remedy))


def _checked(entry: Listed, hook: str, result: Any) -> Any:
    from gsnobench import declare

    expected = getattr(declare, entry.kind.capitalize())
    if not isinstance(result, expected):
        problem = f"{hook}() returned a {type(result).__name__}"
        raise PluginError(_blame(entry, problem, f"return a gsnobench.{expected.__name__}"))
    if result.name != entry.name:
        problem = f"{hook}() returned the name {result.name!r}, the entry point says {entry.name!r}"
        raise PluginError(_blame(entry, problem, "make both the same"))
    return result


def _failure(entry: Listed, error: BaseException, problem: str, remedy: str) -> PluginError:
    """An error of a plugin's own code as one line; an unknown keyword has a remedy of its own."""
    return PluginError(_blame(entry, *(_unknown_keyword(error) or (problem, remedy))))


def _unknown_keyword(error: BaseException) -> tuple[str, str] | None:
    """Problem and remedy where one of our declarations was called with a keyword it lacks."""
    match = _UNKNOWN_KEYWORD.match(str(error)) if isinstance(error, TypeError) else None
    if match is None:
        return None
    from gsnobench import declare, params

    name, keyword = match.groups()
    declaration = getattr(declare, name, None) or getattr(params, name, None)
    known = inspect.signature(declaration).parameters if callable(declaration) else ()
    if not known or keyword in known:
        return None
    renamed = _RENAMED.get((name, keyword))
    remedy = f"it is called {renamed!r} now" if renamed else did_you_mean(keyword, known)
    return f"{name} has no {keyword!r}", remedy


def _blame(entry: Listed, problem: str, remedy: str) -> str:
    return f"{entry.kind} {entry.name} ({entry.origin}): {problem}; {remedy}"


def _describe(error: BaseException) -> str:
    """An exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
