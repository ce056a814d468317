"""Signals around work that must be finished: noted while it runs, obeyed afterwards."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

from scripts.osal.signal_sets import blocked, ending, faults, stopping, usual

#: Windows ends a process about 5 s after its console was closed; the handler may use that time.
CLOSE_GRACE: Final = 4.5
_CLOSING: Final = frozenset({2, 5, 6})


class DeferredSignals:
    """While open, a signal either stops the work once (``up`` false) or is only noted (``up`` true).

    Raised is ``KeyboardInterrupt`` for Ctrl-C and ``SystemExit(128 + n)`` for the others, at most
    once: after the first one the shield is up, so that clean-up code cannot be interrupted by a
    second Ctrl-C. On leaving, what was noted while the shield was up is obeyed. Outside the main
    thread signals cannot be handled, and this does nothing.

    With ``signals=False`` the caller handles signals; only a console that is being closed is held
    open (Windows), as long as the system allows.
    """

    def __init__(self, *, signals: bool = True) -> None:
        """Start with the shield up."""
        self._signals = signals
        self.up = True
        self.noted: int | None = None
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
        self._console = _Console(self)

    def __enter__(self) -> Self:
        """Take over the signals that are not ignored already (``nohup``)."""
        if threading.current_thread() is threading.main_thread():
            for number in sorted(ending()) if self._signals else ():
                handler = signal.getsignal(number)
                taken = number in usual() and handler not in {signal.SIG_IGN, None}
                if taken or handler == signal.SIG_DFL:
                    self._previous[number] = signal.signal(number, self._receive)
            self._console.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back, and obey a noted one unless an error is on its way already."""
        self._console.close()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        if error is None and self.noted is not None:
            _obey(self.noted)

    def lower(self) -> None:
        """Let signals stop the work from here on; one that was noted stops it now."""
        self.up = False
        if self.noted is not None:
            number, self.noted, self.up = self.noted, None, True
            _obey(number)

    def raise_(self) -> None:
        """Only note signals from here on."""
        self.up = True

    def console_told(self, event: int) -> int:
        """What Windows calls when the console closes; public for tests elsewhere."""
        return self._console.told(event)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Note or stop."""
        del frame
        if self.up:
            self.noted = number
            return
        self.up = True
        _obey(number)


def _obey(number: int) -> None:
    """Raise what a signal means."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


class _Console:
    """Windows tells of a closed console, a log-off and a shutdown in a thread of its own, and waits."""

    def __init__(self, shield: DeferredSignals) -> None:
        """Prepare; nothing is installed yet."""
        self._shield = shield
        self._done = threading.Event()
        self._routine: object = None

    def open(self) -> None:
        """Install the handler (Windows only)."""
        if sys.platform == "win32":
            self._routine = ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_uint)(self.told)
            ctypes.windll.kernel32.SetConsoleCtrlHandler(self._routine, 1)

    def close(self) -> None:
        """Say that the work is finished, and remove the handler."""
        self._done.set()
        if sys.platform == "win32" and self._routine is not None:
            ctypes.windll.kernel32.SetConsoleCtrlHandler(self._routine, 0)
            self._routine = None

    def told(self, event: int) -> int:
        """Pass the event to the main thread as a signal, and hold the system until the work is done."""
        if event not in _CLOSING:
            return 0
        if not self._shield.up:
            signal.raise_signal(getattr(signal, "SIGBREAK", signal.SIGTERM))
        self._done.wait(CLOSE_GRACE)
        return 1


if sys.platform == "win32":
    from scripts.osal.console_windows import hold_closing


class ForwardedSignals:
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
        """Set who receives signals from now on; ``None`` for no program."""
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
