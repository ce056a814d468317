"""Looks at a target: before placing, and for an undo, which judges by hashes, not by the journal's word."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.binary.properties import HEAD, machine_of
from scripts.errors import JournalError, TargetError
from scripts.guards import guard_near
from scripts.osal.file_operations import FileKind, Fs, Seen
from scripts.osal.fs import extended_path
from scripts.osal.paths import plain_path
from scripts.placement.journal import Journal
from scripts.placement.layout import Layout, fold, numbered, unsafe_path
from scripts.placement.plan import Action, Deed, FolderView, PlacementItem, PlanEntry, Snapshot
from scripts.serialize import JsonRecord


class Mode(StrEnum):
    """What to do about files that changed meanwhile."""

    SAFE = "safe"
    OURS = "ours"
    THEIRS = "theirs"


class Left(Struct, frozen=True, kw_only=True):
    """A file that the undo did not dare to change, and why."""

    path: str
    why: str


class UndoReport(JsonRecord, frozen=True, kw_only=True):
    """What an undo did.

    Attributes:
        target: the folder.
        restored: originals that are back.
        removed: files of ours that are gone.
        kept: files left alone; with any of these the undo is incomplete.
        aside: files moved to a name beside, by ``--ours`` and ``--theirs``.
        pending: files of ours, out of the way already, that a running program still holds.
        lost: the target's record had vanished; what to do was known from the memory outside it.
    """

    target: Path
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[Left, ...] = ()
    aside: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    lost: bool = False

    JSON = "target complete restored removed kept aside pending lost"

    @property
    def complete(self) -> bool:
        """Whether every name is what it was."""
        return not self.kept


#: What a disk answers that is away or ill, a network's above all; a folder that is deleted is not among it.
UNREACHABLE: Final = frozenset(
    {
        errno.EIO,
        errno.ENOTCONN,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENODEV,
    }
)
BRING_BACK: Final = "bring its disk or network folder back, then run it again"


def real_target(target: Path) -> Path:
    """Return the folder behind links, junctions and relative parts.

    Raises:
        TargetError: ``target-missing``, or ``target-unreachable`` where its disk does not answer.
    """
    real = None
    try:
        real = plain_path(plain_path(target).resolve(strict=True))
    except OSError as error:
        if error.errno in UNREACHABLE:
            msg = f"{target} cannot be reached: {error.strerror}"
            raise TargetError("target-unreachable", msg, hint=BRING_BACK) from error
    except (RuntimeError, ValueError):
        pass
    if real is None or not real.is_dir():
        msg = f"{target} is not a folder"
        raise TargetError("target-missing", msg, hint="name the folder that holds the program")
    return real


def take_snapshot(
    target: Path,
    items: Sequence[PlacementItem],
    *,
    fs: Fs,
    program: Path | None = None,
    hashes: bool = True,
    in_use: bool = True,
) -> Snapshot:
    """Look at every folder and name the items speak of.

    With ``hashes=False`` originals are not read: enough for the refusals, not for a plan. With
    ``in_use=False`` it is not asked which running programs hold them.
    """
    look = _Look(target=target, fs=fs, hashes=hashes)
    wanted: dict[str, set[str]] = {"": set()}
    for item in items:
        wanted.setdefault(item.folder, set()).add(fold(item.name))
    views = {folder: look.at(folder, names) for folder, names in wanted.items()}
    in_use = in_use and any(view.entries for view in views.values())
    return Snapshot(
        target=target,
        folders=views,
        free=fs.free_bytes(target),
        guard=guard_near([target / folder for folder in wanted], partial(_listed, fs)),
        in_use=fs.in_use(_files(target, views)) if in_use else frozenset(),
        machine=_machine(program) if program else "",
        program=program,
        machines={item.path: _machine(item.source) for item in items} if program else {},
    )


def _files(target: Path, views: Mapping[str, FolderView]) -> list[Path]:
    """Name every plain file that was seen."""
    return [
        folder / entry.name
        for folder, view in ((target / name, view) for name, view in views.items())
        for found in view.entries.values()
        for entry in found
        if entry.seen.kind is FileKind.FILE
    ]


def folder_problem(target: Path, folder: str, fs: Fs) -> str:
    """Walk down from the target: empty, ``missing``, ``link`` or ``not-a-folder``."""
    path = target
    for part in (*folder.split("/"),) if folder else ():
        path /= part
        seen = fs.look(path)
        if seen is None:
            return "missing"
        if seen.kind is not FileKind.FOLDER:
            return "link" if seen.kind is FileKind.LINK else "not-a-folder"
    return ""


class _Look(Struct, frozen=True, kw_only=True):
    """How closely to look."""

    target: Path
    fs: Fs
    hashes: bool

    def at(self, folder: str, names: set[str]) -> FolderView:
        """Look into one folder for folded names."""
        bad = bool(folder and unsafe_path(folder))
        problem = "missing" if bad else folder_problem(self.target, folder, self.fs)
        path = self.target / folder
        seen = None if problem else self.fs.look(path)
        if seen is None:
            return FolderView(problem=problem or "missing")
        entries: dict[str, tuple[PlanEntry, ...]] = {}
        for entry in self._entries(path, names):
            folded = fold(entry.name)
            entries[folded] = (*entries.get(folded, ()), entry)
        writable = self.fs.writable(path)
        return FolderView(device=seen.device, mtime_ns=seen.mtime_ns, writable=writable, entries=entries)

    def _entries(self, folder: Path, names: set[str]) -> Iterator[PlanEntry]:
        """Look at every name that means one of ``names``; one that has just gone is left out."""
        for name in self.fs.names(folder) if names else ():
            path = folder / name if fold(name) in names else None
            seen = self.fs.look(path) if path is not None else None
            if path is not None and seen is not None:
                known = self.hashes and seen.kind in {FileKind.FILE, FileKind.LINK}
                yield PlanEntry(name=name, seen=seen, sha256=self.fs.sha256(path) if known else "")


def _listed(fs: Fs, folder: Path) -> list[str]:
    """List a folder near the program; one that is not ours to read has no names."""
    try:
        return list(fs.names(folder))
    except OSError:
        return []


def _machine(path: Path) -> str:
    """Read the head of a program or library."""
    try:
        with Path(extended_path(path)).open("rb") as file:
            return machine_of(file.read(HEAD))
    except OSError:
        return ""


#: What Linux takes for an absolute path, in bytes.
_LONGEST_PATH: Final = 4096


class Sight(Struct, frozen=True, kw_only=True):
    """One name and what is kept for it.

    Attributes:
        now, kept: for the decision table.
        there: the file at the name when it was looked at.
        untouched: our file waits in ``new/`` still and is another file than the one at the name.
        folder_missing: the folder of the name is gone.
    """

    now: CurrentState
    kept: BackupState
    there: Seen | None
    untouched: bool
    folder_missing: bool


def is_ours(action: Action, path: Path, seen: Seen, fs: Fs) -> bool:
    """Say whether a file has exactly the bytes that we placed."""
    return seen.kind is FileKind.FILE and seen.size == action.size and fs.sha256(path) == action.sha256


class Stored(Struct, frozen=True, kw_only=True):
    """The names in ``new`` and ``originals``, listed once: while we hold the lock only we change them."""

    new: frozenset[str]
    originals: frozenset[str]


def stored_in(layout: Layout, fs: Fs) -> Stored:
    """List what the state folder holds."""
    new, originals = layout.new(0).parent, layout.original(0).parent
    return Stored(new=frozenset(fs.names(new)), originals=frozenset(fs.names(originals)))


def look_at(action: Action, layout: Layout, fs: Fs, stored: Stored) -> Sight:
    """Look at the name, the original and our waiting copy; hash as little as the table needs."""
    here, name = layout.inside(action.path), numbered(action.number)
    there = fs.look(here)
    spare = fs.look(layout.original(action.number)) if name in stored.originals else None
    waiting = fs.look(layout.new(action.number)) if name in stored.new else None
    now = _now(action, here, there, fs)
    return Sight(
        now=now,
        kept=_kept(action, layout, spare, there=there, now=now, fs=fs),
        there=there,
        untouched=waiting is not None and not waiting.same_file(there),
        folder_missing=there is None and fs.look(here.parent) is None,
    )


def check_folders(layout: Layout, fs: Fs, journal: Journal) -> None:
    """Refuse a journal that leads through a link.

    Raises:
        JournalError: ``journal-unsafe``.
    """
    folders = {action.folder for action in journal.actions} | set(journal.folders) | set(journal.reset)
    for path in (*folders, *(action.path for action in journal.actions)):
        if sys.platform != "win32" and len(os.fsencode(layout.inside(path))) >= _LONGEST_PATH:
            msg = "the journal names a path that is too long for this system"
            raise JournalError(
                "journal-unsafe", msg, context=("nothing was changed",), hint="look at it by hand"
            )
    for folder in sorted(folders):
        if folder_problem(layout.target, folder, fs) in {"link", "not-a-folder"}:
            msg = f"{layout.inside(folder)} is reached through a link, so nothing there is touched"
            hint = "put the real folder back in its place, then undo again"
            raise JournalError("journal-unsafe", msg, context=("nothing was changed",), hint=hint)


def _now(action: Action, path: Path, seen: Seen | None, fs: Fs) -> CurrentState:
    """Tell what lies at the name."""
    if seen is None:
        return CurrentState.ABSENT
    before = action.before
    sizes = {action.size} | ({before.size} if before else set())
    if seen.kind not in {FileKind.FILE, FileKind.LINK} or (
        seen.kind is FileKind.FILE and seen.size not in sizes
    ):
        return CurrentState.OTHER
    digest = fs.sha256(path)
    if (seen.kind, seen.size, digest) == (FileKind.FILE, action.size, action.sha256):
        return CurrentState.OURS
    same = before is not None and (seen.kind, digest) == (before.kind, before.sha256)
    return CurrentState.BEFORE if same else CurrentState.OTHER


def _kept(
    action: Action, layout: Layout, seen: Seen | None, *, there: Seen | None, now: CurrentState, fs: Fs
) -> BackupState:
    """Tell what is kept; where ours stands at the name, only its being there matters."""
    if seen is None or seen.kind not in {FileKind.FILE, FileKind.LINK}:
        return BackupState.NOTHING
    if seen.same_file(there):
        return BackupState.SAME
    path = layout.original(action.number)
    if is_ours(action, path, seen, fs):
        return BackupState.OURS
    before = action.before
    if now is CurrentState.OURS or before is None:
        return BackupState.ORIGINAL if before else BackupState.OTHER
    known = seen.kind is before.kind and fs.sha256(path) == before.sha256
    return BackupState.ORIGINAL if known else BackupState.OTHER


class CurrentState(StrEnum):
    """What lies at the name."""

    ABSENT = "absent"
    OURS = "ours"
    BEFORE = "as before"
    OTHER = "something else"


class BackupState(StrEnum):
    """What lies at the original's place in the state folder."""

    NOTHING = "nothing"
    ORIGINAL = "the original"
    SAME = "the same file under a second name"
    OURS = "ours"
    OTHER = "something else"


