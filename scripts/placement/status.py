"""What is placed on this machine, target by target, as far as the registry knows; reads only."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from scripts.errors import JournalError
from scripts.osal.file_operations import Fs
from scripts.osal.text import option
from scripts.placement import state as users
from scripts.placement.inspect import BRING_BACK, UNREACHABLE
from scripts.placement.journal import Journal, JournalStep
from scripts.placement.layout import Layout
from scripts.placement.rollback import REAL
from scripts.placement.state import check_state, journal_or_memory, outstanding, recalled
from scripts.serialize import JsonRecord
from scripts.staging.state_folder import LOST, PLACEMENTS, PlacementRegistry


class TargetState(StrEnum):
    """How a target stands."""

    IN_USE = "in use"
    KEPT = "kept"
    LEFT_OVER = "left over"
    HALF_PLACED = "half-placed"
    HALF_UNDONE = "half-undone"
    CLEAN_UP = "clean-up pending"
    NOTHING = "nothing placed"
    MISSING = "folder missing or moved"
    AWAY = "its disk does not answer"
    UNREADABLE = "journal not trusted"
    LOST = "lost: its record vanished"


#: What a placement looks like after an undo that could not put back everything.
_AFTER: Final = frozenset({TargetState.HALF_UNDONE, TargetState.LEFT_OVER})


class PlacementStatus(JsonRecord, frozen=True, kw_only=True):
    """One target. ``advice`` is what a person can do, empty if nothing is needed."""

    target: Path
    standing: TargetState
    stack: str = ""
    digest: str = ""
    created: str = ""
    files: tuple[str, ...] = ()
    users: tuple[int, ...] = ()
    advice: str = ""


def placements(registry: PlacementRegistry, *, fs: Fs = REAL) -> tuple[PlacementStatus, ...]:
    """Look at every listed target. Targets where nothing is placed any more are taken off the list."""
    found = [
        placement_status(
            entry.path,
            fs=fs,
            memory=recalled(registry.memory(PLACEMENTS, entry.path)),
            lost=LOST in entry.facts,
        )
        for entry in registry.entries(PLACEMENTS)
    ]
    for status in found:
        if status.standing is TargetState.NOTHING:
            registry.remove(PLACEMENTS, status.target)
    return tuple(status for status in found if status.standing is not TargetState.NOTHING)


def placement_status(
    target: Path, *, fs: Fs = REAL, memory: Journal | None = None, lost: bool = False
) -> PlacementStatus:
    """Look at one target.

    Args:
        target: the folder.
        fs: the file system.
        memory: what is remembered of the placement outside the target.
        lost: an earlier undo found that the target's record had vanished and could not put back everything.
    """
    layout = Layout(target)
    try:
        gone = fs.look(target) is None
    except OSError:
        return PlacementStatus(target=target, standing=TargetState.AWAY, advice=BRING_BACK)
    if gone:
        advice = (
            'if it was moved: invoke unwrap --target="NEW PLACE"; if its disk is away: bring it back; '
            f"if it was deleted: invoke unwrap {option('target', target)} --theirs takes it off the list"
        )
        return PlacementStatus(target=target, standing=TargetState.MISSING, advice=advice)
    try:
        there = check_state(layout, fs)
        journal, vanished = journal_or_memory(layout, fs, memory) if there else (None, False)
        if vanished or (not there and memory is not None and outstanding(layout, fs, memory)):
            return _lost(target, memory)
        if journal is None:
            half = fs.look(layout.state) is not None
            standing = TargetState.HALF_PLACED if half else TargetState.NOTHING
            return PlacementStatus(target=target, standing=standing, advice=_way_out(target) if half else "")
        status = _standing(layout, journal, fs)
    except (JournalError, OSError) as error:
        away = isinstance(error, OSError) and error.errno in UNREACHABLE
        standing = TargetState.AWAY if away else TargetState.UNREADABLE
        return PlacementStatus(target=target, standing=standing, advice=BRING_BACK if away else str(error))
    return replace(status, standing=TargetState.LOST) if lost and status.standing in _AFTER else status


def _lost(target: Path, memory: Journal | None) -> PlacementStatus:
    """Say what is remembered of a placement whose record vanished."""
    return PlacementStatus(
        target=target,
        standing=TargetState.LOST,
        stack=memory.stack if memory else "",
        digest=memory.digest if memory else "",
        created=memory.created if memory else "",
        files=tuple(action.path for action in memory.actions) if memory else (),
        advice=_way_out(target),
    )


def _standing(layout: Layout, journal: Journal, fs: Fs) -> PlacementStatus:
    """Say how a target with a journal stands."""
    alive = tuple(user.pid for user in users.live(layout, fs))
    by_step = {
        JournalStep.BEGIN: TargetState.HALF_PLACED,
        JournalStep.UNDOING: TargetState.HALF_UNDONE,
        JournalStep.UNDONE: TargetState.CLEAN_UP,
        JournalStep.COMMITTED: TargetState.LEFT_OVER,
    }
    standing = by_step[journal.step]
    if standing is TargetState.LEFT_OVER and alive:
        standing = TargetState.IN_USE
    elif standing is TargetState.LEFT_OVER and users.kept(layout, fs):
        standing = TargetState.KEPT
    return PlacementStatus(
        target=layout.target,
        standing=standing,
        stack=journal.stack,
        digest=journal.digest,
        created=journal.created,
        files=tuple(action.path for action in journal.actions),
        users=alive,
        advice="" if standing is TargetState.IN_USE else _way_out(layout.target),
    )


def _way_out(target: Path) -> str:
    return f"take it back: invoke unwrap {option('target', target)}"
