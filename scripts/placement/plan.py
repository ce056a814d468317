"""From a look at the target to what would be done: pure, and the refusals come first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from scripts.errors import ConflictError, TargetError, WorkspaceError
from scripts.guards import GuardSign
from scripts.osal.file_operations import FileKind, Seen
from scripts.placement.layout import fold


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
    """

    target: Path
    folders: Mapping[str, FolderView]
    free: int
    guard: GuardSign | None = None
    in_use: frozenset[Path] = frozenset()
    machine: str = ""
    machines: Mapping[str, str] = field(default_factory=dict)


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
