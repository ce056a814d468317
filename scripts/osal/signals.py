"""Signals: which end a process, which are passed on, and how they are noted while work must be finished.

Source: signal(7) of the Linux manual pages.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from types import FrameType, TracebackType
from typing import Any, Final, Self

#: What a terminal, a supervisor or a closed console sends; a handler that is set already is replaced.
USUAL: Final = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGBREAK")
#: What stops a process until SIGCONT, and can be caught.
_STOPPING: Final = ("SIGTSTP", "SIGTTIN", "SIGTTOU")
_HARMLESS: Final = ("SIGCHLD", "SIGCLD", "SIGCONT", "SIGURG", "SIGWINCH", "SIGINFO")
_UNCATCHABLE: Final = ("SIGKILL", "SIGSTOP")
#: Raised by a faulty instruction: returning from a handler would only meet it again. A blocked one still
#: ends a process that is at fault, and waits where another process has sent it.
_FAULTS: Final = ("SIGILL", "SIGTRAP", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS")
#: What the interpreter ignores, because a write then fails with an error instead.
_FAILED_WRITES: Final = ("SIGPIPE", "SIGXFSZ")


def _numbers(names: tuple[str, ...]) -> frozenset[int]:
    """Return those that this platform has."""
    return frozenset(int(getattr(signal, name)) for name in names if hasattr(signal, name))


@cache
def usual() -> frozenset[int]:
    """Return the signals by which programs are usually ended."""
    return _numbers(USUAL)


@cache
def stopping() -> frozenset[int]:
    """Return the signals that stop a process and can be caught."""
    return _numbers(_STOPPING)


@cache
def faults() -> frozenset[int]:
    """Return the signals that show a fault of the process that gets them."""
    return _numbers(_FAULTS) if sys.platform != "win32" else frozenset()


@cache
def blocked() -> frozenset[int]:
    """Return the signals that end a process and cannot simply be handled: they have to be waited for."""
    return faults() | _numbers(_FAILED_WRITES) if sys.platform != "win32" else frozenset()


@cache
def ending() -> frozenset[int]:
    """Return the signals whose default ends a process and that can be handled like any other."""
    if sys.platform == "win32":
        return usual()
    every = frozenset(int(number) for number in signal.valid_signals())
    return every - _numbers(_HARMLESS) - _numbers(_UNCATCHABLE) - stopping() - blocked()


@contextlib.contextmanager
def unblocked() -> Iterator[None]:
    """Start a program in here: it inherits what is blocked, and must get every signal."""
    if sys.platform == "win32" or not blocked():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


#: Windows ends a process about 5 s after its console was closed; the handler may use that time.
CLOSE_GRACE: Final = 4.5
#: Longer than that: the main thread finishes an undo and ends the process itself.
HOLD: Final = 30.0
#: CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT.
_CLOSING: Final = frozenset({2, 5, 6})


class _Console:
    """One handler for a console that Windows closes, for a log-off and for a shutdown.

    Windows runs it in a thread of its own, and ends this process when it returns, or after about five
    seconds. Of those that have something to finish the outermost decides, and holds the system meanwhile.
    """

    def __init__(self) -> None:
        """Nothing is installed yet."""
        self._open: list[tuple[Callable[[], None], Callable[[], object]]] = []
        self._routine: object = None  # kept: Windows may be running it while it is removed

    def open(self, note: Callable[[], None], hold: Callable[[], object]) -> Callable[[], None]:
        """From now on call ``note`` and then ``hold`` when the console closes; return what ends that."""
        entry = (note, hold)
        self._open.append(entry)
        if len(self._open) == 1:
            self._install(1)

        def close() -> None:
            self._open.remove(entry)
            if not self._open:
                self._install(0)

        return close

    def _install(self, add: int) -> None:
        if sys.platform == "win32":
            import ctypes  # noqa: PLC0415 - Windows alone has such a handler

            self._routine = self._routine or ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_uint)(self.closes)
            ctypes.windll.kernel32.SetConsoleCtrlHandler(self._routine, add)

    def closes(self, event: int) -> int:
        """Handle an event; 0 leaves it to the next handler, as with Ctrl-C."""
        if event not in _CLOSING or not self._open:
            return 0
        note, hold = self._open[0]
        note()
        hold()
        return 1


_CONSOLE: Final = _Console()


def console_closes(event: int) -> int:
    """Do what Windows calls when the console closes; public for tests elsewhere."""
    return _CONSOLE.closes(event)


class EndedBySignal(SystemExit):
    """A signal other than Ctrl-C ends the work; the exit code is the one that a shell gives for it."""

    def __init__(self, number: int) -> None:
        """Keep the signal's number."""
        super().__init__(128 + number)
        self.number = number

    @property
    def name(self) -> str:
        """The signal's name."""
        return signal.Signals(self.number).name


class DeferredSignals:
    """While open, a signal either stops the work once (``up`` false) or is only noted (``up`` true).

    Raised is ``KeyboardInterrupt`` for Ctrl-C and ``EndedBySignal`` for the others, at most
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
        self._done = threading.Event()
        self._release: Callable[[], None] = _nothing

    def __enter__(self) -> Self:
        """Take over the signals that are not ignored already (``nohup``)."""
        if threading.current_thread() is threading.main_thread():
            for number in sorted(ending()) if self._signals else ():
                handler = signal.getsignal(number)
                taken = number in usual() and handler not in {signal.SIG_IGN, None}
                if taken or handler == signal.SIG_DFL:
                    self._previous[number] = signal.signal(number, self._receive)
            self._release = _CONSOLE.open(self._closing, lambda: self._done.wait(CLOSE_GRACE))
        return self

    @property
    def taken(self) -> frozenset[int]:
        """The signals that are answered while this is open."""
        return frozenset(self._previous)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back, and obey a noted one unless an error is on its way already."""
        self._done.set()
        self._release()
        self._release = _nothing
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        if error is None and self.noted is not None:
            obey(self.noted)

    def lower(self) -> None:
        """Let signals stop the work from here on; one that was noted stops it now."""
        self.up = False
        if self.noted is not None:
            number, self.noted, self.up = self.noted, None, True
            obey(number)

    def raise_(self) -> None:
        """Only note signals from here on."""
        self.up = True

    def _closing(self) -> None:
        """Stop the work, if it may be stopped, in the main thread."""
        if not self.up:
            signal.raise_signal(getattr(signal, "SIGBREAK", signal.SIGTERM))

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Note or stop."""
        del frame
        if self.up:
            self.noted = number
            return
        self.up = True
        obey(number)


def obey(number: int) -> None:
    """Raise what a signal means."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise EndedBySignal(number)


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
        self._waiting: list[int] = []
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
        closing = getattr(signal, "SIGBREAK", signal.SIGTERM)
        self._release = _CONSOLE.open(lambda: self._note(closing, None), lambda: time.sleep(HOLD))
        if sys.platform != "win32":
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
        self._release = _nothing

    @property
    def taken(self) -> frozenset[int]:
        """The signals that do not end us while this is open, and end the program."""
        return frozenset(self._previous) - stopping() | (blocked() if self._mask is not None else frozenset())

    def forward_to(
        self,
        target: Callable[[int], None] | None,
        *,
        pause: Callable[[int], None] | None = None,
        resume: Callable[[], None] | None = None,
    ) -> None:
        """Set who receives signals from now on, and those that came too early; ``None`` for no program."""
        self.target, self.pause, self.resume = target, pause, resume
        while target is not None and self._waiting:
            target(self._waiting.pop(0))

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
        if self.target is None:
            self._waiting.append(number)
        else:
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
