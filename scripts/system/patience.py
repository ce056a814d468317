"""Two kindnesses that Windows needs: a prefix before long paths, and patience with whoever holds a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

#: Errors that an antivirus program or an indexer causes on Windows by holding a file for a moment.
PASSING: Final = frozenset({5, 32, 33})
#: 5 s in all; a virus scan of a large DLL takes about that.
WAITS: Final = tuple(0.01 * 2**n for n in range(9))
_LONG: Final = 240


def native(path: Path) -> str:
    """Return a path as the operating system takes it; Windows needs a prefix beyond 260 characters."""
    text = str(path)
    if sys.platform == "win32" and len(text) > _LONG and not text.startswith("\\\\?\\"):
        text = "\\\\?\\UNC" + text[1:] if text.startswith("\\\\") else "\\\\?\\" + text
    return text


def retrying(
    action: Callable[[], T],
    *,
    waits: Sequence[float] = WAITS,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Try again while Windows says that somebody holds the file; any other error is final."""
    for wait in waits:
        try:
            return action()
        except OSError as error:
            if getattr(error, "winerror", None) not in PASSING:
                raise
        sleep(wait)
    return action()


def patiently(action: Callable[[], T]) -> T:
    """Retry on Windows alone; elsewhere a refusal is an answer."""
    return retrying(action) if sys.platform == "win32" else action()
