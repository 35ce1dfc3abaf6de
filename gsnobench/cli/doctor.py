"""`gsnobench doctor`: report on installation, home and tracking; clean and replay."""

from __future__ import annotations

import json
import os
import platform
import shutil
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import gsnobench
from gsnobench.cli.console import print_facts, print_result
from gsnobench.cli.options import HomeOption, JsonOption
from gsnobench.errors import DataError, PluginError
from gsnobench.files import discard, is_locked, left_over
from gsnobench.home import ARTIFACTS, Home, RunFolder, open_home
from gsnobench.records import RunResult
from gsnobench.tracking.address import Address
from gsnobench.tracking.spool import is_mirrored, read, spools

if TYPE_CHECKING:
    from gsnobench.plugins import Listed

app = typer.Typer()

WIDEST = 100  # letters of a line

NUMERICS = ("torch", "numpy", "scipy", "numba", "netCDF4", "xarray", "safetensors")
PACKAGES = (*NUMERICS, "matplotlib", "mlflow", "optuna")
STALE_S = 3600.0  # a trial that is older is not about to be continued


@app.command()
def doctor(
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Compare the GPU with the CPU; measure speed and memory.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Send what the tracking server missed.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove left-over temporary files; never results.")
    ] = False,
    device: Annotated[str, typer.Option(help="Device for --gpu.")] = "cuda",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Report on the installation, the home folder and the tracking store, or repair them.

    The exit code of a report is 0 if there is no problem, 1 if there is one.
    """
    root = open_home(home).root
    if gpu:
        from gsnobench.cli.gpu import measure

        measured = measure(device)
        print_result(measured, lambda: print(json.dumps(measured, indent=2)), as_json=as_json)
        return 0
    if replay:
        from gsnobench.tracking.mirror import replay as send_missed

        facts = send_missed(root)
    elif clean:
        facts = remove_left_over(root)
    else:
        facts = report(root)
        print_result(facts, lambda: _print_report(facts), as_json=as_json)
        return 1 if facts["problems"] else 0
    print_result(facts, lambda: print_facts(facts), as_json=as_json)
    return 0


def _print_report(facts: Mapping[str, Any]) -> None:
    """One line per subject, then one per problem."""
    kinds = Counter(name.split()[0] for name in facts["plugins"])
    cards = ", ".join(facts["gpus"]) or "no graphics card"
    lines = {
        "system": f"Python {facts['python']}, {facts['system']}, {facts['cores']} cores, {cards}",
        "packages": ", ".join(f"{name} {version}" for name, version in facts["packages"].items()),
        "home": f"{facts['home']}, {facts['disk_free_gb']:.0f} GB free",
        "plugins": ", ".join(f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in kinds.items()),
        "tracking": f"{facts['tracking']['address']}, {facts['tracking']['state']}",
    }
    print(f"gsnobench {facts['gsnobench']}")
    width = max(map(len, lines)) + 2
    room = min(WIDEST, shutil.get_terminal_size().columns) - width
    for name, text in lines.items():
        folded = textwrap.fill(text, room, break_on_hyphens=False, break_long_words=False)
        print(f"{name:<{width}}" + folded.replace("\n", "\n" + " " * width))
    for problem in facts["problems"]:
        print(f"problem: {problem}")
    if not facts["problems"]:
        print("no problem")


def report(home: Path) -> dict[str, Any]:
    """What one needs to know first when something fails; `problems` is empty if all is well."""
    from gsnobench.plugins import listed

    usable = [entry for entry in listed() if entry.problem is None]
    idle = [path for path in spools(home) if not is_mirrored(path) and not is_locked(path)]
    idle = [path for path in idle if read(path) is not None]  # else nothing of it could be sent
    facts = {
        "gsnobench": gsnobench.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        **_compute(),
        "home": str(home),
        "home_writable": os.access(home, os.W_OK),
        "disk_free_gb": round(shutil.disk_usage(home).free / 1e9, 1),
        "plugins": {f"{entry.kind} {entry.name}": entry.origin for entry in usable},
        "tracking": _store(home),
        "unmirrored": [path.name for path in idle],
        "untold": sorted(folder.name for folder in _untold(home)),
        "damaged_lines": {name: count for name, count in _damaged_lines(home) if count},
        "damaged_results": _damaged_results(home),
        "interrupted": sorted(folder.name for folder in _interrupted(home)),
        "left_over": sorted(str(path.relative_to(home)) for path in _left_over(home)),
    }
    return {**facts, "problems": _problems(facts)}


def remove_left_over(home: Path) -> dict[str, Any]:
    """Remove files that no process uses and spools that MLflow has; never results or data."""
    mirrored = [path for path in spools(home) if _is_spent(path)]
    removed = [*_left_over(home), *mirrored, *(path.with_suffix(".done") for path in mirrored)]
    size = sum(path.stat().st_size for path in removed)
    for path in removed:
        discard(path)
    return {"removed": sorted(str(path.relative_to(home)) for path in removed), "bytes": size}


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _compute() -> dict[str, Any]:
    import torch

    cards = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    names = [torch.cuda.get_device_name(number) for number in cards]
    return {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "gpus": names}


def _store(home: Path) -> dict[str, Any]:
    from gsnobench.tracking.mirror import trouble_of

    address = Address.of(home)
    if address is None:
        return {"address": "none", "state": "turned off", "is_default": False}
    trouble = trouble_of(address)
    state = "answers" if trouble is None else f"does not answer: {trouble}"
    return {"address": address.label, "state": state, "is_default": address.is_default}


def _interrupted(home: Path) -> list[RunFolder]:
    """Folders of runs that were started, have no result, and that no process works on."""
    return [
        folder
        for folder in Home(home).run_folders()
        if not folder.result.exists()
        and not folder.trial.exists()
        and not _is_running(home, folder)
    ]


def _untold(home: Path) -> list[RunFolder]:
    """Folders of finished runs whose processes were killed before the spool had their end."""
    folders = [folder for folder in Home(home).run_folders() if folder.untold.exists()]
    return [folder for folder in folders if not _is_running(home, folder)]


def _damaged_lines(home: Path) -> Iterator[tuple[str, int]]:
    """Spools, and how many of their lines are no records; all lines where even the first is bad."""
    for path in spools(home):
        if not is_locked(path):
            spool = read(path)
            lines = path.read_bytes().count(b"\n") if spool is None else spool.skipped
            yield path.name, lines


def _damaged_results(home: Path) -> list[str]:
    """Runs whose result cannot be read."""
    damaged = []
    for folder in Home(home).run_folders():
        for path in (folder.result, folder.trial):
            try:
                if path.exists():
                    RunResult.load(path)
            except DataError:
                damaged.append(folder.name)
    return damaged


def _is_running(home: Path, folder: RunFolder) -> bool:
    spool = home / "spool" / f"{folder.name}.jsonl"
    return any(is_locked(path) for path in (spool, folder.lock))


def _left_over(home: Path) -> list[Path]:
    """Half-written files of killed processes, unused locks, checkpoints of finished trials."""

    def is_old(path: Path) -> bool:
        return path.is_file() and path.stat().st_mtime < time.time() - STALE_S

    folders = [RunFolder(path) for path in Home(home).runs.glob("*")]
    trials = [folder for folder in folders if is_old(folder.trial)]
    checkpoints = [
        folder.checkpoint
        for folder in trials
        if folder.checkpoint.exists() and not _is_running(home, folder)
    ]
    return left_over(home, skip=ARTIFACTS) + checkpoints


def _is_spent(path: Path) -> bool:
    if not is_mirrored(path) or is_locked(path):
        return False
    spool = read(path)
    return spool is not None and spool.finished is not None


def _import_problem(entry: Listed) -> str | None:
    """Why a plugin cannot be loaded; observers are loaded at every run and tell it there."""
    from gsnobench.plugins import load

    if entry.kind == "observer":
        return None
    try:
        load(entry.kind, entry.name)
    except PluginError as error:
        return str(error).partition(": ")[2]
    return None


def _problems(facts: dict[str, Any]) -> list[str]:
    """One line each, with what to do."""
    from gsnobench.plugins import listed

    lines = [
        f"{entry.kind} {entry.name} ({entry.origin}): {problem}"
        for entry in listed()
        if (problem := entry.problem or _import_problem(entry)) is not None
    ]
    lines += [
        f"{name}: is not installed; reinstall gsnobench"
        for name, version in facts["packages"].items()
        if version == "not installed"
    ]
    free, store = facts["disk_free_gb"], facts["tracking"]
    if not facts["home_writable"]:
        lines.append(f"{facts['home']}: cannot be written; choose another --home")
    if free < 2:
        lines.append(f"disk: only {free} GB are free; data of a paper track take several")
    if "does not answer" in store["state"]:
        effect = "runs go on and are kept in the spool"
        if store["is_default"]:
            effect += "; move the file away, `gsnobench doctor --replay` makes it again from there"
        lines.append(f"tracking: {store['address']} {store['state']}; {effect}")
    remedies = {
        "unmirrored": "spool: {} runs are not fully in MLflow; `gsnobench doctor --replay` sends "
        "them",
        "untold": "spool: the end of {} runs is missing; `gsnobench doctor --replay` adds it",
        "damaged_lines": "spool: {} files hold lines that are no records; the rest of them is used",
        "damaged_results": "runs: {} have a damaged result; `gsnobench run --force` repeats one",
        "interrupted": "runs: {} interrupted; the same `gsnobench run` command resumes one",
        "left_over": "home: {} left-over files; `gsnobench doctor --clean` removes them",
    }
    return lines + [text.format(len(facts[name])) for name, text in remedies.items() if facts[name]]
