"""Child processes with a channel: start them, exchange messages, stop them; none is left behind.

Every pool is made of these: the cells of a matrix, the workers of a sweep, the makers of samples. A
child ends when its channel does, so it never outlives its parent, not even a killed one. It ignores
Ctrl-C, which its parent handles, and prints to standard error, because the standard output of a
command may be a JSON document.

There are two ways to start a child, because neither suits every pool:

- `start_forked` uses multiprocessing's fork server, which has imported torch already: a child
  starts in a fraction of a second. But the number of BLAS threads is that of the server's first
  child, and the main script is imported again, as multiprocessing always does.
- `start_fresh` starts a new interpreter, which takes seconds if it needs torch. It has exactly the
  number of BLAS threads that was requested, on which the last bits of generated data depend, and
  it never imports the main script, so that a user's script may make data without an
  `if __name__ == "__main__"`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import IO, Any

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


# ----------------------------------------------------------------------------------- the two sides


@dataclass(frozen=True, eq=False)
class Child:
    """A child process as its parent sees it."""

    process: subprocess.Popen[bytes] | BaseProcess
    channel: Connection

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self.process.pid is not None  # it has been started
        return self.process.pid

    def send(self, message: object) -> None:
        """Send a message; that a child is dead shows when something is received from it."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.channel.send(message)

    def receive(self) -> Any:
        """The next message, which is never None; None if the child is dead."""
        try:
            return self.channel.recv()
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        """Kill the child if it is alive."""
        self.process.kill()
        if isinstance(self.process, subprocess.Popen):
            self.process.wait()
        else:
            self.process.join()
        self.channel.close()


class Parent:
    """The parent process as its child sees it."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._messages: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, message: object) -> None:
        """Send a message."""
        try:
            self._channel.send(message)
        except OSError:  # the parent is gone
            os._exit(1)

    def receive(self) -> Any:
        """The next message."""
        return self._messages.get()

    def _read(self) -> None:
        """Read at all times: the end of the channel ends the child in the middle of its work."""
        try:
            while True:
                self._messages.put(self._channel.recv())
        finally:
            os._exit(1)


# ------------------------------------------------------------------------------------------- start


def start_forked(
    function: Callable[..., None], *args: object, threads: int, preload: Sequence[str]
) -> Child:
    """Call `function(parent, *args)` in a process of the fork server.

    The server imports the `preload` modules before its first child.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,))
    with pinned(threads):  # the server takes its environment from its first start
        process.start()
    return _started(Child(process, ours), theirs, function, args)


def start_fresh(function: Callable[..., None], *args: object, threads: int) -> Child:
    """Call `function(parent, *args)` in a new interpreter with the same search path."""
    ours, theirs = multiprocessing.Pipe()
    number = theirs.fileno()
    program = (
        "from multiprocessing.connection import Connection; "
        f"from gsnobench.processes import serve; serve(Connection({number}))"
    )
    search_path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    with pinned(threads):
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            pass_fds=[number],
            env={**os.environ, "PYTHONPATH": search_path},
            stdin=subprocess.DEVNULL,
        )
    return _started(Child(process, ours), theirs, function, args)


def _started(
    child: Child, theirs: Connection, function: Callable[..., None], args: tuple[object, ...]
) -> Child:
    theirs.close()  # else the end of the child would not end the channel
    child.send((function, args))
    return child


def serve(channel: Connection) -> None:
    """The life of a child: one call of the function that comes first through the channel."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    try:
        function, args = channel.recv()
    except EOFError:
        return
    function(Parent(channel), *args)


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Processes that are started within the block have so many BLAS threads."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


# ----------------------------------------------------------------------------------------- commands

# waits for the end of its input, which is that of its parent, and ends its whole process group
GUARD = """
import os, signal, subprocess, sys, threading
command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def watch():
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
os._exit(command.wait())
"""


def start_guarded(
    command: Sequence[str], *, env: Mapping[str, str], output: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a command of somebody else in a process group that ends with this process.

    The command may start further processes; they end too, whatever signal ends this one.
    """
    return subprocess.Popen(
        [sys.executable, "-c", GUARD, *command],
        env=dict(env),
        stdin=subprocess.PIPE,  # held open by this process alone
        stdout=output,
        stderr=output,
        start_new_session=True,  # Ctrl-C reaches us alone, and we end the whole group
    )


# -------------------------------------------------------------------------------------------- pools


def ready(children: Collection[Child], seconds: float | None = None) -> list[Child]:
    """The children that have sent a message or died; waits for the first, at most `seconds`."""
    channels = wait([child.channel for child in children], seconds)
    return [child for child in children if child.channel in channels]


@contextmanager
def stopped_at_end(children: Collection[Child]) -> Iterator[None]:
    """Stop the children that are in the collection when the block ends, however it ends."""
    try:
        yield
    finally:
        for child in children:
            child.stop()
