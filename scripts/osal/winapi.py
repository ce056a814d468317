"""The parts of Windows' interface that ``process_windows`` calls, declared once.

Sizes and layouts are Microsoft's documented ones (``winbase.h``, ``winnt.h``, ``winuser.h``).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from ctypes.wintypes import BOOL, DWORD, HANDLE, HWND, LPARAM, LPCWSTR, LPWSTR, UINT, WORD, WPARAM
from typing import Any, ClassVar, Final

assert sys.platform == "win32"  # noqa: S101 - tells mypy which half this is

CREATE_SUSPENDED: Final = 0x4
CREATE_NEW_PROCESS_GROUP: Final = 0x200
CREATE_UNICODE_ENVIRONMENT: Final = 0x400
CREATE_NO_WINDOW: Final = 0x0800_0000
STARTF_USESTDHANDLES: Final = 0x100
STILL_RUNNING: Final = 0x102  # WAIT_TIMEOUT
JOB_BASIC_ACCOUNTING: Final = 1
JOB_PROCESS_LIST: Final = 3
JOB_EXTENDED_LIMITS: Final = 9
JOB_KILL_ON_CLOSE: Final = 0x2000
PROCESS_QUERY_AND_READ: Final = 0x410
#: PROCESS_QUERY_LIMITED_INFORMATION and SYNCHRONIZE.
PROCESS_ASK_AND_WAIT: Final = 0x10_1000
ACCESS_DENIED: Final = 5
#: LIST_MODULES_ALL: of 32- and 64-bit programs.
MODULES_OF_BOTH_KINDS: Final = 3
MODULES_LISTED: Final = 2048
#: The longest path that Windows has, in UTF-16 units.
PATH_UNITS: Final = 32_768
#: No box for a missing disk, a crash, or a file that cannot be opened.
QUIET_ERRORS: Final = 0x8003
WM_GETTEXT: Final = 0x0D
WM_CLOSE: Final = 0x10
SMTO_ABORTIFHUNG: Final = 0x2


class StartupInfo(ctypes.Structure):
    """STARTUPINFOW."""

    _fields_: ClassVar[Sequence[Any]] = (
        ("cb", DWORD),
        ("reserved", LPWSTR),
        ("desktop", LPWSTR),
        ("title", LPWSTR),
        *((name, DWORD) for name in ("x", "y", "xs", "ys", "xc", "yc", "fill", "flags")),
        ("show", WORD),
        ("reserved2", WORD),
        ("reserved3", ctypes.c_void_p),
        ("stdin", HANDLE),
        ("stdout", HANDLE),
        ("stderr", HANDLE),
    )


class ProcessInformation(ctypes.Structure):
    """PROCESS_INFORMATION."""

    _fields_: ClassVar[Sequence[Any]] = (
        ("process", HANDLE),
        ("thread", HANDLE),
        ("pid", DWORD),
        ("tid", DWORD),
    )


class JobAccounting(ctypes.Structure):
    """JOBOBJECT_BASIC_ACCOUNTING_INFORMATION."""

    _fields_: ClassVar[Sequence[Any]] = (
        *((name, ctypes.c_int64) for name in ("user", "kernel", "period_user", "period_kernel")),
        ("faults", DWORD),
        ("total", DWORD),
        ("active", DWORD),
        ("terminated", DWORD),
    )


class JobLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_: ClassVar[Sequence[Any]] = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", DWORD),
        ("min_set", ctypes.c_size_t),
        ("max_set", ctypes.c_size_t),
        ("processes", DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority", DWORD),
        ("scheduling", DWORD),
        ("io", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


kernel32: Final = ctypes.WinDLL("kernel32", use_last_error=True)
user32: Final = ctypes.WinDLL("user32", use_last_error=True)

_POINTER: Final = ctypes.c_void_p
_SIGNATURES: Final = (
    (kernel32.CreateJobObjectW, HANDLE, (_POINTER, LPCWSTR)),
    (kernel32.SetInformationJobObject, BOOL, (HANDLE, ctypes.c_int, _POINTER, DWORD)),
    (kernel32.QueryInformationJobObject, BOOL, (HANDLE, ctypes.c_int, _POINTER, DWORD, _POINTER)),
    (kernel32.AssignProcessToJobObject, BOOL, (HANDLE, HANDLE)),
    (kernel32.TerminateJobObject, BOOL, (HANDLE, UINT)),
    (kernel32.TerminateProcess, BOOL, (HANDLE, UINT)),
    (kernel32.ResumeThread, DWORD, (HANDLE,)),
    (kernel32.WaitForSingleObject, DWORD, (HANDLE, DWORD)),
    (kernel32.GetExitCodeProcess, BOOL, (HANDLE, _POINTER)),
    (kernel32.CloseHandle, BOOL, (HANDLE,)),
    (kernel32.OpenProcess, HANDLE, (DWORD, BOOL, DWORD)),
    (kernel32.K32EnumProcessModulesEx, BOOL, (HANDLE, _POINTER, DWORD, _POINTER, DWORD)),
    (kernel32.K32GetModuleFileNameExW, DWORD, (HANDLE, ctypes.c_void_p, LPWSTR, DWORD)),
    (kernel32.GetProcessTimes, BOOL, (HANDLE, *[_POINTER] * 4)),
    (kernel32.GetStdHandle, HANDLE, (DWORD,)),
    (kernel32.SetErrorMode, UINT, (UINT,)),
    (
        kernel32.CreateProcessW,
        BOOL,
        (LPCWSTR, LPWSTR, _POINTER, _POINTER, BOOL, DWORD, _POINTER, LPCWSTR, _POINTER, _POINTER),
    ),
    (user32.GetClassNameW, ctypes.c_int, (HWND, LPWSTR, ctypes.c_int)),
    (user32.GetWindowThreadProcessId, DWORD, (HWND, _POINTER)),
    (user32.IsWindowVisible, BOOL, (HWND,)),
    (user32.PostMessageW, BOOL, (HWND, UINT, WPARAM, LPARAM)),
    (user32.SendMessageTimeoutW, LPARAM, (HWND, UINT, WPARAM, _POINTER, UINT, UINT, _POINTER)),
)
for _function, _result, _arguments in _SIGNATURES:
    _function.restype = _result
    _function.argtypes = _arguments

#: The callback of EnumWindows and EnumChildWindows.
WindowCallback: Final = ctypes.WINFUNCTYPE(BOOL, HWND, LPARAM)
user32.EnumWindows.argtypes = (WindowCallback, LPARAM)
user32.EnumChildWindows.argtypes = (HWND, WindowCallback, LPARAM)


def check(result: int) -> int:
    """Return a call's result, or raise ``OSError`` with what Windows says about its failure."""
    if not result:
        raise ctypes.WinError(ctypes.get_last_error())
    return result


