"""Undo, recover, and leave: what is done to a target that something is placed in."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from scripts.errors import UndoIncompleteError
from scripts.osal.file_operations import Fs, Seen
from scripts.osal.processes import User
from scripts.placement import journal as journals
from scripts.placement import state
from scripts.placement.inspect import (
    CurrentState,
    Left,
    Mode,
    Sight,
    Stored,
    UndoAction,
    UndoReport,
    check_folders,
    is_ours,
    judge,
    look_at,
    real_target,
    stored_in,
)
from scripts.placement.journal import Journal, JournalStep
from scripts.placement.layout import Layout, numbered
from scripts.placement.plan import Action
from scripts.placement.state import (
    WAIT,
    Held,
    again_while_going,
    clear,
    has_vanished,
    journal_or_memory,
    kept_unrecorded,
    note_undo,
    rebuild,
    recalled,
    refuse_in_use,
    remembered_users,
    strangers,
    target_lock,
    with_strangers,
)
from scripts.staging.state_folder import PLACEMENTS, PlacementRegistry

REAL: Final = Fs()


def undo(
    target: Path,
    *,
    mode: Mode | str = Mode.SAFE,
    fs: Fs = REAL,
    registry: PlacementRegistry | None = None,
    user: User | None = None,
) -> UndoReport:
    """Take back whatever is placed in ``target``; nothing placed is a report of nothing.

    ``user`` is the caller, who does not count as a user of the placement.

    Raises:
        ConflictError: ``placement-in-use`` by a running process, or ``target-busy``.
        JournalError: the journal cannot be trusted; nothing was touched.
        UndoIncompleteError: ``undo-blocked``: the system refuses every change there.
    """
    layout = Layout(real_target(target))
    memory = recalled(registry.memory(PLACEMENTS, layout.target)) if registry else None
    vanished = has_vanished(layout, fs, memory)
    if vanished:
        refuse_in_use(layout, remembered_users(registry, layout.target, but=user))
    with _blocked(layout), target_lock(layout, fs, create=vanished) as held:
        if held is None:
            report = UndoReport(target=layout.target)
        else:
            others = tuple(other for other in state.live(layout, fs) if other != user)
            journal, lost = journal_or_memory(layout, fs, memory)
            if lost:
                others += remembered_users(registry, layout.target, but=user)
            if journal is not None and journal.step is JournalStep.COMMITTED:
                refuse_in_use(layout, others)
            report = undo_held(held, fs, journal, mode=Mode(mode), lost=lost)
    note_undo(registry, report)
    return report


def leave(
    target: Path,
    user: User,
    *,
    fs: Fs = REAL,
    registry: PlacementRegistry | None = None,
    wait: float = WAIT,
    memory: Journal | None = None,
    keep: bool = False,
) -> UndoReport | None:
    """Stop using a placement; the last one out undoes it. ``None`` if it stays for others or was kept.

    ``memory`` is what was placed: where the target's own record has vanished, it says what is still ours.
    Without a record even what was placed to ``keep`` is reported, since only the memory can undo it.
    """
    layout = Layout(real_target(target))
    report = again_while_going(lambda: _leave_once(layout, user, fs, wait=wait, memory=memory, keep=keep))
    if report is not None:
        note_undo(registry, report)
    return report


def _leave_once(
    layout: Layout, user: User, fs: Fs, *, wait: float, memory: Journal | None, keep: bool
) -> UndoReport | None:
    """Stop using a placement under the lock that is there now."""
    vanished = has_vanished(layout, fs, memory)
    with _blocked(layout), target_lock(layout, fs, create=vanished, wait=wait) as held:
        if held is None:
            if has_vanished(layout, fs, memory):  # a moment ago
                raise FileNotFoundError(layout.state)
            return None
        state.detach(layout, fs, user.name)
        stays = state.kept(layout, fs) or bool(state.live(layout, fs))
        if stays and not keep:
            return None
        journal, lost = journal_or_memory(layout, fs, memory)
        if stays and not lost:
            return None
        if keep and lost and memory is not None:
            report = UndoReport(target=layout.target, lost=True, kept=kept_unrecorded(layout, fs, memory))
            if vanished:
                held.vanish()
        else:
            report = undo_held(held, fs, journal, lost=lost)
    return report


def undo_held(
    held: Held, fs: Fs, journal: Journal | None, *, mode: Mode = Mode.SAFE, lost: bool = False
) -> UndoReport:
    """Undo under the lock and, if that was everything, take the state folder away.

    With ``lost`` the journal is a memory, and is written into the target first.
    """
    layout = held.layout
    with _blocked(layout):
        report = UndoReport(target=layout.target)
        if journal is not None:
            journal = rebuild(layout, fs, journal) if lost else journal
            report = replace(Rollback(layout=layout, fs=fs, journal=journal, mode=mode).run(), lost=lost)
        if report.complete and (found := strangers(layout, fs, journal)):
            report = with_strangers(report, layout, fs, found, mode)
        if report.complete:
            held_files = clear(layout, fs)
            if not held_files:
                held.vanish()
            elif not report.pending:
                report = replace(report, pending=held_files)
    return report


@contextlib.contextmanager
def _blocked(layout: Layout) -> Iterator[None]:
    """Say in our words that the system refuses every change."""
    try:
        yield
    except OSError as error:
        msg = f"{layout.target} cannot be changed: {error.strerror or error}"
        hint = "make the folder writable (is the disk full?), then `invoke unwrap` again; nothing is lost"
        if isinstance(error, FileNotFoundError):
            hint = "see what removes files there (a cleaner, an updater), then `invoke unwrap` again"
        raise UndoIncompleteError("undo-blocked", msg, hint=hint) from error


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def _why_changed(action: Action, *, held: bool) -> str:
    """Say what is known of a file that is neither ours nor what it was."""
    if action.before is None:
        return "it was not here before, and the stack's copy was changed since: it may be yours now"
    original = "your original is kept" if held else "no original is kept for it"
    return f"the stack's copy was changed or replaced since; {original}"


class Rollback(Struct, kw_only=True):
    """One run over one journal."""

    layout: Layout
    fs: Fs
    journal: Journal
    mode: Mode = Mode.SAFE
    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[Left] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    spare: list[Path] = field(default_factory=list)
    stored: Stored = field(default_factory=lambda: Stored(new=frozenset(), originals=frozenset()))

    def run(self) -> UndoReport:
        """Put back what can be put back; the journal says ``undone`` only if that is everything.

        Raises:
            JournalError: a folder on the way is a link now; nothing was touched.
        """
        if self.journal.step is not JournalStep.UNDONE:
            check_folders(self.layout, self.fs, self.journal)
            self._announce()
            thrown = set(self.fs.names(self.layout.trash(0).parent))
            self.stored = stored_in(self.layout, self.fs)
            self.fs.mkdir(self.layout.trash(0).parent)
            for action in self.journal.actions:
                if numbered(action.number) in thrown:
                    self._each(action, self._empty_trash)
            for action in reversed(self.journal.actions):
                self._each(action, self._settle)
            self._finish()
        return UndoReport(
            target=self.layout.target,
            restored=tuple(sorted(self.restored)),
            removed=tuple(sorted(self.removed)),
            kept=tuple(sorted(self.kept, key=lambda left: left.path)),
            aside=tuple(self.aside),
            pending=tuple(self.pending),
        )

    def _announce(self) -> None:
        """Write ``undoing`` with the folders whose times are ours to put back.

        A folder that others changed while the placement stood keeps its own time. A full
        disk is no reason to stop: the record only spares work.
        """
        journal = self.journal
        if journal.step is JournalStep.UNDOING and not journal.torn:
            return
        reset = journal.reset
        if journal.step is JournalStep.BEGIN:
            reset = tuple(folder for folder in journal.folders if folder)
        elif journal.step is JournalStep.COMMITTED:
            reset = tuple(f for f, time in journal.placed_folders.items() if f and self._mtime(f) == time)
        self.journal = self._write(journals.undoing(reset), step=JournalStep.UNDOING, reset=reset)

    def _each(self, action: Action, deal: Callable[[Action], None]) -> None:
        """Deal with one name; what the system refuses there is listed and stops nothing else."""
        try:
            deal(action)
        except OSError as error:
            self.kept.append(Left(path=action.path, why=error.strerror or str(error)))

    def _empty_trash(self, action: Action) -> None:
        """Finish what an interrupted removal left: delete ours, give back anything else."""
        trash = self.layout.trash(action.number)
        seen = self.fs.look(trash)
        if seen is None:
            return
        if is_ours(action, trash, seen, self.fs):
            self._discard(trash, action.path)
            return
        try:
            self.fs.rename_new(trash, self.layout.inside(action.path))
        except FileExistsError:
            why = f"a second version of it is kept as {trash.relative_to(self.layout.target).as_posix()}"
            self._put_aside(trash, action, "changed", why)

    def _settle(self, action: Action) -> None:
        sight = look_at(action, self.layout, self.fs, self.stored)
        verdict = judge(action.deed, sight.now, sight.kept, untouched=sight.untouched)
        if sight.folder_missing and verdict is UndoAction.RETURN:
            self._orphan(action)
            return
        acts: dict[UndoAction, Callable[[Action, Sight], None]] = {
            UndoAction.REMOVE: self._remove,
            UndoAction.RESTORE: self._restore,
            UndoAction.RETURN: self._return,
            UndoAction.DROP: self._drop,
            UndoAction.LOST: self._lost,
            UndoAction.CHANGED: self._changed,
        }
        if verdict is not UndoAction.DONE:
            acts[verdict](action, sight)

    def _remove(self, action: Action, sight: Sight) -> None:
        """Move away, look at what came along, delete."""
        if self._take_away(action, sight.there):
            self.removed.append(action.path)

    def _restore(self, action: Action, sight: Sight) -> None:
        """Trade ours for the original: in one step where the platform can, else in two renames."""
        here, original = self.layout.inside(action.path), self.layout.original(action.number)
        if not self.fs.exchange(original, here):
            if self._take_away(action, sight.there):
                self._return(action, sight)
            return
        came = self.fs.look(original)
        if came and not came.unchanged(sight.there) and not is_ours(action, original, came, self.fs):
            self.fs.exchange(original, here)
            self.kept.append(Left(path=action.path, why="it was changed at this very moment"))
            return
        self.spare.append(original)
        self.restored.append(action.path)

    def _return(self, action: Action, sight: Sight) -> None:
        """Move the original to its name, which is free."""
        del sight
        self.fs.rename_new(self.layout.original(action.number), self.layout.inside(action.path))
        self.restored.append(action.path)

    def _drop(self, action: Action, sight: Sight) -> None:
        """The name is right already; what is kept is a spare name or ours."""
        del sight
        self.spare.append(self.layout.original(action.number))
        self.restored.append(action.path)

    def _lost(self, action: Action, sight: Sight) -> None:
        """The original is not where we kept it. Both ways out leave what is there."""
        del sight
        if self.mode is Mode.SAFE:
            why = "the original is gone from .cuda-amd/originals (an antivirus quarantine may hold it)"
            self.kept.append(Left(path=action.path, why=why))
        else:
            self.aside.append(f"{action.path}: the original is lost; what is there was left")

    def _changed(self, action: Action, sight: Sight) -> None:
        """The file changed while it was ours."""
        original = self.layout.original(action.number)
        held = self.fs.look(original) is not None
        if self.mode is Mode.SAFE:
            self.kept.append(Left(path=action.path, why=_why_changed(action, held=held)))
        elif self.mode is Mode.THEIRS or sight.now is CurrentState.BEFORE:
            if held:
                self._put_aside(original, action, "original", "")
            else:
                self.aside.append(f"{action.path}: left as it is")
        else:
            self._put_aside(self.layout.inside(action.path), action, "changed", "")
            if held:
                self._return(action, sight)

    def _orphan(self, action: Action) -> None:
        """The folder of an original is gone."""
        if self.mode is Mode.SAFE:
            self.kept.append(Left(path=action.path, why="its folder is gone; the original is still kept"))
            return
        if self.mode is Mode.THEIRS:
            self._put_aside(self.layout.original(action.number), action, "original", "")
            return
        folder = self.layout.target
        for part in action.folder.split("/"):
            folder /= part
            self.fs.mkdir(folder, 0o777)
        self.fs.rename_new(self.layout.original(action.number), self.layout.inside(action.path))
        self.restored.append(action.path)

    def _take_away(self, action: Action, seen: Seen | None) -> bool:
        """Move what is at the name into the trash and delete it if it is ours, else give it back."""
        here, trash = self.layout.inside(action.path), self.layout.trash(action.number)
        self.fs.rename_new(here, trash)
        came = self.fs.look(trash)
        if came and not came.unchanged(seen) and not is_ours(action, trash, came, self.fs):
            self.fs.rename_new(trash, here)
            self.kept.append(Left(path=action.path, why="it was changed at this very moment"))
            return False
        self._discard(trash, action.path)
        return True

    def _discard(self, path: Path, name: str) -> None:
        """Delete; a library that a running program has mapped stays until that ends (Windows)."""
        try:
            self.fs.unlink(path)
        except PermissionError:
            self.pending.append(name)

    def _put_aside(self, path: Path, action: Action, word: str, why: str) -> None:
        """Give a file a free name beside its own; in the safe mode only list it."""
        if self.mode is Mode.SAFE:
            self.kept.append(Left(path=action.path, why=why))
            return
        here = self.layout.inside(action.path)
        folder = here.parent if self.fs.look(here.parent) else self.layout.target
        ending = state.give_free_name(self.fs, path, folder, here.name, word)
        self.aside.append(f"{action.path}{ending}" if folder == here.parent else here.name + ending)

    def _finish(self) -> None:
        """Make the renames durable, then drop spare names, then times, then say ``undone``."""
        folders = [folder for folder in self.journal.folders if self._mtime(folder) is not None]
        self._sync(folders, self.layout.original(0).parent)
        for path in self.spare:
            self._discard(path, path.relative_to(self.layout.target).as_posix())
        for folder in self.journal.reset if not self.kept else ():
            if folder in folders and folder in self.journal.folders:
                self._reset(folder)
        if self.kept:
            return
        self._sync(folders, self.layout.trash(0).parent)
        self.journal = self._write(journals.undone(), step=JournalStep.UNDONE)

    def _sync(self, folders: list[str], ours: Path) -> None:
        """Flush the folders that renames happened between, on the program's side and on ours."""
        for folder in folders:
            self.fs.sync_folder(self.layout.inside(folder))
        if self.fs.look(ours):
            self.fs.sync_folder(ours)

    def _reset(self, folder: str) -> None:
        """Put a folder's time back; a folder of others keeps its own."""
        try:
            self.fs.set_mtime(self.layout.inside(folder), self.journal.folders[folder])
        except PermissionError as error:
            if error.errno == errno.EACCES:
                raise

    def _mtime(self, folder: str) -> int | None:
        seen = self.fs.look(self.layout.inside(folder))
        return seen.mtime_ns if seen else None

    def _write(self, line: bytes, *, step: JournalStep, reset: tuple[str, ...] | None = None) -> Journal:
        """Append a record over anything torn."""
        journal = self.journal
        changes = {"step": step, "reset": journal.reset if reset is None else reset, "torn": False}
        try:
            self.fs.append(self.layout.journal, journal.end, line)
            self.fs.sync_files([self.layout.journal])
        except OSError as error:
            if error.errno not in _FULL:
                raise
            return Journal(**{**asdict(journal), **changes})
        return Journal(**{**asdict(journal), **changes, "end": journal.end + len(line)})
