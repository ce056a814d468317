"""From a look at the target to what would be done, and the reasons to change nothing. Pure."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from scripts.errors import ConflictError, TargetError, WorkspaceError
from scripts.guards import GuardSign, guarded
from scripts.osal.file_operations import FileKind, Seen
from scripts.osal.paths import refusal
from scripts.osal.text import option
from scripts.placement.layout import fold, unsafe_path


class PlacementItem(Struct, frozen=True, kw_only=True):
    """One file that a program shall find under ``name`` in ``folder``.

    Attributes:
        folder: POSIX path below the target, empty for the target itself.
        name: the file name the program asks for.
        source: the verified file in the store.
        sha256: its hash, lower-case hex; checked again while it is copied.
        size: its bytes.
    """

    folder: str
    name: str
    source: Path
    sha256: str
    size: int

    @property
    def path(self) -> str:
        """POSIX path below the target."""
        return f"{self.folder}/{self.name}" if self.folder else self.name


class PlanEntry(Struct, frozen=True, kw_only=True):
    """A name that lies where an item shall go, under its real spelling.

    ``sha256`` is of the bytes or of a link's text, empty where not hashed.
    """

    name: str
    seen: Seen
    sha256: str = ""


class FolderView(Struct, frozen=True, kw_only=True):
    """A folder below the target that items name; ``problem`` is empty for a plain folder."""

    problem: str = ""
    device: int = 0
    mtime_ns: int = 0
    writable: bool = True
    entries: Mapping[str, tuple[PlanEntry, ...]] = field(default_factory=dict)


class Snapshot(Struct, frozen=True, kw_only=True):
    """What one look at the target showed.

    Attributes:
        target: the real path.
        folders: by the items' ``folder``; their entries by folded name.
        free: bytes free on the target's volume.
        guard: the sign of an anti-cheat system near the program, ``None`` without one.
        in_use: files at the items' names that a running program holds, by their own path.
        machine: what the program is made for, empty if unknown.
        machines: what the items are made for, by item path.
        program: for whom it is placed, where that is known.
    """

    target: Path
    folders: Mapping[str, FolderView]
    free: int
    guard: GuardSign | None = None
    in_use: frozenset[Path] = frozenset()
    machine: str = ""
    machines: Mapping[str, str] = field(default_factory=dict)
    program: Path | None = None


class Deed(StrEnum):
    """What happens to a name."""

    CREATE = "create"
    REPLACE = "replace"


class Before(Struct, frozen=True, kw_only=True):
    """What an original was: for a link, hash and size are of its text."""

    kind: FileKind
    sha256: str
    size: int
    mtime_ns: int
    mode: int


class Action(Struct, frozen=True, kw_only=True):
    """One name that will be ours; ``number`` names its files in the state folder."""

    number: int
    deed: Deed
    folder: str
    name: str
    sha256: str
    size: int
    before: Before | None = None

    @property
    def path(self) -> str:
        """POSIX path below the target."""
        return f"{self.folder}/{self.name}" if self.folder else self.name


class PlacementRefusal(Struct, frozen=True, kw_only=True):
    """A reason to change nothing."""

    reference: str
    message: str
    facts: tuple[str, ...] = ()
    hint: str = ""

    def error(self) -> WorkspaceError:
        """Return the error to raise for it."""
        conflict = self.reference in {"file-in-use", "other-stack-placed"}
        kind = ConflictError if conflict else TargetError
        return kind(self.reference, self.message, context=self.facts, hint=self.hint)


class PlacementPlan(Struct, frozen=True, kw_only=True):
    """What placing would do, or why it would not.

    ``sources`` holds the file to copy for each action, in order. ``originals`` holds what was seen
    at the names to be replaced, by number, so that a change since then is noticed.
    """

    target: Path
    stack: str
    digest: str
    actions: tuple[Action, ...] = ()
    sources: tuple[Path, ...] = ()
    originals: Mapping[int, Seen] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)
    identical: tuple[str, ...] = ()
    refusals: tuple[PlacementRefusal, ...] = ()
    warnings: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise the first refusal, if there is one."""
        if self.refusals:
            raise self.refusals[0].error()

    def to_json(self) -> dict[str, object]:
        """Return what ``wrap --explain`` shows."""
        return {
            "target": os.fspath(self.target),
            "stack": self.stack,
            "create": [a.path for a in self.actions if a.deed is Deed.CREATE],
            "replace": [a.path for a in self.actions if a.deed is Deed.REPLACE],
            "identical": list(self.identical),
            "refusals": [{"reference": r.reference, "message": r.message} for r in self.refusals],
            "warnings": list(self.warnings),
        }


