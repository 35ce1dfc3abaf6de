"""Ctrl-C during a training: it waits for the end of a step, so that nothing is half-updated."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class CtrlC:
    """Notes the first Ctrl-C inside its block; a second one interrupts at once.

    Only the main thread of a process that heeds Ctrl-C in the usual way is concerned.
    """

    def __init__(self) -> None:
        self.came = False
        is_main = threading.current_thread() is threading.main_thread()
        self.is_ours = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> CtrlC:
        if self.is_ours:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.came and error is None:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
