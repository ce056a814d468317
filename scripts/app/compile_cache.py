"""The translation layer's compile cache: where it lies, what it holds, and what its growth means.

While it grows, a program is compiling, not hanging. Facts: vosen/ZLUDA@87531d3, ``zluda_cache``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.app.context import Workspace
from scripts.errors import ConflictError
from scripts.serialize import pick

#: The layer compiles into this folder below the user's cache.
COMPILE_CACHE: Final = ("zluda", "ComputeCache")
#: Its own files there: databases (one for each format of the layer) and what SQLite keeps beside them.
_OURS: Final = re.compile(r"zluda\d*\.db(-wal|-shm|-journal)?", re.IGNORECASE)
#: How often something that runs is looked at, in seconds; so often at most a line is shown.
INTERVAL: Final = 10.0


class CompileCache(Struct, frozen=True, kw_only=True):
    """The layer's compile cache: its folder, and the files in it that are the layer's own."""

    folder: Path
    files: tuple[Path, ...]
    bytes: int

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {**pick(self, "path=folder bytes"), "files": [path.name for path in self.files]}


def compile_cache(ws: Workspace) -> CompileCache | None:
    """Look at the compile cache, which every program of this user and every stack share.

    ``None`` where the user's cache folder is not known. A folder that is not there yet is an empty cache.
    """
    if ws.caches is None:
        return None
    folder = ws.caches.joinpath(*COMPILE_CACHE)
    files: list[Path] = []
    size = 0
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if _OURS.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                size += path.stat().st_size
                files.append(path)
    return CompileCache(folder=folder, files=tuple(files), bytes=size)


def clear(cache: CompileCache) -> None:
    """Delete the cache's own files and nothing else; the layer makes them again.

    Raises:
        ConflictError: ``compile-cache-in-use``: a program has it open; what it has open was not deleted.
    """
    busy = next((path for path in cache.files if path.suffix.lower() == ".db" and in_use(path)), None)
    for path in cache.files if busy is None else ():
        try:
            path.unlink(missing_ok=True)  # SQLite takes its side files away by itself
        except PermissionError:  # Windows: opened by something that is not SQLite, or since we asked
            busy = path
            break
    if busy is not None:
        msg = "a program has the compile cache open, and losing it now could make the program fail"
        hint = "end the programs that run on the translation layer, then repeat it"
        raise ConflictError("compile-cache-in-use", msg, context=(str(busy),), hint=hint)


@contextmanager
def say_when_compiling(
    note: Callable[[str], None], size: Callable[[], int], *, interval: float = INTERVAL
) -> Iterator[None]:
    """Say now and then that the compile cache grows, while something runs that may look like a hang.

    ``note`` says a line, from another thread; ``size`` gives the cache's bytes every ``interval`` seconds.
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
    return cache.bytes if cache else 0


#: A journal that ends so names a file elsewhere, which SQLite deletes when it has written the journal back.
_POINTER: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"


def in_use(path: Path) -> bool:
    """Whether another program has the database open.

    SQLite itself answers: it gives no exclusive lock on the file while another program has it open (in WAL
    mode even idle). A file that is no database is not in use. Its content does not change, but SQLite
    may write its journal back into it. One whose journal names a file elsewhere is not opened and counts as
    in use: in a transaction over several databases that file is SQLite's own, in a planted journal any file.
    """
    import sqlite3  # noqa: PLC0415 - only here, and seldom asked

    if _leads_elsewhere(path.with_name(f"{path.name}-journal")):
        return True
    address = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
    except sqlite3.DatabaseError:
        return False
    return False


def _leads_elsewhere(journal: Path) -> bool:
    """Whether a journal names another file."""
    try:
        return journal.is_file() and journal.read_bytes().rstrip(b"\0").endswith(_POINTER)
    except FileNotFoundError:
        return False
    except OSError:  # held by another program
        return True
