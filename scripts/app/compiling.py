"""The translation layer's compile cache: while it grows, a program is compiling, not hanging."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.app.workspace import Workspace

#: The layer compiles into this folder below the user's cache (vosen/ZLUDA@87531d3).
COMPILE_CACHE: Final = ("zluda", "ComputeCache")
#: How often a long run is looked at, in seconds.
INTERVAL: Final = 20.0


def compile_cache(ws: Workspace) -> tuple[str, int] | None:
    """Return the compile cache's folder and its size in bytes; ``None`` where there is none."""
    base = ws.environ.get("LOCALAPPDATA") if ws.platform == "win32" else ws.environ.get("XDG_CACHE_HOME")
    folder = Path(base or Path.home() / ".cache").joinpath(*COMPILE_CACHE)
    try:
        return str(folder), sum(path.stat().st_size for path in folder.iterdir())
    except OSError:
        return None


@contextmanager
def say_when_compiling(
    note: Callable[[str], None], size: Callable[[], int], *, interval: float = INTERVAL
) -> Iterator[None]:
    """Say now and then that the compile cache grows, while something runs that may look like a hang.

    Args:
        note: says a line; called from another thread.
        size: the cache's size in bytes.
        interval: seconds between looks.
    """
    done = threading.Event()

    def watch(before: int) -> None:
        while not done.wait(interval):
            now = size()
            if now > before:
                note(f"compiling, not hanging: the compile cache has grown to {now / 1024**2:.1f} MiB")
            before = now

    watcher = threading.Thread(target=watch, args=(size(),), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def cache_size(ws: Workspace) -> int:
    """Return the size of the compile cache in bytes; 0 where there is none."""
    cache = compile_cache(ws)
    return cache[1] if cache else 0
