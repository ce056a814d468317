"""A target's ``.cuda-amd`` folder: opened, locked, remembered outside, and taken away in a safe order.

The memory is a journal of its own, kept in the user's state folder and read with the same suspicion. With it
the target's journal is written again, so that the ordinary undo decides by what the disk shows.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from msgspec.structs import replace

from scripts.errors import ConflictError, JournalError, UndoIncompleteError
from scripts.osal.file_operations import FileKind, Fs
from scripts.osal.fs import LockFile
from scripts.osal.processes import StartTime, User, process_start_time, running
from scripts.placement import journal as journals
from scripts.placement.inspect import Left, Mode, UndoAction, UndoReport, is_ours, judge, look_at, stored_in
from scripts.placement.journal import Journal, JournalStep
from scripts.placement.layout import FILES, FOLDERS, STATE, Layout, numbered
from scripts.placement.plan import Action
from scripts.staging.state_folder import LOST, PLACEMENTS, PlacementRegistry

#: Numbers in ``new originals trash``, ids and ``keep`` in ``users``.
_OWN_NAME: Final = re.compile(r"[0-9]{4,}|[0-9]{1,10}-[0-9A-Za-z]{1,64}|keep")


def check_state(layout: Layout, fs: Fs) -> bool:
    """Say whether there is a state folder, and refuse one that is not plainly ours.

    Raises:
        JournalError: ``journal-unsafe`` for a link, another user's folder, or links inside.
    """
    seen = fs.look(layout.state)
    if seen is None:
        return False
    if seen.kind is not FileKind.FOLDER:
        _unsafe(layout, "is not a plain folder")
    if sys.platform != "win32" and seen.owner != os.geteuid():
        _unsafe(layout, "belongs to another user")
    for names, kind in ((FOLDERS, FileKind.FOLDER), (FILES, FileKind.FILE)):
        for name in names:
            inner = fs.look(layout.state / name)
            if inner is not None and inner.kind is not kind:
                _unsafe(layout, f"holds {name!r}, which is not a plain {kind.value}")
    return True


def load(layout: Layout, fs: Fs) -> Journal | None:
    """Read the journal; ``None`` if nothing was ever begun, which is checked against the disk.

    Raises:
        JournalError: it cannot be trusted, or originals are kept here that no journal names.
    """
    seen = fs.look(layout.journal)
    if seen and seen.size > journals.LONGEST:
        _unsafe(layout, f"holds a journal of {seen.size:,} bytes")
    journal = journals.parse(fs.read(layout.journal)) if seen else None
    if journal is None and any(fs.names(layout.state / name) for name in ("originals", "trash")):
        msg = f"{layout.state} holds files but no readable journal"
        hint = f"move the files in its folder 'originals' back by hand as {layout.readme} says"
        raise JournalError("journal-missing", msg, context=("nothing was changed",), hint=hint)
    return journal


def strangers(layout: Layout, fs: Fs, journal: Journal | None) -> tuple[str, ...]:
    """Name what lies in the state folder and is not ours to delete, relative to the target.

    Called when everything is undone: what then lies in ``originals`` or ``trash`` may go only if it was read
    and is the stack's copy, or a second copy of the original that is back at its name.
    """
    actions = {numbered(action.number): action for action in journal.actions} if journal else {}
    found = [f"{STATE}/{name}" for name in fs.names(layout.state) if name not in {*FOLDERS, *FILES}]
    for folder in FOLDERS:
        for name in fs.names(layout.state / folder):
            path = layout.state / folder / name
            action = actions.get(name)
            known = _OWN_NAME.fullmatch(name) is not None
            if folder in {"originals", "trash"}:
                known = action is not None and _is_spare(action, path, layout, fs)
            seen = fs.look(path) if known else None
            if not known or (seen is not None and seen.kind not in {FileKind.FILE, FileKind.LINK}):
                found.append(f"{STATE}/{folder}/{name}")
    return tuple(found)


def _is_spare(action: Action, path: Path, layout: Layout, fs: Fs) -> bool:
    """Whether nothing is lost with a file of ours or a copy of what lies at the name."""
    seen = fs.look(path)
    if seen is None or seen.kind not in {FileKind.FILE, FileKind.LINK}:
        return seen is None
    if is_ours(action, path, seen, fs):
        return True
    here = layout.inside(action.path)
    there = fs.look(here)
    return there is not None and there.kind is seen.kind and fs.sha256(here) == fs.sha256(path)


def move_out(layout: Layout, fs: Fs, names: tuple[str, ...]) -> tuple[str, ...]:
    """Move what is not ours out of the state folder, to free names in the target; return these."""
    moved = []
    for name in names:
        last = name.rpartition("/")[2]
        moved.append(last + give_free_name(fs, layout.inside(name), layout.target, last, "found"))
    return tuple(moved)


def give_free_name(fs: Fs, path: Path, folder: Path, name: str, word: str) -> str:
    """Move a file to the first free name in a folder that begins with ``name``; return that name's ending."""
    for number in itertools.count(1):
        ending = f".cuda-amd-{word}" + (f"-{number}" if number > 1 else "")
        try:
            fs.rename_new(path, folder / (name + ending))
        except FileExistsError:
            continue
        return ending
    raise AssertionError(path)  # the numbers do not end