class UndoAction(StrEnum):
    """What an undo does about one name."""

    DONE = "nothing to do"
    REMOVE = "remove ours"
    RESTORE = "trade ours for the original"
    RETURN = "move the original back"
    DROP = "forget the spare name"
    LOST = "keep and list: the original is lost"
    CHANGED = "keep and list: changed meanwhile"


#: For files that we created: by what is there now.
CREATED: Final[Mapping[CurrentState, UndoAction]] = {
    CurrentState.ABSENT: UndoAction.DONE,
    CurrentState.OURS: UndoAction.REMOVE,
    CurrentState.BEFORE: UndoAction.CHANGED,
    CurrentState.OTHER: UndoAction.CHANGED,
}

#: For files that we replaced: by what is there now and what is kept.
REPLACED: Final[Mapping[tuple[CurrentState, BackupState], UndoAction]] = {
    (CurrentState.OURS, BackupState.ORIGINAL): UndoAction.RESTORE,
    (CurrentState.OURS, BackupState.OTHER): UndoAction.RESTORE,
    (CurrentState.OURS, BackupState.NOTHING): UndoAction.LOST,
    (CurrentState.OURS, BackupState.SAME): UndoAction.LOST,
    (CurrentState.OURS, BackupState.OURS): UndoAction.LOST,
    (CurrentState.ABSENT, BackupState.ORIGINAL): UndoAction.RETURN,
    (CurrentState.ABSENT, BackupState.OTHER): UndoAction.RETURN,
    (CurrentState.ABSENT, BackupState.NOTHING): UndoAction.LOST,
    (CurrentState.ABSENT, BackupState.SAME): UndoAction.LOST,
    (CurrentState.ABSENT, BackupState.OURS): UndoAction.LOST,
    (CurrentState.BEFORE, BackupState.NOTHING): UndoAction.DONE,
    (CurrentState.BEFORE, BackupState.SAME): UndoAction.DROP,
    (CurrentState.BEFORE, BackupState.ORIGINAL): UndoAction.DROP,
    (CurrentState.BEFORE, BackupState.OURS): UndoAction.DROP,
    (CurrentState.BEFORE, BackupState.OTHER): UndoAction.CHANGED,
    (CurrentState.OTHER, BackupState.NOTHING): UndoAction.CHANGED,
    (CurrentState.OTHER, BackupState.SAME): UndoAction.DROP,
    (CurrentState.OTHER, BackupState.ORIGINAL): UndoAction.CHANGED,
    (CurrentState.OTHER, BackupState.OURS): UndoAction.DROP,
    (CurrentState.OTHER, BackupState.OTHER): UndoAction.CHANGED,
}


def judge(deed: Deed, now: CurrentState, kept: BackupState, *, untouched: bool) -> UndoAction:
    """Decide about one name.

    ``untouched`` says that our file is still waiting in ``new/`` and is not what lies at the name:
    then nothing of ours ever had the name, and whatever is there is the user's own business.
    """
    if untouched and kept is BackupState.NOTHING:
        return UndoAction.DONE
    if deed is Deed.CREATE:
        return CREATED[now]
    return REPLACED[now, kept]
