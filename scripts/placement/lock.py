"""One process at a time places or undoes in a target; it is not held while the program runs."""

from __future__ import annotations

import contextlib
import errno
import sys
import time
from collections.abc import Iterator
from typing import Final

from scripts.errors import ConflictError
from scripts.osal.file_operations import Fs
from scripts.osal.lockfile import LockFile
from scripts.osal.process_table import StartTime, User, process_start_time, running
from scripts.placement.layout import Layout
from scripts.placement.state import check_state

#: Placing copies files; this is longer than that takes on a slow disk.
WAIT: Final = 60.0
_PAUSE: Final = 0.05
#: A network folder may close a file some time after we did; after this another process has it open.
#: Removing on Windows is patient by itself.
_CLOSING: Final = (0.01, 0.05, 0.25) if sys.platform != "win32" else (0.0,)
#: What removing a file meets that is open elsewhere.
_HELD: Final = frozenset({errno.EBUSY} | ({errno.EACCES} if sys.platform == "win32" else set()))


class Held:
    """A target that is locked."""

    def __init__(self, layout: Layout, fs: Fs, lock: LockFile) -> None:
        """Keep what ``vanish`` needs."""
        self.layout = layout
        self._fs = fs
        self._lock = lock

    def vanish(self) -> None:
        """Remove lock and state folder once nothing else is left, and let go.

        On Linux the lock file goes while it is held: whoever waits for it then holds a file that
        has no name, notices, and starts again. Where an open file cannot go, another may open the lock
        in between: then the folder is theirs. Our lock goes once: one that lies there later is another's.
        """
        gone = sys.platform != "win32" and self._remove_lock()
        try:
            if not (gone and self._fs.rmdir(self.layout.state)):
                self._lock.release()
                for pause in _CLOSING:
                    gone = gone or self._remove_lock()
                    if gone and (self._fs.rmdir(self.layout.state) or self._fs.look(self.layout.lock)):
                        break
                    time.sleep(pause)
        finally:
            self._lock.release()
        self._fs.sync_folder(self.layout.target)

    def _remove_lock(self) -> bool:
        """Say whether its name is gone: an open file may stay (Windows, SMB) or hide there (FUSE, NFS)."""
        try:
            self._fs.unlink(self.layout.lock)
        except OSError as error:
            if error.errno not in _HELD:
                raise
            return False
        return True


@contextlib.contextmanager
def target_lock(layout: Layout, fs: Fs, *, create: bool = False, wait: float = WAIT) -> Iterator[Held | None]:
    """Hold the target; ``None`` when it has no state folder and ``create`` is off.

    Raises:
        ConflictError: ``target-busy`` after ``wait`` seconds.
        JournalError: the state folder is not plainly ours.
        OSError: the system refuses.
    """
    lock = fs.lock_at(layout.lock)
    try:
        acquired = _acquire(lock, layout, fs, create=create, wait=wait)
    except OSError:
        with contextlib.suppress(OSError):
            fs.rmdir(layout.state)  # empty only if it was made a moment ago
        raise
    if not acquired:
        yield None
        return
    try:
        yield Held(layout, fs, lock)
    finally:
        lock.release()


def _acquire(lock: LockFile, layout: Layout, fs: Fs, *, create: bool, wait: float) -> bool:
    """Try until the lock is ours, time is up, or there is nothing to lock."""
    deadline = time.monotonic() + wait
    while True:
        if create:
            fs.mkdir(layout.state)
        if not check_state(layout, fs):
            if not create:
                return False
            continue  # removed by the last one out between the two lines above
        fs.before("lock", layout.lock)
        try:
            if lock.try_acquire():
                return True
        except FileNotFoundError:
            continue  # the same, one line later
        if time.monotonic() >= deadline:
            msg = f"another process has been placing or undoing in {layout.target} for {wait:.0f} s"
            raise ConflictError("target-busy", msg, hint="wait for it, or end it, and try again")
        time.sleep(_PAUSE)


#: The user that never ends: ``wrap --keep``.
KEEP: Final = "keep"


def attach(layout: Layout, fs: Fs, name: str) -> None:
    """Note a user; twice is once."""
    fs.mkdir(layout.users)
    path = layout.users / name
    if fs.look(path) is None:
        fs.write_new(path, b"")


def detach(layout: Layout, fs: Fs, name: str) -> None:
    """Forget a user."""
    fs.unlink(layout.users / name)


def live(layout: Layout, fs: Fs, *, start_time: StartTime = process_start_time) -> tuple[User, ...]:
    """Return the users whose processes still run."""
    users = (running(name, start_time=start_time) for name in fs.names(layout.users))
    return tuple(user for user in users if user is not None)


def kept(layout: Layout, fs: Fs) -> bool:
    """Say whether the placement shall stay when its last user ends."""
    return fs.look(layout.users / KEEP) is not None
