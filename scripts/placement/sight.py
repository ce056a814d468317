"""What an undo sees at one name; every judgement rests on hashes, not on the journal's word."""

from __future__ import annotations

from pathlib import Path

from scripts.errors import JournalError
from scripts.placement.journal import Journal
from scripts.placement.layout import Layout, numbered
from scripts.placement.plan import Action
from scripts.placement.snapshot import folder_problem
from scripts.placement.verdict import Kept, Now
from scripts.records import dataclass
from scripts.system.fsops import Fs, Kind, Seen


@dataclass(frozen=True, kw_only=True)
class Sight:
    """One name and what is kept for it.

    Attributes:
        now, kept: for the decision table.
        there: the file at the name when it was looked at.
        untouched: our file waits in ``new/`` still and is another file than the one at the name.
        folder_missing: the folder of the name is gone.
    """

    now: Now
    kept: Kept
    there: Seen | None
    untouched: bool
    folder_missing: bool


def is_ours(action: Action, path: Path, seen: Seen, fs: Fs) -> bool:
    """Say whether a file has exactly the bytes that we placed."""
    return seen.kind is Kind.FILE and seen.size == action.size and fs.sha256(path) == action.sha256


@dataclass(frozen=True, kw_only=True)
class Stored:
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
    for folder in sorted(folders):
        if folder_problem(layout.target, folder, fs) in {"link", "not-a-folder"}:
            msg = f"{layout.inside(folder)} is reached through a link, so nothing there is touched"
            hint = "put the real folder back in its place, then undo again"
            raise JournalError("journal-unsafe", msg, context=("nothing was changed",), hint=hint)


def _now(action: Action, path: Path, seen: Seen | None, fs: Fs) -> Now:
    """Tell what lies at the name."""
    if seen is None:
        return Now.ABSENT
    before = action.before
    sizes = {action.size} | ({before.size} if before else set())
    if seen.kind not in {Kind.FILE, Kind.LINK} or (seen.kind is Kind.FILE and seen.size not in sizes):
        return Now.OTHER
    digest = fs.sha256(path)
    if (seen.kind, seen.size, digest) == (Kind.FILE, action.size, action.sha256):
        return Now.OURS
    same = before is not None and (seen.kind, digest) == (before.kind, before.sha256)
    return Now.BEFORE if same else Now.OTHER


def _kept(action: Action, layout: Layout, seen: Seen | None, *, there: Seen | None, now: Now, fs: Fs) -> Kept:
    """Tell what is kept; where ours stands at the name, only its being there matters."""
    if seen is None or seen.kind not in {Kind.FILE, Kind.LINK}:
        return Kept.NOTHING
    if seen.same_file(there):
        return Kept.SAME
    path = layout.original(action.number)
    if is_ours(action, path, seen, fs):
        return Kept.OURS
    before = action.before
    if now is Now.OURS or before is None:
        return Kept.ORIGINAL if before else Kept.OTHER
    known = seen.kind is before.kind and fs.sha256(path) == before.sha256
    return Kept.ORIGINAL if known else Kept.OTHER
