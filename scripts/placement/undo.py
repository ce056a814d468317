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
from scripts.placement.registry import PLACEMENTS, Registry
from scripts.placement.report import Mode, UndoReport
from scripts.placement.restore import Undo
from scripts.placement.snapshot import real_target
from scripts.placement.state import clear, load
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
    with _blocked(layout), target_lock(layout, fs, wait=wait) as held:
        if held is None:
            report = UndoReport(target=layout.target)
        else:
            others = tuple(other for other in users.live(layout, fs) if other != user)
            journal = load(layout, fs)
            if others and journal is not None and journal.step is Step.COMMITTED:
                ids = ", ".join(str(other.pid) for other in others)
                msg = f"a running program uses what is placed in {layout.target} (process {ids})"
                raise ConflictError("placement-in-use", msg, hint="end that program first")
            report = undo_held(held, fs, journal, mode=Mode(mode))
    if registry and report.complete and not report.pending:
        registry.remove(PLACEMENTS, layout.target)
    return report


def leave(
    target: Path, user: User, *, fs: Fs = REAL, registry: Registry | None = None, wait: float = WAIT
) -> UndoReport | None:
    """Stop using a placement; the last one out undoes it. ``None`` if it stays for others or was kept."""
    layout = Layout(real_target(target))
    with _blocked(layout), target_lock(layout, fs, wait=wait) as held:
        if held is None:
            return None
        users.detach(layout, fs, user.name)
        if users.kept(layout, fs) or users.live(layout, fs):
            return None
        report = undo_held(held, fs, load(layout, fs))
    if registry and report.complete and not report.pending:
        registry.remove(PLACEMENTS, layout.target)
    return report


def undo_held(held: Held, fs: Fs, journal: Journal | None, *, mode: Mode = Mode.SAFE) -> UndoReport:
    """Undo under the lock and, if that was everything, take the state folder away."""
    layout = held.layout
    with _blocked(layout):
        report = UndoReport(target=layout.target)
        if journal is not None:
            report = Undo(layout=layout, fs=fs, journal=journal, mode=mode).run()
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
        raise UndoIncompleteError("undo-blocked", msg, hint=hint) from error
