"""Process trees on Windows: a Job object, joined before the program's first instruction; its message boxes.

Everything the program starts belongs to the job too and cannot leave it, so that a launcher which starts the
real program and exits is waited for. A program that shares our console stays in our process group: a
new group would switch Ctrl-C off in it.
"""

from __future__ import annotations

import ctypes
import msvcrt
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from ctypes import wintypes
from typing import Final

from scripts.errors import LaunchError
from scripts.osal import winapi
from scripts.osal.fs import long_path
from scripts.osal.processes import Command, Dialog

assert sys.platform == "win32"  # noqa: S101 - tells mypy which half this is

#: The window class of message boxes and task dialogs.
DIALOG_CLASS: Final = "#32770"
#: Milliseconds that a window may take to say its text, and characters of it that are kept.
PATIENCE: Final = 200
TEXT: Final = 2048


def close_dialogs(members: frozenset[int], seen: set[int]) -> tuple[Dialog, ...]:
    """Ask every message box of the given processes to close.

    Args:
        members: process ids.
        seen: window handles met before; they are asked again but not reported again. Updated.

    Returns:
        The boxes that are new, with their title and the text of their parts. A task dialog draws its
        text itself and gives the title only.
    """
    found = []
    for window in _windows(winapi.user32.EnumWindows):
        if (
            _class(window) != DIALOG_CLASS
            or _owner(window) not in members
            or not winapi.user32.IsWindowVisible(window)
        ):
            continue
        if window not in seen:
            seen.add(window)
            found.append(Dialog(title=_text(window), text=_parts(window)))
        winapi.user32.PostMessageW(window, winapi.WM_CLOSE, 0, 0)
    return tuple(found)


def _windows(enumerate_all: Callable[..., int], *parent: int) -> list[int]:
    """Collect the handles that one of the Enum functions goes through."""
    found: list[int] = []

    def note(window: int, _extra: int) -> bool:
        found.append(window)
        return True

    enumerate_all(*parent, winapi.WindowCallback(note), 0)
    return found


def _class(window: int) -> str:
    buffer = ctypes.create_unicode_buffer(TEXT)
    winapi.user32.GetClassNameW(window, buffer, TEXT)
    return buffer.value


def _owner(window: int) -> int:
    pid = wintypes.DWORD()
    winapi.user32.GetWindowThreadProcessId(window, ctypes.byref(pid))
    return pid.value


def _text(window: int) -> str:
    """Ask a window of another process for its text, without waiting for one that hangs."""
    buffer = ctypes.create_unicode_buffer(TEXT)
    done = ctypes.c_size_t()
    flags = winapi.SMTO_ABORTIFHUNG
    winapi.user32.SendMessageTimeoutW(
        window, winapi.WM_GETTEXT, TEXT, buffer, flags, PATIENCE, ctypes.byref(done)
    )
    return buffer.value


def _parts(window: int) -> str:
    """Return the text of a box's labels, a line each."""
    labels = [w for w in _windows(winapi.user32.EnumChildWindows, window) if _class(w) == "Static"]
    return "\n".join(text for text in map(_text, labels) if text)


#: Milliseconds of one wait: Python's signal handlers run in between.
SLICE: Final = 100
#: Seconds between two looks at the job when the first process has ended.
TICK: Final = 0.05
#: The most processes of one job that are looked through for message boxes.
LISTED: Final = 4096
#: Exit code of what we end.
KILLED: Final = 1

#: Handles are inheritable for the moment of one start only, so that no other child gets them.
_starting = threading.Lock()

