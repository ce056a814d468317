"""Message boxes of an unattended run: found by their window, read, closed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import wintypes
from typing import Final

from scripts.osal import winapi
from scripts.osal.process_result import Dialog

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