def plan(
    snapshot: Snapshot,
    items: Sequence[PlacementItem],
    *,
    stack: str,
    digest: str,
    refusals: Iterable[PlacementRefusal] = (),
    warnings: Iterable[str] = (),
) -> PlacementPlan:
    """Decide name by name; what is already identical is dropped. With refusals there are no actions."""
    refused = tuple(refusals)
    if refused:
        return PlacementPlan(
            target=snapshot.target, stack=stack, digest=digest, refusals=refused, warnings=tuple(warnings)
        )
    actions: list[Action] = []
    sources: list[Path] = []
    originals: dict[int, Seen] = {}
    identical: list[str] = []
    for item in items:
        found = snapshot.folders[item.folder].entries.get(fold(item.name), ())
        entry = found[0] if found else None
        if entry and (entry.seen.kind, entry.seen.size, entry.sha256) == (
            FileKind.FILE,
            item.size,
            item.sha256,
        ):
            identical.append(item.path)
            continue
        number = len(actions) + 1
        actions.append(_action(number, item, entry))
        sources.append(item.source)
        if entry:
            originals[number] = entry.seen
    return PlacementPlan(
        target=snapshot.target,
        stack=stack,
        digest=digest,
        actions=tuple(actions),
        sources=tuple(sources),
        originals=originals,
        folders={name: snapshot.folders[name].mtime_ns for name in sorted({a.folder for a in actions})},
        identical=tuple(identical),
        warnings=tuple(warnings),
    )


def _action(number: int, item: PlacementItem, entry: PlanEntry | None) -> Action:
    """Replace what lies there, under its real spelling, or create."""
    before = None
    if entry:
        seen = entry.seen
        before = Before(
            kind=seen.kind, sha256=entry.sha256, size=seen.size, mtime_ns=seen.mtime_ns, mode=seen.mode
        )
    return Action(
        number=number,
        deed=Deed.REPLACE if entry else Deed.CREATE,
        folder=item.folder,
        name=entry.name if entry else item.name,
        sha256=item.sha256,
        size=item.size,
        before=before,
    )


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
        *refuse_system(snapshot.target, system_folders, snapshot.program),
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


def another_way(program: Path | None) -> str:
    """Advise to look at the other ways in, by a line that is complete where the program is known."""
    named = f" {option('exe', program)}" if program else ""
    return f"use another way: see `invoke wrap --explain{named}`"


def refuse_system(
    target: Path, more: Sequence[Path], program: Path | None = None
) -> Iterator[PlacementRefusal]:
    """Yield the refusal of the operating system's own folders; nothing is looked at."""
    inside = any(target.is_relative_to(tree) for tree in (*SYSTEM_TREES, *more))
    shared = target in SHARED_FOLDERS or target == target.parent  # the top of a drive or share
    if (inside and not target.is_relative_to(NOT_SYSTEM)) or shared:
        yield PlacementRefusal(
            reference="system-folder",
            message=f"{target} belongs to the operating system or to many programs",
            hint=f"copy the program into a folder of its own, or {another_way(program)}",
        )


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
            hint=f"free some space there, or {another_way(snapshot.program)}",
        )