T = TypeVar("T")
#: Seconds between tries where the state folder goes just while it is read or written.
GOING: Final = (0.05, 0.2, 0.5, 1.0)


def again_while_going(act: Callable[[], T]) -> T:
    """Act, and again where a cleaner takes the state folder in between: then the memory decides."""
    for pause in GOING:
        try:
            return act()
        except (FileNotFoundError, UndoIncompleteError) as error:
            if not isinstance(error.__cause__ or error, FileNotFoundError):
                raise
            time.sleep(pause)
    return act()


def with_strangers(
    report: UndoReport, layout: Layout, fs: Fs, found: tuple[str, ...], mode: Mode
) -> UndoReport:
    """List what is not ours in the state folder, or with both ways out move it beside the program."""
    if mode is Mode.SAFE:
        why = "it was not put there by a placement, and is left: move it away, then undo again"
        return replace(report, kept=tuple(Left(path=path, why=why) for path in found))
    return replace(report, aside=(*report.aside, *move_out(layout, fs, found)))


def clear(layout: Layout, fs: Fs) -> tuple[str, ...]:
    """Take away everything of ours but the lock; return what could not go (held by a program).

    The journal goes last and only after the rest is durably gone, so that it is there as long as
    anything could still need it. What is not ours stays.
    """
    held: list[str] = []
    for folder in FOLDERS:
        for name in filter(_OWN_NAME.fullmatch, fs.names(layout.state / folder)):
            try:
                fs.unlink(layout.state / folder / name)
            except PermissionError:
                held.append(f"{folder}/{name}")
        try:
            if not any(name.startswith(f"{folder}/") for name in held):
                fs.rmdir(layout.state / folder)
        except PermissionError:
            held.append(folder)
    if held:
        return tuple(held)
    fs.unlink(layout.readme)
    fs.sync_folder(layout.state)
    fs.unlink(layout.journal)
    return ()


def _unsafe(layout: Layout, why: str) -> NoReturn:
    msg = f"{layout.state} {why}"
    hint = "look what it is, since it is not ours, and move it away if the program does not need it"
    raise JournalError("journal-unsafe", msg, context=("nothing was changed",), hint=hint)


#: Placing copies files; this is longer than that takes on a slow disk.
WAIT: Final = 60.0
_PAUSE: Final = 0.05
#: A network folder may close a file some time after we did; after this another process has it open.
#: On Windows a file that is removed keeps its name, and its folder is not empty, while anyone looks at it.
_CLOSING: Final = (0.01, 0.05, 0.25) if sys.platform != "win32" else (0.01, 0.05, 0.25, 1.0)
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
                    if self._is_over(gone=gone):
                        break
                    time.sleep(pause)
        finally:
            self._lock.release()
        self._fs.sync_folder(self.layout.target)

    def _is_over(self, *, gone: bool) -> bool:
        """Say whether the folder is gone too, or is another's now.

        On Windows a lock that cannot go was waited for already, and one that is seen may be on its way out.
        """
        if sys.platform == "win32":
            return not gone or self._fs.rmdir(self.layout.state)
        return gone and (self._fs.rmdir(self.layout.state) or self._fs.look(self.layout.lock) is not None)

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


