"""Signals while a program runs: noted and handed on, never deadly to us, so that an undo can finish."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Self

if sys.platform == "win32":
    from scripts.system.console_windows import hold_closing

#: What a terminal, a supervisor or a closed console sends; names that a platform lacks are left out.
WATCHED: Final = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Interruptions:
    """While open, the watched signals end nothing here: each is noted and given to ``target``.

    A handler is installed instead of "ignore", because an ignored signal stays ignored in the child.
    Signals that were ignored already (``nohup``) stay so, for us and for the child. Outside the main
    thread signals cannot be handled and this does nothing.
    """

    def __init__(self) -> None:
        """Note nothing yet; ``target`` is set while there is somebody to tell."""
        self.received: list[int] = []
        self.target: Callable[[int], None] | None = None
        self._previous: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._release: Callable[[], None] = _nothing

    def __enter__(self) -> Self:
        """Take over the signals."""
        if threading.current_thread() is not threading.main_thread():
            return self
        for name in WATCHED:
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) in {signal.SIG_IGN, None}:
                continue
            self._previous[number] = signal.signal(number, self._note)
        if sys.platform == "win32":
            self._release = hold_closing(lambda: self._note(signal.SIGBREAK, None))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        self._release()

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Write the signal down and pass it on."""
        del frame
        self.received.append(number)
        if self.target is not None:
            self.target(number)


def _nothing() -> None:
    """Release nothing."""