#: Windows' error number of a failed start: reference, sentence, hint.
START_ERRORS: Final[dict[int, tuple[str, str, str]]] = {
    2: ("program-not-found", "does not exist", "check the path"),
    3: ("program-not-found", "does not exist", "check the path"),
    5: (
        "program-not-executable",
        "may not be started by this user",
        "a Store app cannot be started this way: use its desktop version",
    ),
    193: ("program-format", "is not a program for Windows", "name the .exe that does the work"),
    206: (
        "arguments-too-long",
        "has a path or a command line that is too long",
        "move it to a shorter folder",
    ),
    216: ("program-format", "is made for another kind of processor", "look for its 64-bit version"),
    225: (
        "program-quarantined",
        "was stopped by the antivirus program",
        "see what it reports about the file",
    ),
    226: (
        "program-quarantined",
        "was removed by the antivirus program",
        "see what it reports about the file",
    ),
    267: (
        "folder-not-found",
        "cannot start in that folder: it does not exist, or its path is too long",
        "check --cwd",
    ),
    740: (
        "elevation-required",
        "asks for administrator rights, which this workspace never does",
        "look for a way to run it as a normal user; its installer may be what asks",
    ),
    1260: ("program-blocked", "is blocked by a policy of this machine", "ask whoever set this machine up"),
    1392: ("program-damaged", "is damaged", "install it again"),
    4551: ("program-blocked", "is blocked by Smart App Control", "ask its makers for a signed version"),
}


