"""A closed console on Windows: time is taken for what must be finished."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from ctypes import wintypes
from typing import Final

from scripts.osal import winapi

assert sys.platform == "win32"  # noqa: S101 - tells mypy which half this is

#: CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT.
CLOSING: Final = frozenset({2, 5, 6})
#: Seconds to hold; Windows itself ends the process after about five.
HOLD: Final = 30.0

_Handler: Final = ctypes.WINFUNCTYPE(wintypes.BOOL, wintypes.DWORD)


def hold_closing(note: Callable[[], None]) -> Callable[[], None]:
    """From now on, when the console closes, call ``note`` and wait instead of ending at once.

    Windows ends this process when the handler returns, so it does not: the main thread finishes an undo
    and ends the process itself.

    Returns:
        What puts the default back.
    """

    def handle(event: int) -> bool:
        if event not in CLOSING:
            return False
        note()
        time.sleep(HOLD)
        return True

    handler = _Handler(handle)
    winapi.kernel32.SetConsoleCtrlHandler(handler, True)  # noqa: FBT003 - the call has no names
    return lambda: winapi.kernel32.SetConsoleCtrlHandler(handler, False) and None  # noqa: FBT003 - likewise
