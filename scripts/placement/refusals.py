"""Reasons to change nothing, as a pure function of what was seen."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final

from scripts.guards import guarded
from scripts.osal.file_operations import FileKind
from scripts.osal.paths import refusal
from scripts.placement.layout import fold, unsafe_path
from scripts.placement.plan import FolderView, PlacementItem, PlacementRefusal, Snapshot

#: Room for the journal, the README and the folders beside the copies.
SLACK: Final = 256 * 1024
_BLOCK: Final = 4096

#: Folders that belong to the operating system, with everything below them …
SYSTEM_TREES: Final = tuple(
    Path(name)
    for name in (
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys"),
        *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/sbin", "/usr/share"),
    )
)
#: … except this one, which is a place for files of any owner.
NOT_SYSTEM: Final = Path("/dev/shm")  # noqa: S108 - a name to compare with, nothing is written there
#: Folders that are shared by many programs, by themselves.
SHARED_FOLDERS: Final = tuple(
    Path(name) for name in ("/", "/usr", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/opt", "/home")
)
_PROBLEMS: Final = {
    "missing": ("folder-missing", "does not exist"),
    "link": ("folder-is-link", "is reached through a link or junction"),
    "not-a-folder": ("folder-missing", "is not a folder"),
}


def refuse(
    snapshot: Snapshot, items: Sequence[PlacementItem], *, system_folders: Sequence[Path] = ()
) -> tuple[PlacementRefusal, ...]:
    """Return every reason against placing these items, the most basic first."""
    folders = {item.folder: snapshot.folders[item.folder] for item in items}
    return (
        *_bad_names(items),
        *refuse_system(snapshot.target, system_folders),
        *_folders(snapshot, folders),
        *_anti_cheat(snapshot),
        *_machines(snapshot, items),
        *_entries(snapshot, items),
        *_space(snapshot, items),
    )


def warn(snapshot: Snapshot, items: Sequence[PlacementItem]) -> tuple[str, ...]:
    """Return what a person should know although it stops nothing."""
    if sys.platform == "win32" or not snapshot.in_use:
        return ()
    return tuple(
        f"{item.path} is mapped by a running program, which keeps the old file until it ends"
        for item in items
        for entry in snapshot.folders[item.folder].entries.get(fold(item.name), ())
        if snapshot.target / item.folder / entry.name in snapshot.in_use
    )


def _bad_names(items: Sequence[PlacementItem]) -> Iterator[PlacementRefusal]:
    """Paths that no journal of ours may hold, and two items for one name."""
    for item in items:
        why = unsafe_path(item.path)
        if not why and "/" in item.name:
            why = "has a folder in its name"
        if not why and (rule := refusal(item.name)) is not None:
            why = rule.sentence
        if why:
            yield PlacementRefusal(reference="path-unsafe", message=f"{item.path!r} {why}")
    counted = Counter(fold(item.path) for item in items)
    for path, times in counted.items():
        if times > 1:
            yield PlacementRefusal(
                reference="name-twice", message=f"{times} files would be placed as {path!r}"
            )


def refuse_system(target: Path, more: Sequence[Path]) -> Iterator[PlacementRefusal]:
    """Yield the refusal of the operating system's own folders; nothing is looked at."""
    inside = any(target.is_relative_to(tree) for tree in (*SYSTEM_TREES, *more))
    if (inside and not target.is_relative_to(NOT_SYSTEM)) or target in SHARED_FOLDERS or _is_top(target):
        yield PlacementRefusal(
            reference="system-folder",
            message=f"{target} belongs to the operating system or to many programs",
            hint="copy the program into a folder of its own, or use another way: see `invoke wrap --explain`",
        )


def _is_top(target: PurePath) -> bool:
    """A drive's or share's top folder belongs to everybody."""
    return target == target.parent


def _folders(snapshot: Snapshot, folders: dict[str, FolderView]) -> Iterator[PlacementRefusal]:
    """Folders that are not there, not plain, not writable, or on another volume."""
    device = snapshot.folders[""].device
    for folder, view in {"": snapshot.folders[""], **folders}.items():
        where = snapshot.target / folder
        if view.problem:
            reference, words = _PROBLEMS[view.problem]
            yield PlacementRefusal(reference=reference, message=f"{where} {words}")
        elif view.device != device:
            yield PlacementRefusal(
                reference="other-volume", message=f"{where} lies on another volume than {snapshot.target}"
            )
        elif not view.writable:
            yield PlacementRefusal(
                reference="target-not-writable",
                message=f"{where} cannot be written by this user",
                hint="copy the program into a folder of your own; administrator rights are not needed",
            )


def _anti_cheat(snapshot: Snapshot) -> Iterator[PlacementRefusal]:
    """Games that watch their own files."""
    if snapshot.guard is not None:
        refusal = guarded(snapshot.guard)
        yield PlacementRefusal(
            reference=refusal.reference, message=refusal.message, facts=refusal.context, hint=refusal.hint
        )


def _machines(snapshot: Snapshot, items: Sequence[PlacementItem]) -> Iterator[PlacementRefusal]:
    """A 32-bit program cannot load a 64-bit library."""
    for item in items:
        made_for = snapshot.machines.get(item.path, "")
        if made_for and snapshot.machine and made_for != snapshot.machine:
            yield PlacementRefusal(
                reference="machine-differs",
                message=f"the program is made for {snapshot.machine}, {item.name} for {made_for}",
            )
            return


def _entries(snapshot: Snapshot, items: Sequence[PlacementItem]) -> Iterator[PlacementRefusal]:
    """Names that cannot be replaced as they are."""
    for item in items:
        found = snapshot.folders[item.folder].entries.get(fold(item.name), ())
        if len(found) > 1:
            spellings = ", ".join(entry.name for entry in found)
            yield PlacementRefusal(
                reference="name-ambiguous",
                message=f"several files could be meant: {spellings}",
                hint="look which of them the program uses, and move the other away",
            )
        for entry in found:
            if entry.seen.kind not in {FileKind.FILE, FileKind.LINK}:
                yield PlacementRefusal(
                    reference="not-a-file",
                    message=f"{item.path} is there and is not a file",
                    hint="see what it is and who made it, and move it away if it is not needed",
                )
            elif sys.platform == "win32" and snapshot.target / item.folder / entry.name in snapshot.in_use:
                yield PlacementRefusal(
                    reference="file-in-use",
                    message=f"{item.path} is in use by a running program",
                    hint="close the program and try again",
                )


def _space(snapshot: Snapshot, items: Sequence[PlacementItem]) -> Iterator[PlacementRefusal]:
    """All copies must fit before the first one is made."""
    need = SLACK + sum(-(-item.size // _BLOCK) * _BLOCK for item in items)
    if need > snapshot.free:
        yield PlacementRefusal(
            reference="too-little-space",
            message=f"{need:,} bytes are needed beside the program and {snapshot.free:,} are free",
            facts=(f"folder: {snapshot.target}",),
            hint="free some space there, or use another way: see `invoke wrap --explain`",
        )
