"""Signals while a program runs: noted and handed on, never deadly to us, so that an undo can finish."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from scripts.system.signal_sets import blocked, ending, faults, stopping, usual

if sys.platform == "win32":
    from scripts.system.console_windows import hold_closing


class Interruptions:
    """While open, no signal that can be caught ends us: each is noted and given to ``target``.

    A signal that would stop us (Ctrl-Z) stops the program first, through ``pause``; when we are continued, so
    is the program, through ``resume``. A handler is installed instead of "ignore", because an ignored signal
    stays ignored in the child. Signals that were ignored already (``nohup``) stay so, for us and for the
    child. Outside the main thread signals cannot be handled and this does nothing.
    """

    def __init__(self) -> None:
        """Note nothing yet; ``target``, ``pause`` and ``resume`` are set while a program runs."""
        self.received: list[int] = []
        self.target: Callable[[int], None] | None = None
        self.pause: Callable[[int], None] | None = None
        self.resume: Callable[[], None] | None = None
        self.paused = 0.0
        self._previous: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._mask: set[int] | None = None
        self._release: Callable[[], None] = _nothing

    def __enter__(self) -> Self:
        """Take over the signals."""
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in sorted(ending() | faults()):
            handler = signal.getsignal(number)
            if handler == signal.SIG_DFL or (number in usual() and handler not in {signal.SIG_IGN, None}):
                self._previous[number] = signal.signal(number, self._note)
        for number in stopping():
            if signal.getsignal(number) == signal.SIG_DFL:
                self._previous[number] = signal.signal(number, self._stop)
        if sys.platform == "win32":
            self._release = hold_closing(lambda: self._note(signal.SIGBREAK, None))
        else:
            self._mask = {int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, blocked())}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        self.look()
        if sys.platform != "win32" and self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        self._release()

    def forward_to(
        self,
        target: Callable[[int], None] | None,
        *,
        pause: Callable[[int], None] | None = None,
        resume: Callable[[], None] | None = None,
    ) -> None:
        """Set who is told from now on; ``None`` for no program."""
        self.target, self.pause, self.resume = target, pause, resume

    def look(self) -> None:
        """Take the signals that wait because they are blocked; those of our own failed writes are dropped."""
        if sys.platform != "linux" or self._mask is None:
            return
        while (found := signal.sigtimedwait(blocked() - self._mask, 0)) is not None:
            if found.si_pid != os.getpid():
                self._note(found.si_signo, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Write the signal down and pass it on."""
        del frame
        self.received.append(number)
        if self.target is not None:
            self.target(number)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Stop the program and then ourselves; when continued, continue it, and do not count the pause."""
        del frame
        if sys.platform == "win32":
            return
        if self.pause is not None:
            self.pause(number)
        start = time.monotonic()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.paused += time.monotonic() - start
        if self.resume is not None:
            self.resume()


def _nothing() -> None:
    """Release nothing."""
