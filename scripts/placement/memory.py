"""What was placed, remembered outside the target: for when ``.cuda-amd`` or its journal vanishes there.

The memory is a journal of its own, kept in the user's state folder and read with the same suspicion. With it
the target's journal is written again, so that the ordinary undo decides by what the disk shows.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from scripts.errors import ConflictError, JournalError
from scripts.osal.file_operations import Fs
from scripts.osal.process_table import User, running
from scripts.placement import journal as journals
from scripts.placement.inspect import UndoAction, judge, look_at, stored_in
from scripts.placement.journal import Journal, JournalStep
from scripts.placement.layout import Layout
from scripts.placement.registry import LOST, PLACEMENTS, PlacementRegistry
from scripts.placement.report import Left, UndoReport
from scripts.placement.state import load


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
