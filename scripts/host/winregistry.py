"""The registry of the Windows this runs on."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import winreg


class WinRegistry:
    r"""Reads ``HKEY_LOCAL_MACHINE``, or the keys below another place that look like it.

    Args:
        below: empty, or a key of ``HKEY_CURRENT_USER`` that holds a recorded ``SYSTEM\…``.
    """

    def __init__(self, below: str = "") -> None:
        """Open nothing yet."""
        self._below = below

    if sys.platform == "win32":

        def keys(self, path: str) -> tuple[str, ...]:
            """Return the names of a key's sub-keys; empty where it cannot be read."""
            try:
                with self._open(path) as key:
                    return tuple(winreg.EnumKey(key, index) for index in range(winreg.QueryInfoKey(key)[0]))
            except OSError:
                return ()

        def values(self, path: str) -> dict[str, object] | None:
            """Return a key's values, or ``None`` where it cannot be read."""
            try:
                with self._open(path) as key:
                    count = winreg.QueryInfoKey(key)[1]
                    return {name: data for name, data, _ in (winreg.EnumValue(key, i) for i in range(count))}
            except OSError:
                return None

        def _open(self, path: str) -> winreg.HKEYType:
            """Open a key for reading, in the 64-bit view whatever Python this is."""
            root = winreg.HKEY_CURRENT_USER if self._below else winreg.HKEY_LOCAL_MACHINE
            full = rf"{self._below}\{path}" if self._below else path
            return winreg.OpenKey(root, full, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY)

    else:

        def keys(self, path: str) -> tuple[str, ...]:
            """Return nothing: this system has no registry."""
            del path
            return ()

        def values(self, path: str) -> dict[str, object] | None:
            """Return nothing: this system has no registry."""
            del path
            return None
