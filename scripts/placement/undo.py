"""Undo, recover, and leave: what is done to a target that something is placed in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from scripts.errors import ConflictError, UndoIncompleteError
from scripts.placement import users
from scripts.placement.journal import Journal, Step
from scripts.placement.layout import Layout
from scripts.placement.lock import WAIT, Held, target_lock
from scripts.placement.memory import journal_or_memory, outstanding, rebuild, recalled
from scripts.placement.registry import LOST, PLACEMENTS, Registry
from scripts.placement.report import Left, Mode, UndoReport
from scripts.placement.restore import Undo
from scripts.placement.snapshot import real_target
from scripts.placement.state import clear
from scripts.placement.users import User
from scripts.system.fsops import Fs

REAL: Final = Fs()


def undo(
    target: Path,
    *,
    mode: Mode | str = Mode.SAFE,
    fs: Fs = REAL,
    registry: Registry | None = None,
    user: User | None = None,
    wait: float = WAIT,
) -> UndoReport:
    """Take back whatever is placed in ``target``; nothing placed is a report of nothing.

    ``user`` is the caller, who does not count as somebody that still uses the placement.

    Raises:
        ConflictError: ``placement-in-use`` by a running process, or ``target-busy``.
        JournalError: the journal cannot be trusted; nothing was touched.
        UndoIncompleteError: ``undo-blocked``: the system refuses every change there.
    """
    layout = Layout(real_target(target))
    memory = recalled(registry.memory(PLACEMENTS, layout.target)) if registry else None
    vanished = _vanished(layout, fs, memory)
    if vanished:
        refuse_in_use(layout, remembered_users(registry, layout.target, but=user))
    with _blocked(layout), target_lock(layout, fs, create=vanished, wait=wait) as held:
        if held is None:
            report = UndoReport(target=layout.target)
        else:
            others = tuple(other for other in users.live(layout, fs) if other != user)
            journal, lost = journal_or_memory(layout, fs, memory)
            if lost:
                others += remembered_users(registry, layout.target, but=user)
            if journal is not None and journal.step is Step.COMMITTED:
                refuse_in_use(layout, others)
            report = undo_held(held, fs, journal, mode=Mode(mode), lost=lost)
    _note(registry, report)
    return report


def leave(
    target: Path,
    user: User,
    *,
    fs: Fs = REAL,
    registry: Registry | None = None,
    wait: float = WAIT,
    memory: Journal | None = None,
    keep: bool = False,
) -> UndoReport | None:
    """Stop using a placement; the last one out undoes it. ``None`` if it stays for others or was kept.

    ``memory`` is what was placed: where the target's own record has vanished, it says what is still ours.
    Without a record even what was placed to ``keep`` is reported, since only the memory can undo it.
    """
    layout = Layout(real_target(target))
    vanished = _vanished(layout, fs, memory)
    with _blocked(layout), target_lock(layout, fs, create=vanished, wait=wait) as held:
        if held is None:
            return None
        users.detach(layout, fs, user.name)
        stays = users.kept(layout, fs) or bool(users.live(layout, fs))
        if stays and not keep:
            return None
        journal, lost = journal_or_memory(layout, fs, memory)
        if stays and not lost:
            return None
        if keep and lost and memory is not None:
            report = UndoReport(target=layout.target, lost=True, kept=_kept_unrecorded(layout, fs, memory))
            if vanished:
                held.vanish()
        else:
            report = undo_held(held, fs, journal, lost=lost)
    _note(registry, report)
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
            report = replace(Undo(layout=layout, fs=fs, journal=journal, mode=mode).run(), lost=lost)
        if report.complete:
            held_files = clear(layout, fs)
            if not held_files:
                held.vanish()
            elif not report.pending:
                report = replace(report, pending=held_files)
    return report


def _kept_unrecorded(layout: Layout, fs: Fs, memory: Journal) -> tuple[Left, ...]:
    """List what was placed to stay and has no record beside it any more."""
    why = "it stays as --keep asked, but its record (.cuda-amd) vanished"
    return tuple(Left(path=path, why=why) for path in outstanding(layout, fs, memory))


def _vanished(layout: Layout, fs: Fs, memory: Journal | None) -> bool:
    """Whether the state folder is gone although files of ours, or their originals, are not as before."""
    return memory is not None and fs.look(layout.state) is None and bool(outstanding(layout, fs, memory))


def remembered_users(registry: Registry | None, target: Path, *, but: User | None) -> tuple[User, ...]:
    """Return who placed, where only the registry still knows it and the process runs."""
    entry = registry.entry(PLACEMENTS, target) if registry else None
    found = users.running(entry.facts.get("user", "")) if entry is not None else None
    return () if found is None or found == but else (found,)


def refuse_in_use(layout: Layout, others: tuple[User, ...]) -> None:
    """Refuse to take files from under a running program."""
    if others:
        ids = ", ".join(str(other.pid) for other in others)
        msg = f"a running program uses what is placed in {layout.target} (process {ids})"
        raise ConflictError("placement-in-use", msg, hint="end that program first")


def _note(registry: Registry | None, report: UndoReport) -> None:
    """Take a target that is as before off the list; note one whose record has vanished."""
    if registry is None:
        return
    if report.complete and not report.pending:
        registry.remove(PLACEMENTS, report.target)
    elif report.lost:
        entry = registry.entry(PLACEMENTS, report.target)
        facts = {k: v for k, v in entry.facts.items() if k != "user"} if entry is not None else {}
        registry.add(PLACEMENTS, report.target, **{**facts, LOST: "yes"})


@contextlib.contextmanager
def _blocked(layout: Layout) -> Iterator[None]:
    """Say in our words that the system refuses every change."""
    try:
        yield
    except OSError as error:
        msg = f"{layout.target} cannot be changed: {error.strerror or error}"
        hint = "make the folder writable (is the disk full?), then `invoke unwrap` again; nothing is lost"
        raise UndoIncompleteError("undo-blocked", msg, hint=hint) from error
