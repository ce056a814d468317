"""One look at a target; reads, hashes, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from scripts.binary.machine import HEAD, machine_of
from scripts.errors import TargetError
from scripts.guards import guard_near
from scripts.osal.file_operations import FileKind, Fs
from scripts.osal.fs import extended_path
from scripts.osal.user_path import plain_path
from scripts.placement.layout import fold, unsafe_path
from scripts.placement.plan import FolderView, PlacementItem, PlanEntry, Snapshot


def real_target(target: Path) -> Path:
    """Return the folder behind links, junctions and relative parts.

    Raises:
        TargetError: ``target-missing``.
    """
    try:
        real = plain_path(plain_path(target).resolve(strict=True))
    except (OSError, RuntimeError, ValueError):
        real = None
    if real is None or not real.is_dir():
        msg = f"{target} is not a folder"
        raise TargetError("target-missing", msg, hint="name the folder that holds the program")
    return real


def take_snapshot(
    target: Path,
    items: Sequence[PlacementItem],
    *,
    fs: Fs,
    program: Path | None = None,
    hashes: bool = True,
    in_use: bool = True,
) -> Snapshot:
    """Look at every folder and name the items speak of.

    With ``hashes=False`` originals are not read: enough for the refusals, not for a plan. With
    ``in_use=False`` it is not asked which running programs hold them.
    """
    look = _Look(target=target, fs=fs, hashes=hashes)
    wanted: dict[str, set[str]] = {"": set()}
    for item in items:
        wanted.setdefault(item.folder, set()).add(fold(item.name))
    views = {folder: look.at(folder, names) for folder, names in wanted.items()}
    in_use = in_use and any(view.entries for view in views.values())
    return Snapshot(
        target=target,
        folders=views,
        free=fs.free_bytes(target),
        guard=guard_near([target / folder for folder in wanted], partial(_listed, fs)),
        in_use=fs.in_use(_files(target, views)) if in_use else frozenset(),
        machine=_machine(program) if program else "",
        machines={item.path: _machine(item.source) for item in items} if program else {},
    )


def _files(target: Path, views: Mapping[str, FolderView]) -> list[Path]:
    """Name every plain file that was seen."""
    return [
        folder / entry.name
        for folder, view in ((target / name, view) for name, view in views.items())
        for found in view.entries.values()
        for entry in found
        if entry.seen.kind is FileKind.FILE
    ]


def folder_problem(target: Path, folder: str, fs: Fs) -> str:
    """Walk down from the target: empty, ``missing``, ``link`` or ``not-a-folder``."""
    path = target
    for part in (*folder.split("/"),) if folder else ():
        path /= part
        seen = fs.look(path)
        if seen is None:
            return "missing"
        if seen.kind is not FileKind.FOLDER:
            return "link" if seen.kind is FileKind.LINK else "not-a-folder"
    return ""


class _Look(Struct, frozen=True, kw_only=True):
    """How closely to look."""

    target: Path
    fs: Fs
    hashes: bool

    def at(self, folder: str, names: set[str]) -> FolderView:
        """Look into one folder for folded names."""
        bad = bool(folder and unsafe_path(folder))
        problem = "missing" if bad else folder_problem(self.target, folder, self.fs)
        path = self.target / folder
        seen = None if problem else self.fs.look(path)
        if seen is None:
            return FolderView(problem=problem or "missing")
        entries: dict[str, tuple[PlanEntry, ...]] = {}
        for entry in self._entries(path, names):
            folded = fold(entry.name)
            entries[folded] = (*entries.get(folded, ()), entry)
        writable = self.fs.writable(path)
        return FolderView(device=seen.device, mtime_ns=seen.mtime_ns, writable=writable, entries=entries)

    def _entries(self, folder: Path, names: set[str]) -> Iterator[PlanEntry]:
        """Look at every name that means one of ``names``; one that has just gone is left out."""
        for name in self.fs.names(folder) if names else ():
            path = folder / name if fold(name) in names else None
            seen = self.fs.look(path) if path is not None else None
            if path is not None and seen is not None:
                known = self.hashes and seen.kind in {FileKind.FILE, FileKind.LINK}
                yield PlanEntry(name=name, seen=seen, sha256=self.fs.sha256(path) if known else "")


def _listed(fs: Fs, folder: Path) -> list[str]:
    """List a folder near the program; one that is not ours to read has no names."""
    try:
        return list(fs.names(folder))
    except OSError:
        return []


def _machine(path: Path) -> str:
    """Read the head of a program or library."""
    try:
        with Path(extended_path(path)).open("rb") as file:
            return machine_of(file.read(HEAD))
    except OSError:
        return ""