class WindowsTree:
    """One started program and everything it starts."""

    def __init__(
        self,
        command: Command,
        *,
        session: bool,
        unattended: bool = False,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start the program in our console, or (``session``, for checks) without one and ended with us.

        ``unattended``: Windows shows no boxes for crashes and missing files. ``stdin`` and the others are
        descriptors for the child; ``None`` inherits ours.

        Raises:
            LaunchError: it cannot be started; the reference says why.
        """
        self._seen: set[int] = set()
        self._job = winapi.check(winapi.kernel32.CreateJobObjectW(None, None))
        self._process = 0
        try:
            if session:
                limits = winapi.JobLimits(flags=winapi.JOB_KILL_ON_CLOSE)
                size = ctypes.sizeof(limits)
                winapi.check(
                    winapi.kernel32.SetInformationJobObject(
                        self._job, winapi.JOB_EXTENDED_LIMITS, ctypes.byref(limits), size
                    )
                )
            streams = (stdin, stdout, stderr)
            info = _create(command, streams, session=session, quiet=session or unattended)
            self._process, self.pid = info.process, info.pid
            self._join(info.thread)
        except OSError as error:
            self.close()
            raise start_error(command, error) from error

    def _join(self, thread: int) -> None:
        """Put the suspended program into the job and let it run."""
        try:
            winapi.check(winapi.kernel32.AssignProcessToJobObject(self._job, self._process))
        except OSError:
            winapi.kernel32.TerminateProcess(self._process, KILLED)
            raise
        finally:
            winapi.kernel32.ResumeThread(thread)
            winapi.kernel32.CloseHandle(thread)

    def code(self) -> int | None:
        """Return the first process's exit code as a signed number, or ``None``."""
        if winapi.kernel32.WaitForSingleObject(self._process, 0) == winapi.STILL_RUNNING:
            return None
        code = ctypes.c_int32()
        winapi.check(winapi.kernel32.GetExitCodeProcess(self._process, ctypes.byref(code)))
        return code.value

    def wait(self, seconds: float, *, whole: bool) -> bool:
        """Wait for the first process or the whole job; say whether it is gone."""
        deadline = time.monotonic() + seconds
        while True:
            running = self.code() is None
            if not running and not (whole and self._accounting().active):
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if running:
                winapi.kernel32.WaitForSingleObject(self._process, min(SLICE, int(left * 1000) + 1))
            else:
                time.sleep(min(TICK, left))

    def forward(self, signum: int) -> None:
        """Do nothing: the console tells every process of ours by itself."""
        del signum

    def pause(self, signum: int) -> None:
        """Do nothing: Windows has no such signals."""
        del signum

    def resume(self) -> None:
        """Do nothing, as above."""

    def mapped(self, wanted: Callable[[str], bool]) -> frozenset[str]:
        """Return the wanted modules that its processes have loaded."""
        return frozenset(path for pid in self._members() for path in winapi.modules_of(pid, wanted))

    def terminate(self) -> bool:
        """Say that no process was asked: Windows has no way that every program understands."""
        return False

    def kill(self) -> int:
        """End every process of the job; return how many there were."""
        count: int = self._accounting().active
        while self._accounting().active:
            winapi.kernel32.TerminateJobObject(self._job, KILLED)
            time.sleep(TICK)
        return count

    def close_dialogs(self) -> tuple[Dialog, ...]:
        """Close message boxes of the job's processes; each is reported once."""
        return close_dialogs(self._members(), self._seen)

    def processes(self) -> int | None:
        """Return how many processes the job has had."""
        total: int = self._accounting().total
        return total

    def close(self) -> None:
        """Close our handles; a job for a check ends with the last one."""
        for handle in (self._process, self._job):
            if handle:
                winapi.kernel32.CloseHandle(handle)
        self._process = self._job = 0

    def _accounting(self) -> winapi.JobAccounting:
        data = winapi.JobAccounting()
        size = ctypes.sizeof(data)
        winapi.check(
            winapi.kernel32.QueryInformationJobObject(
                self._job, winapi.JOB_BASIC_ACCOUNTING, ctypes.byref(data), size, None
            )
        )
        return data

    def _members(self) -> frozenset[int]:
        data = (ctypes.c_size_t * (LISTED + 1))()  # two counts of 32 bits, then the ids
        size = ctypes.sizeof(data)
        winapi.kernel32.QueryInformationJobObject(self._job, winapi.JOB_PROCESS_LIST, data, size, None)
        return frozenset(data[1 : 1 + (data[0] >> 32)])


def start_error(command: Command, error: OSError) -> LaunchError:
    """Say why a program could not be started."""
    number = getattr(error, "winerror", 0) or 0
    fallback = ("program-not-started", "could not be started", "the context has Windows' words")
    reference, sentence, hint = START_ERRORS.get(number, fallback)
    if reference == "program-not-found" and long_path(command.program).is_file():
        reference = "program-not-started"
        sentence = "could not be started, although it is there: its full path may be too long for this system"
        hint = "move it to a shorter folder"
    return LaunchError(reference, f"{command.program} {sentence}", context=(str(error),), hint=hint)


def environment_block(env: Mapping[str, str]) -> str:
    """Return an environment as Windows wants it: sorted by name, each entry and the whole ended by NUL."""
    pairs = sorted(env.items(), key=lambda pair: pair[0].upper())
    return "".join(f"{name}={value}\0" for name, value in pairs) + "\0"


def _create(
    command: Command, streams: tuple[int | None, ...], *, session: bool, quiet: bool
) -> winapi.ProcessInformation:
    """Create the process, suspended."""
    flags = winapi.CREATE_SUSPENDED | winapi.CREATE_UNICODE_ENVIRONMENT
    if session:
        flags |= winapi.CREATE_NEW_PROCESS_GROUP | winapi.CREATE_NO_WINDOW
    line = command.line or subprocess.list2cmdline([str(command.program), *command.args])
    block = ctypes.create_unicode_buffer(environment_block(command.env)) if command.env else None
    startup = winapi.StartupInfo(cb=ctypes.sizeof(winapi.StartupInfo))
    info = winapi.ProcessInformation()
    with _starting:
        lent = _lend(startup, streams)
        mode = winapi.kernel32.SetErrorMode(winapi.QUIET_ERRORS) if quiet else None
        try:
            winapi.check(
                winapi.kernel32.CreateProcessW(
                    str(command.program),
                    ctypes.create_unicode_buffer(line),
                    None,
                    None,
                    True,  # noqa: FBT003 - the call has no names
                    flags,
                    block,
                    None if command.cwd is None else str(command.cwd),
                    ctypes.byref(startup),
                    ctypes.byref(info),
                )
            )
        finally:
            if mode is not None:
                winapi.kernel32.SetErrorMode(mode)
            for fd in lent:
                os.set_inheritable(fd, False)  # noqa: FBT003 - the call has no names
    return info


def _lend(startup: winapi.StartupInfo, streams: tuple[int | None, ...]) -> list[int]:
    """Name the child's three handles if any is ours to give; return what must be taken back."""
    lent = [fd for fd in streams if fd is not None]
    if not lent:
        return []
    for fd in lent:
        os.set_inheritable(fd, True)  # noqa: FBT003 - the call has no names
    handles = [
        winapi.kernel32.GetStdHandle(ctypes.c_uint32(-10 - number).value)
        if fd is None
        else msvcrt.get_osfhandle(fd)
        for number, fd in enumerate(streams)
    ]
    startup.flags = winapi.STARTF_USESTDHANDLES
    startup.stdin, startup.stdout, startup.stderr = handles
    return lent
