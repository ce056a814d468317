"""What a runtime consists of, and how it is put together once in a read-only folder of the store.

The digest of a runtime covers every file's place and content, so the same parts give the same folder
on every machine, and a changed part can never hide behind an old name. The manifest beside the folder
is written last: a folder without one does not exist for us.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.errors import HostError, IntegrityError, StagedFileError
from scripts.host.hip_libraries import runtime_marks, unversioned
from scripts.model import Artifact, ArtifactFormat, HipSource, Progress, Runtime, RuntimeFile, Stack
from scripts.osal.fs import free_space, hash_file, is_link, long_path, make_read_only
from scripts.serialize import plain
from scripts.staging.runtimes import FORMAT, digest_of, load_runtime
from scripts.store.cache import Cache, clear_away, publish, write_manifest

if TYPE_CHECKING:
    from scripts.store.trees import TreeFile, UnpackedTree


#: The folder of a HIP runtime that comes as parts.
HIP: Final = "hip"
#: Added to the stem of a library that a supplied one replaces: cublas64_11.dll stays as
#: cublas64_11_zluda.dll, the name that replacements load
#: (Speedstu/CUDA-for-AMD-Windows@e57fb8e, scripts/stage-runtime.ps1).
KEPT: Final = "_zluda"


class PlannedFile(Struct, frozen=True, kw_only=True):
    """One file of a runtime before it is assembled: what it will be, and where its bytes are now."""

    file: RuntimeFile
    source: Path


class RuntimePlan(Struct, frozen=True, kw_only=True):
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


def plan_runtime(
    stack: str, parts: Iterable[tuple[Artifact, UnpackedTree, str]], built: Iterable[PlannedFile] = ()
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
    for second in [_second_name(planned) for planned in laid.values()]:
        if second is not None:
            laid.setdefault(second.file.name.casefold(), second)
    return RuntimePlan(stack=stack, files=tuple(sorted(laid.values(), key=lambda planned: planned.file.name)))


def _second_name(planned: PlannedFile) -> PlannedFile | None:
    """Give a HIP library for Linux that came as a part the name without version that layers ask for."""
    path = PurePosixPath(planned.file.name)
    name = unversioned(path.name) if path.parts[0] == HIP else ""
    if not name:
        return None
    return replace(planned, file=replace(planned.file, name=str(path.with_name(name))))


def _kept(planned: PlannedFile) -> PlannedFile:
    """Give a file that was replaced the name it is kept under; it answers for no library any more."""
    path = PurePosixPath(planned.file.name)
    name = str(path.with_name(path.stem + KEPT + path.suffix))
    return replace(planned, file=replace(planned.file, name=name, provides=None, needs=()))


def _part_files(artifact: Artifact, tree: UnpackedTree, folder: str) -> Iterator[PlannedFile]:
    """Take the pinned members, or every file below the root where an artifact lists none."""
    if artifact.members:
        for member in artifact.members:
            name = str(PurePosixPath(folder, member.name))
            planned = _planned(tree, tree.member(member), name, artifact)
            file = replace(planned.file, provides=member.provides, needs=member.needs)
            yield replace(planned, file=file)
        return
    for entry in tree.files:
        if entry.link or not PurePosixPath(entry.path).is_relative_to(tree.root):
            continue
        name = str(PurePosixPath(folder) / PurePosixPath(entry.path).relative_to(tree.root))
        yield _planned(tree, entry, name, artifact)


def _planned(tree: UnpackedTree, entry: TreeFile, name: str, artifact: Artifact) -> PlannedFile:
    file = RuntimeFile(name=name, sha256=entry.sha256, size=entry.size, origin=artifact.id)
    return PlannedFile(file=file, source=tree.path / entry.path)


def _refuse_clash(stack: str, one: RuntimeFile, other: RuntimeFile) -> None:
    """Refuse two unlike files under one name; only members named in the lock may replace earlier ones."""
    if one.sha256 != other.sha256:
        msg = f"two parts of {stack} bring different files named {other.name}"
        context = (f"{one.origin}: {one.sha256}", f"{other.origin}: {other.sha256}")
        hint = "correct the stack's parts in pins.lock"
        raise IntegrityError("parts-clash", msg, context=context, hint=hint)


#: What makes a package importable for Python; every package has its own, and HIP has no use for it.
PYTHON: Final = ("*.py", "*.pyi", "py.typed")


def folder_of(stack: Stack, artifact: Artifact) -> str:
    """Return the folder of the runtime for one of a stack's artifacts; empty is the top.

    The translation layer must lie on top with its own structure (it finds its parts by their place).
    A HIP runtime that comes as parts is merged into ``hip``, and an optional part has its option's name.
    """
    for option, ids in stack.optional.items():
        if artifact.id in ids:
            return option
    is_layer = any(member.provides for member in artifact.members)
    if stack.hip.source is HipSource.PARTS and not is_layer:
        return HIP
    return ""


def lay_out(
    stack: Stack, artifact: Artifact, tree: UnpackedTree
) -> tuple[tuple[Artifact, UnpackedTree, str], ...]:
    """Return what ``plan_runtime`` takes of one artifact: several entries where HIP lies in several folders.

    Raises:
        IntegrityError: ``hip-part-unrecognised``: nothing in it looks like a HIP runtime.
    """
    folder = folder_of(stack, artifact)
    if folder != HIP or artifact.members:
        return ((artifact, tree, folder),)
    roots = hip_roots(file.path for file in tree.files)
    if not roots:
        msg = f"{artifact.id} holds no HIP runtime: no bin with amdhip64 or rocblas, and no kernels"
        tops = sorted({PurePosixPath(file.path).parts[0] for file in tree.files})
        hint = "report what lies in it, for its layout is new, or choose another stack"
        raise IntegrityError("hip-part-unrecognised", msg, context=tuple(tops[:10]), hint=hint)
    return tuple((artifact, _below(tree, root), folder) for root in roots)


def hip_roots(paths: Iterable[str]) -> tuple[str, ...]:
    """Find the folders that hold a HIP runtime or its kernels, outermost only; empty text is the top."""
    marks = runtime_marks()
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")
        for depth in range(len(parts) - 1):
            below = "/".join(parts[depth:]).lower()
            if any(fnmatchcase(below, mark) for mark in marks):
                found.add("/".join(parts[:depth]))
                break
    pairs = ((root, other) for root in found for other in found if root != other)
    inner = {root for root, other in pairs if not other or root.startswith(f"{other}/")}
    return tuple(sorted(found - inner))


def _below(tree: UnpackedTree, root: str) -> UnpackedTree:
    """Take one folder of a tree, without what only Python needs."""
    prefix = f"{root}/" if root else ""
    files = tuple(
        file
        for file in tree.files
        if file.path.startswith(prefix)
        and not any(fnmatchcase(PurePosixPath(file.path).name, mark) for mark in PYTHON)
    )
    return replace(tree, root=root, files=files)


def assemble(plan: RuntimePlan, cache: Cache, *, progress: Progress) -> tuple[Runtime, bool]:
    """Make the runtime's folder, or find it made: check, take the lock, check again, work aside, rename.

    Returns the runtime, and whether it was made, every byte hashed, or only found: see ``verify_runtime``.
    """
    digest = plan.digest
    found = load_runtime(cache, digest, stack=plan.stack)
    if found is not None:
        return found, False
    cache.ensure()
    with cache.making(cache.runtime_path(digest)):
        found = load_runtime(cache, digest, stack=plan.stack)
        if found is not None:
            return found, False
        return _assemble_locked(plan, digest, cache, progress), True


def _assemble_locked(plan: RuntimePlan, digest: str, cache: Cache, progress: Progress) -> Runtime:
    """Fill a folder beside the final one."""
    final = cache.runtime_path(digest)
    final.parent.mkdir(parents=True, exist_ok=True)
    _require_space(plan, final.parent)

    def fill(work: Path) -> None:
        with progress.task(f"assemble {plan.stack}", plan.bytes) as advance:
            for folder in {(work / f.name).parent for f in plan.runtime_files}:
                long_path(folder).mkdir(parents=True, exist_ok=True)
            for planned in plan.files:
                ours = planned.source.is_relative_to(cache.root)
                _bring(planned, work / planned.file.name, link=ours)
                advance(planned.file.size)
        make_read_only(work)

    publish(final, fill)
    files = plain(plan.runtime_files)
    write_manifest(final, {"format": FORMAT, "digest": digest, "files": files})
    return Runtime(stack=plan.stack, digest=digest, path=final, files=plan.runtime_files)


def _require_space(plan: RuntimePlan, folder: Path) -> None:
    """Refuse before the first byte when the disk cannot hold the runtime."""
    have = free_space(folder)
    if have < plan.bytes:
        msg = f"not enough free space to assemble {plan.stack}: {plan.bytes:,} bytes needed, {have:,} free"
        hint = "free some space, or move the store with CUDA_AMD_CACHE"
        raise HostError("no-space", msg, context=(str(folder),), hint=hint)


def _bring(planned: PlannedFile, destination: Path, *, link: bool) -> None:
    """Link (both sides are ours and read-only) or copy one file, then read it in full: its bytes decide."""
    if not (link and not is_link(long_path(planned.source)) and _linked(planned.source, destination)):
        shutil.copyfile(long_path(planned.source), long_path(destination))
    got = hash_file(destination)
    if got != planned.file.sha256:
        msg = f"{planned.file.name} changed in the store while it was taken over"
        context = (f"from {planned.source}", f"expected {planned.file.sha256}", f"got {got}")
        hint = "run `invoke verify --deep` to see what else changed"
        raise StagedFileError("staged-file-changed", msg, context=context, hint=hint)


def _linked(source: Path, destination: Path) -> bool:
    """Make a second name for a file where the file system can."""
    try:
        os.link(long_path(source), long_path(destination))
    except OSError:
        return False
    return True


def discard_runtime(cache: Cache, digest: str) -> None:
    """Take a runtime away so that it is assembled again; the manifest goes first."""
    folder = cache.runtime_path(digest)
    with cache.making(folder):
        clear_away(folder)