def creation_time(pid: int) -> int | None:
    """Return when a running process was made, in steps of 100 ns; ``None`` if it has ended.

    Raises:
        PermissionError: there is one, and this user may not ask about it.
    """
    process = kernel32.OpenProcess(PROCESS_ASK_AND_WAIT, 0, pid)
    if not process:
        if ctypes.get_last_error() == ACCESS_DENIED:
            raise ctypes.WinError(ACCESS_DENIED)
        return None
    try:
        if kernel32.WaitForSingleObject(process, 0) != STILL_RUNNING:
            return None  # another program's handle keeps the number
        made, other = ctypes.c_uint64(), ctypes.c_uint64()
        rest = [ctypes.byref(other)] * 3
        check(kernel32.GetProcessTimes(process, ctypes.byref(made), *rest))
        return made.value
    finally:
        kernel32.CloseHandle(process)


def modules_of(pid: int, wanted: Callable[[str], bool]) -> list[str]:
    """Return the paths of a process's modules with ``wanted`` names; none where it cannot be asked."""
    process = kernel32.OpenProcess(PROCESS_QUERY_AND_READ, 0, pid)
    if not process:
        return []
    try:
        handles = (ctypes.c_void_p * MODULES_LISTED)()
        size, needed = ctypes.sizeof(handles), DWORD()
        listed = kernel32.K32EnumProcessModulesEx(
            process, handles, size, ctypes.byref(needed), MODULES_OF_BOTH_KINDS
        )
        count = min(needed.value // ctypes.sizeof(ctypes.c_void_p), MODULES_LISTED) if listed else 0
        text = ctypes.create_unicode_buffer(PATH_UNITS)
        found = []
        for number in range(count):
            if kernel32.K32GetModuleFileNameExW(process, handles[number], text, PATH_UNITS):
                path = text.value
                if wanted(path.rpartition("\\")[2]):
                    found.append(path)
        return found
    finally:
        kernel32.CloseHandle(process)
