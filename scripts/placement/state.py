"""A target's ``.cuda-amd`` folder: opened with suspicion, taken away in an order that no crash can spoil."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final, NoReturn

from scripts.errors import JournalError
from scripts.osal.file_operations import FileKind, Fs
from scripts.placement import journal as journal_read
from scripts.placement.inspect import is_ours
from scripts.placement.journal import Journal
from scripts.placement.layout import FILES, FOLDERS, STATE, Layout, numbered
from scripts.placement.plan import Action

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
    if seen and seen.size > journal_read.LONGEST:
        _unsafe(layout, f"holds a journal of {seen.size:,} bytes")
    journal = journal_read.parse(fs.read(layout.journal)) if seen else None
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
        number = 0
        while True:
            number += 1
            new = f"{name.rpartition('/')[2]}.cuda-amd-found" + (f"-{number}" if number > 1 else "")
            try:
                fs.rename_new(layout.inside(name), layout.target / new)
            except FileExistsError:
                continue
            break
        moved.append(new)
    return tuple(moved)


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
        if not any(name.startswith(f"{folder}/") for name in held):
            fs.rmdir(layout.state / folder)
    if held:
        return tuple(held)
    fs.unlink(layout.readme)
    fs.sync_folder(layout.state)
    fs.unlink(layout.journal)
    return ()


def _unsafe(layout: Layout, why: str) -> NoReturn:
    """Refuse to work with a state folder."""
    msg = f"{layout.state} {why}"
    hint = "look what it is, since it is not ours, and move it away if the program does not need it"
    raise JournalError("journal-unsafe", msg, context=("nothing was changed",), hint=hint)
