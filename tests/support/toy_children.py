"""What child processes do in tests; importable by their name in any process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from gsnobench.processes import Child, Parent, start_forked, start_fresh


def forked(function: Callable[..., None], *args: object) -> Child:
    return start_forked(function, *args, threads=1, preload=())


def fresh(function: Callable[..., None], *args: object) -> Child:
    return start_fresh(function, *args, threads=1)


def double(parent: Parent, first: int) -> None:
    parent.send(2 * first)
    while True:
        parent.send(2 * parent.receive())


def sleep(parent: Parent) -> None:
    parent.send("begun")
    time.sleep(600)


def die(parent: Parent) -> None:
    os._exit(9)


def send_threads(parent: Parent) -> None:
    parent.send(os.environ["OMP_NUM_THREADS"])


def talk(parent: Parent) -> None:
    print("a solver talks")
