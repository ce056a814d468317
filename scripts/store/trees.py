"""Trees of verified files: their manifest, and whether they still are what it says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.errors import IntegrityError, StagedFileError
from scripts.model import Artifact, Member, NoProgress, Progress
from scripts.osal import fs as files
from scripts.osal.fs import paths_below
from scripts.osal.paths import refusal
from scripts.store.cache import Cache, read_manifest, write_manifest

_FORMAT: Final = 1
_MOST_THREADS: Final = 4


class TreeFile(Struct, frozen=True, kw_only=True):
    """One file of a tree; ``path`` is POSIX, below the tree.

    ``link`` is the text of a symbolic link, empty for files; its ``sha256`` and ``size`` are its target's.
    """

    path: str
    sha256: str
    size: int
    mtime_ns: int = 0
    link: str = ""


class UnpackedTree(Struct, frozen=True, kw_only=True):
    """The files of one artifact on disk.

    Attributes:
        path: the folder.
        root: the artifact's root below it; members' paths start there.
        files: every file, by path.
        surplus: files beside them that belong to no artifact (in supplied folders only).
    """

    path: Path
    root: str
    files: tuple[TreeFile, ...]
    surplus: tuple[str, ...] = ()

    def member(self, member: Member) -> TreeFile:
        """Return the file of a pinned member.

        Raises:
            IntegrityError: the artifact has no such file.
        """
        path = member_path(self.root, member)
        found = next((file for file in self.files if file.path == path), None)
        if found is None:
            msg = f"there is no {path!r} in {self.path}"
            hint = "correct the lock: it names a file that the artifact does not hold"
            raise IntegrityError("member-missing", msg, hint=hint)
        return found


class Change(StrEnum):
    """How a file on disk differs from the manifest."""

    MISSING = "missing"
    CHANGED = "changed"
    SURPLUS = "surplus"


class TreeFinding(Struct, frozen=True, kw_only=True):
    """One difference between a tree and its manifest; ``path`` is POSIX, below the tree."""

    path: str
    change: Change
    detail: str

    @property
    def line(self) -> str:
        """How it is shown."""
        return f"{self.change}: {self.path} ({self.detail})"


def member_path(root: str, member: Member) -> str:
    """Return a member's path below the tree."""
    return f"{root}/{member.path}" if root else member.path


def verify_tree(
    tree: UnpackedTree, *, deep: bool, progress: Progress | None = None
) -> tuple[TreeFinding, ...]:
    """Compare a tree with its manifest: size and time, or with ``deep`` every byte.

    Files that are not listed are findings as well: a program would load a library that was slipped in.
    """
    from scripts.osal.parallel import parallel_map  # noqa: PLC0415 - most runs verify no tree

    say = progress or NoProgress()
    threads = min(_MOST_THREADS, os.cpu_count() or 1) if deep else 1  # looking is too quick to be shared
    with say.task(f"verify {tree.path.name[:16]}", sum(file.size for file in tree.files)) as advance:

        def look(file: TreeFile) -> TreeFinding | None:
            finding = _compare(tree.path, file, deep=deep)
            advance(file.size)
            return finding

        looked = parallel_map(look, tree.files, threads=threads)
        findings = [finding for finding in looked if finding is not None]
    listed = {file.path for file in tree.files} | set(tree.surplus)
    strangers = sorted(set(paths_below(tree.path)) - listed)
    findings += [TreeFinding(path=p, change=Change.SURPLUS, detail="in no manifest") for p in strangers]
    return tuple(findings)


def require_intact(tree: UnpackedTree, findings: tuple[TreeFinding, ...]) -> None:
    """Raise if a verification found anything.

    Raises:
        StagedFileError: ``staged-file-missing`` if files have vanished, else ``staged-file-changed``.
    """
    if not findings:
        return
    lines = tuple(finding.line for finding in findings)
    missing = [finding for finding in findings if finding.change is Change.MISSING]
    if missing:
        msg = f"{len(missing)} verified file(s) have vanished from {tree.path}"
        hint = (
            "look into your antivirus program's quarantine: it may have moved them; restore these files by "
            "name if you trust their pinned hashes, report the false alarm, then run `invoke setup` again"
        )
        raise StagedFileError("staged-file-missing", msg, context=lines, hint=hint)
    msg = f"{len(findings)} file(s) in {tree.path} are not what was verified"
    hint = "find out who wrote there, then run `invoke setup` again: it unpacks what changed again"
    raise StagedFileError("staged-file-changed", msg, context=lines, hint=hint)


