"""What can go wrong, in four kinds.

Every message is one line: `subject: what is wrong; what was expected; what to do`.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

LIBRARIES = {"gsnobench", "torch", "numpy", "scipy", "safetensors"}  # called by plugins


class GsnobenchError(Exception):
    """A mistake that the user can correct: the command line prints one line and exits with 2."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: in a notebook a mistake is one line too."""
        return [f"{type(self).__name__}: {self}"]


class PluginError(GsnobenchError):
    """A plugin is missing, broken, misnamed or written for another API version."""


class ParamError(GsnobenchError):
    """A knob has an unknown name or a value outside its range."""


class DataError(GsnobenchError):
    """A file or an array does not hold what it should."""


class RunError(GsnobenchError):
    """A run cannot be started or resumed, or there is no such run."""


class Prune(Exception):
    """Raised by an observer to end a run early; the result has the status `pruned`."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a training, after its state was written; the message says from where."""


def describe_error(error: BaseException) -> str:
    """An exception in one line, with the file and line of the plugin's own code that raised it."""
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [(frame, line) for frame, line in frames if _package(frame) not in LIBRARIES]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    for frame, line in (own or frames)[-1:]:
        return f"{text} ({Path(frame.f_code.co_filename).name}:{line})"
    return text


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, then all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known: {', '.join(names) or 'none'}"