def remembered(journal: Journal) -> bytes:
    """Return the memory of a placement; without ``placed_folders`` no folder's time is put back."""
    return journals.begin(journal) + journals.committed(journal.placed_folders)


def recalled(data: bytes | None) -> Journal | None:
    """Read a memory; one that cannot be trusted is none."""
    try:
        return journals.parse(data) if data else None
    except JournalError:
        return None


def as_memory(journal: Journal) -> Journal:
    """Return a journal as it would be remembered."""
    data = remembered(journal)
    return replace(journal, step=JournalStep.COMMITTED, reset=(), end=len(data), torn=False)


def outstanding(layout: Layout, fs: Fs, memory: Journal) -> tuple[str, ...]:
    """Name the files that are not what they were before placing; changes nothing."""
    stored = stored_in(layout, fs)
    found = []
    for action in memory.actions:
        try:
            sight = look_at(action, layout, fs, stored)
        except OSError:  # unreadable is not as before
            found.append(action.path)
            continue
        if judge(action.deed, sight.now, sight.kept, untouched=sight.untouched) is not UndoAction.DONE:
            found.append(action.path)
    return tuple(found)


def journal_or_memory(layout: Layout, fs: Fs, memory: Journal | None) -> tuple[Journal | None, bool]:
    """Return the target's journal, else the memory where the journal has vanished, and whether it has.

    Raises:
        JournalError: there is a journal that cannot be trusted, or originals that neither names.
    """
    try:
        journal = load(layout, fs)
    except JournalError as error:
        if memory is None or error.reference != "journal-missing":
            raise
        return memory, True
    if journal is None and memory is not None and outstanding(layout, fs, memory):
        return memory, True
    return journal, False


def rebuild(layout: Layout, fs: Fs, memory: Journal) -> Journal:
    """Write the target's journal again; the lock is held and no readable journal is there."""
    data = remembered(memory)
    if fs.look(layout.journal) is None:
        fs.write_new(layout.journal, data)
    else:
        fs.append(layout.journal, 0, data)
    fs.sync_files([layout.journal])
    fs.sync_folder(layout.state)
    fs.sync_folder(layout.target)
    return as_memory(memory)


def kept_unrecorded(layout: Layout, fs: Fs, memory: Journal) -> tuple[Left, ...]:
    """List what was placed to stay and has no record beside it any more."""
    why = "it stays as --keep asked, but its record (.cuda-amd) vanished"
    return tuple(Left(path=path, why=why) for path in outstanding(layout, fs, memory))


def has_vanished(layout: Layout, fs: Fs, memory: Journal | None) -> bool:
    """Whether the state folder is gone although files of ours, or their originals, are not as before."""
    return memory is not None and fs.look(layout.state) is None and bool(outstanding(layout, fs, memory))


def remembered_users(
    registry: PlacementRegistry | None, target: Path, *, but: User | None
) -> tuple[User, ...]:
    """Return who placed, where only the registry still knows it and the process runs."""
    entry = registry.entry(PLACEMENTS, target) if registry else None
    found = running(entry.facts.get("user", "")) if entry is not None else None
    return () if found is None or found == but else (found,)


def refuse_in_use(layout: Layout, others: tuple[User, ...]) -> None:
    """Refuse to take files from under a running program."""
    if others:
        ids = ", ".join(str(other.pid) for other in others)
        msg = f"a running program uses what is placed in {layout.target} (process {ids})"
        raise ConflictError("placement-in-use", msg, hint="end that program first")


def note_undo(registry: PlacementRegistry | None, report: UndoReport) -> None:
    """Take a target that is as before off the list; note one whose record has vanished."""
    if registry is None:
        return
    if report.complete and not report.pending:
        registry.remove(PLACEMENTS, report.target)
    elif report.lost:
        entry = registry.entry(PLACEMENTS, report.target)
        facts = {k: v for k, v in entry.facts.items() if k != "user"} if entry is not None else {}
        registry.add(PLACEMENTS, report.target, **{**facts, LOST: "yes"})
