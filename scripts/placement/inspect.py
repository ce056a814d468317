"""What an undo sees at one name; every judgement rests on hashes, not on the journal's word."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.errors import JournalError
from scripts.osal.file_operations import FileKind, Fs, Seen
from scripts.placement.journal import Journal
from scripts.placement.layout import Layout, numbered
from scripts.placement.plan import Action, Deed
from scripts.placement.snapshot import folder_problem

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