def load_tree(artifact: Artifact, cache: Cache) -> UnpackedTree | None:
    """Return the tree of ``artifact`` as its manifest tells, or ``None`` when there is none to trust.

    The files are not looked at: ``verify_tree`` does that. One that contradicts the lock counts as none.
    """
    if artifact.sha256 is None:
        return None
    path = cache.tree_path(artifact.sha256)
    try:
        tree = UnpackedTree(path=path, root=artifact.root, files=tuple(_entries(read_manifest(path))))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not path.is_dir() or member_findings(artifact, tree):
        return None
    return tree


def save_tree(tree: UnpackedTree) -> UnpackedTree:
    """Write the manifest that makes a tree complete, with each file's time as it is now.

    What a loss of power takes of the files is noticed when the tree is next asked for, and the tree is made
    again from its verified blob.
    """
    listed = tuple(
        replace(file, mtime_ns=files.long_path(tree.path / file.path).lstat().st_mtime_ns)
        for file in tree.files
    )
    body = {"format": _FORMAT, "files": [[f.path, f.sha256, f.size, f.mtime_ns, f.link] for f in listed]}
    write_manifest(tree.path, body)
    return replace(tree, files=listed)


def member_findings(artifact: Artifact, tree: UnpackedTree) -> tuple[TreeFinding, ...]:
    """Compare the pinned members with the tree's list: names, hashes and sizes."""
    listed = {file.path: file for file in tree.files}
    findings = []
    for member in artifact.members:
        path = member_path(artifact.root, member)
        file = listed.get(path)
        if file is None:
            findings.append(TreeFinding(path=path, change=Change.MISSING, detail="pinned, but not in there"))
        elif member.sha256 not in {None, file.sha256}:
            detail = f"expected {member.sha256}, got {file.sha256}"
            findings.append(TreeFinding(path=path, change=Change.CHANGED, detail=detail))
        elif member.size not in {None, file.size}:
            detail = f"expected {member.size:,} bytes, got {file.size:,}"
            findings.append(TreeFinding(path=path, change=Change.CHANGED, detail=detail))
    return tuple(findings)


def _entries(manifest: Any) -> Iterator[TreeFile]:  # noqa: ANN401 - parsed JSON, checked here
    """Read a manifest; the store may be shared, so names are judged again."""
    if manifest["format"] != _FORMAT:
        msg = "a manifest of another format"
        raise ValueError(msg)
    for path, sha256, size, mtime_ns, link in manifest["files"]:
        if not isinstance(path, str) or refusal(path) is not None or not isinstance(size, int):
            msg = f"a manifest names {path!r}"
            raise ValueError(msg)
        yield TreeFile(path=path, sha256=str(sha256), size=size, mtime_ns=int(mtime_ns), link=str(link))


def _compare(folder: Path, file: TreeFile, *, deep: bool) -> TreeFinding | None:
    path = files.long_path(folder / file.path)
    try:
        status = path.lstat()
        if file.link or files.is_link(path):
            same = bool(file.link) and os.readlink(path) == file.link  # noqa: PTH115 - text, not a path
            return None if same else _changed(file, "leads elsewhere" if file.link else "has become a link")
        if status.st_size != file.size:
            return _changed(file, f"{status.st_size:,} bytes instead of {file.size:,}")
        if not deep:
            return None if status.st_mtime_ns == file.mtime_ns else _changed(file, "written since")
        got = files.hash_file(path)
    except FileNotFoundError:
        return TreeFinding(path=file.path, change=Change.MISSING, detail=f"sha256 {file.sha256}")
    except OSError as error:
        return _changed(file, f"cannot be read: {error.strerror}")
    return None if got == file.sha256 else _changed(file, f"expected {file.sha256}, got {got}")


def _changed(file: TreeFile, detail: str) -> TreeFinding:
    return TreeFinding(path=file.path, change=Change.CHANGED, detail=detail)
