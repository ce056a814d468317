"""What is started, how it ended, and what a tree of processes can be asked; the same on every platform."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

#: Bytes a log may grow to; the program runs on when it is full.
LOG_CAP: Final = 64 * 1024 * 1024


class Command(Struct, frozen=True, kw_only=True):
    """One program to start.

    Attributes:
        program: the file to start, absolute; nothing is searched.
        args: its arguments, without its own name.
        env: the whole environment of the child.
        cwd: the folder it starts in; ``None`` for ours.
        line: Windows only: the exact command line, where ``args`` quoted the usual way will not do.
    """

    program: Path
    args: tuple[str, ...] = ()
    env: Mapping[str, str]
    cwd: Path | None = None
    line: str | None = None


class LogTo(Struct, frozen=True, kw_only=True):
    """Where a copy of the program's output goes, and how large it may grow."""

    path: Path
    cap: int = LOG_CAP


class Dialog(Struct, frozen=True, kw_only=True):
    """A message box of an unattended run: found, written down, closed."""

    title: str
    text: str


class ProcessResult(Struct, frozen=True, kw_only=True):
    """How a program and everything it started ended.

    Attributes:
        code: the exit code; signed 32-bit on Windows, minus the signal's number on POSIX.
        timed_out: killed after the time that --timeout gives.
        seconds: from the start to the end of the last process of the tree.
        received: signals that reached us meanwhile, in order.
        dialogs: message boxes closed in an unattended run.
        processes: how many processes the tree had, where the system counts them.
        log_note: what the log lacks: it reached its cap, or could not be written.
    """

    code: int
    timed_out: bool = False
    seconds: float = 0.0
    received: tuple[int, ...] = ()
    dialogs: tuple[Dialog, ...] = ()
    processes: int | None = None
    log_note: str = ""

    @property
    def signal(self) -> int | None:
        """The signal that ended the program, or ``None``."""
        return -self.code if -signal.NSIG < self.code < 0 else None


class Captured(Struct, frozen=True, kw_only=True):
    """A finished check or probe; after a timeout the output up to then.

    Attributes:
        returncode: as ``Exit.code``.
        stdout: the bytes it wrote, at most ``CAPTURE_CAP``.
        stderr: likewise.
        timed_out: killed after the time that --timeout gives.
        seconds: how long the main process ran.
        leftovers: processes of its own that were still running when it had ended, and were killed.
        dialogs: message boxes that were closed (Windows).
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    seconds: float = 0.0
    leftovers: int = 0
    dialogs: tuple[Dialog, ...] = ()


class ProcessTree(Protocol):
    """A started program and all its descendants."""

    def code(self) -> int | None:
        """Return the first process's exit code, or ``None`` while it runs."""

    def wait(self, seconds: float, *, whole: bool) -> bool:
        """Wait for the first process (or the ``whole`` tree); say whether it is gone."""

    def forward(self, signum: int) -> None:
        """Hand a signal on that reached us instead of the program."""

    def pause(self, signum: int) -> None:
        """Stop every process, because this signal is about to stop us."""

    def resume(self) -> None:
        """Continue every process."""

    def mapped(self, wanted: Callable[[str], bool]) -> frozenset[str]:
        """Return the files of wanted names that its processes have mapped as code now."""

    def terminate(self) -> bool:
        """Ask every process to end; ``False`` where the platform has no way to ask."""

    def kill(self) -> int:
        """End every process; return how many there were."""

    def close_dialogs(self) -> tuple[Dialog, ...]:
        """Close message boxes of the tree and return their texts."""

    def processes(self) -> int | None:
        """Return how many processes the tree has had, or ``None`` where they are not counted."""

    def close(self) -> None:
        """Give back what the operating system lent for watching; ends nothing."""
