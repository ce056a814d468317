"""What a runtime will consist of, before a byte is written: every file's place, content and role."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from scripts.errors import IntegrityError
from scripts.model import Artifact, ArtifactFormat, RuntimeFile
from scripts.records import dataclass

if TYPE_CHECKING:
    from scripts.store.trees import Tree, TreeFile

#: The number of the manifest's and the digest's format.
FORMAT: Final = 1
#: Added to the stem of a library that a supplied one replaces: cublas64_11.dll stays as
#: cublas64_11_zluda.dll, the name that replacements load
#: (Speedstu/CUDA-for-AMD-Windows@e57fb8e, scripts/stage-runtime.ps1).
KEPT: Final = "_zluda"


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """One file of a runtime before it is assembled: what it will be, and where its bytes are now."""

    file: RuntimeFile
    source: Path


@dataclass(frozen=True, kw_only=True)
class RuntimePlan:
    """Everything an assembly will do."""

    stack: str
    files: tuple[PlannedFile, ...]

    @property
    def digest(self) -> str:
        """The name of the runtime that this will be."""
        return digest_of(self.runtime_files)

    @property
    def runtime_files(self) -> tuple[RuntimeFile, ...]:
        """The files as they will be."""
        return tuple(planned.file for planned in self.files)

    @property
    def bytes(self) -> int:
        """Disk the runtime takes when nothing can be linked."""
        return sum(f.size for f in self.runtime_files)


def digest_of(files: Iterable[RuntimeFile]) -> str:
    """SHA-256 over format, and place, content and role of every file; independent of paths and time."""
    rows = [[FORMAT], *sorted([f.name, f.sha256, f.provides or "", list(f.needs)] for f in files)]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def plan_runtime(
    stack: str, parts: Iterable[tuple[Artifact, Tree, str]], built: Iterable[PlannedFile] = ()
) -> RuntimePlan:
    """Lay out a runtime from unpacked parts; pure. A later part's pinned members replace an earlier part's.

    Files that a person supplies may call those they replace, so these stay beside them: see ``KEPT``.

    Args:
        stack: the stack's id, for messages only; it is not part of the digest.
        parts: artifact, its tree, and the folder of the runtime it goes into (empty for the top).
        built: files we compiled ourselves.

    Raises:
        IntegrityError: two parts bring different files for one name.
    """
    laid: dict[str, PlannedFile] = {planned.file.name.casefold(): planned for planned in built}
    for artifact, tree, folder in parts:
        for planned in _part_files(artifact, tree, folder):
            other = laid.get(planned.file.name.casefold())
            if other is not None and not artifact.members:
                _refuse_clash(stack, other.file, planned.file)
            if other is not None and artifact.format is ArtifactFormat.SUPPLIED:
                kept = _kept(other)
                laid[kept.file.name.casefold()] = kept
            laid[planned.file.name.casefold()] = planned
    return RuntimePlan(stack=stack, files=tuple(sorted(laid.values(), key=lambda planned: planned.file.name)))


def _kept(planned: PlannedFile) -> PlannedFile:
    """Give a file that was replaced the name it is kept under; it answers for no library any more."""
    path = PurePosixPath(planned.file.name)
    name = str(path.with_name(path.stem + KEPT + path.suffix))
    return replace(planned, file=replace(planned.file, name=name, provides=None, needs=()))


def _part_files(artifact: Artifact, tree: Tree, folder: str) -> Iterator[PlannedFile]:
    """Take the pinned members, or every file below the root where an artifact lists none."""
    if artifact.members:
        for member in artifact.members:
            name = str(PurePosixPath(folder, member.name))
            entry = tree.member(member)
            yield _planned(
                tree,
                entry,
                RuntimeFile(
                    name=name,
                    sha256=entry.sha256,
                    size=entry.size,
                    provides=member.provides,
                    needs=member.needs,
                    origin=artifact.id,
                ),
            )
        return
    for entry in tree.files:
        if entry.link or not PurePosixPath(entry.path).is_relative_to(tree.root):
            continue
        name = str(PurePosixPath(folder) / PurePosixPath(entry.path).relative_to(tree.root))
        yield _planned(
            tree, entry, RuntimeFile(name=name, sha256=entry.sha256, size=entry.size, origin=artifact.id)
        )


def _planned(tree: Tree, entry: TreeFile, file: RuntimeFile) -> PlannedFile:
    """Say where a file's bytes are."""
    return PlannedFile(file=file, source=tree.path / entry.path)


def _refuse_clash(stack: str, one: RuntimeFile, other: RuntimeFile) -> None:
    """Refuse two unlike files under one name; only members named in the lock may replace earlier ones."""
    if one.sha256 != other.sha256:
        msg = f"two parts of {stack} bring different files named {other.name}"
        context = (f"{one.origin}: {one.sha256}", f"{other.origin}: {other.sha256}")
        raise IntegrityError(
            "parts-clash", msg, context=context, hint="correct the stack's parts in pins.lock"
        )
