"""Which signals end a process, stop it, or show a fault of its own: by what the system does by default.

Source: signal(7) of the Linux manual pages.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

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
