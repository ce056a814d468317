"""Unpack a verified archive once into a read-only tree of the store; take in files a person supplies."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scripts.errors import IntegrityError
from scripts.model import Artifact, ArtifactFormat, NoProgress, Progress
from scripts.net.sources import last_component
from scripts.osal import fs
from scripts.osal.fs import paths_below
from scripts.store.cache import Cache, clear_away, in_use, not_writable, publish
from scripts.store.entries import Limits, copy_in
from scripts.store.fetch import no_space, require_space
from scripts.store.trees import (
    Change,
    TreeFile,
    TreeFinding,
    UnpackedTree,
    load_tree,
    member_findings,
    member_path,
    require_intact,
    save_tree,
    verify_tree,
)

_ZIPS: Final = frozenset({ArtifactFormat.ZIP, ArtifactFormat.WHEEL})


def unpack(
    artifact: Artifact,
    cache: Cache,
    blob: Path,
    *,
    progress: Progress,
    limits: Limits | None = None,
    hashed: bool = False,
) -> UnpackedTree:
    """Return the tree of ``artifact``, unpacking ``blob`` if it is not there.

    ``hashed``: the archive was hashed just now, while it arrived, and is not read for that again.

    A tree that is there is compared with its manifest by size and time. One that no longer fits is reported
    and made again; what vanishes again at once is an error of its own.

    Raises:
        ArchiveError: the archive is refused; nothing of it is left.
        IntegrityError: the stored blob, or a pinned member, has another hash.
        StagedFileError: files vanish or change as soon as they are unpacked.
    """
    sha256 = artifact.sha256 or ""
    tree = load_tree(artifact, cache)
    if tree is not None and not verify_tree(tree, deep=False):
        return tree
    cache.ensure()
    with cache.making(cache.tree_path(sha256)):
        tree = load_tree(artifact, cache)
        if tree is not None:
            findings = verify_tree(tree, deep=False)
            if not findings:
                return tree
            first = findings[0]
            progress.note(f"{artifact.id}: {first.path} is {first.change}; unpacking everything again")
        try:
            tree = _make(artifact, cache, blob, progress, limits or Limits(), hashed=hashed)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise no_space(artifact.id, cache.root) from error
            raise not_writable(cache.tree_path(sha256), error) from error
    require_intact(tree, verify_tree(tree, deep=False))
    return tree


def supplied_files(artifact: Artifact, folder: Path, *, progress: Progress | None = None) -> UnpackedTree:
    """Verify the files a person brought for a ``supplied`` artifact; return them as a tree.

    Files in the folder that are not part of the artifact are listed in ``Tree.surplus``.

    Raises:
        IntegrityError: pinned files are missing or differ; each is named, and each surplus one too.
    """
    say = progress or NoProgress()
    there = set(paths_below(folder))
    listed = []
    with say.task(f"verify {artifact.id}", len(artifact.members), unit="files") as advance:
        for member in artifact.members:
            path = member_path(artifact.root, member)
            if path in there:
                status = fs.long_path(folder / path).stat()
                sha256 = fs.hash_file(folder / path)
                listed.append(
                    TreeFile(path=path, sha256=sha256, size=status.st_size, mtime_ns=status.st_mtime_ns)
                )
            advance(1)
    surplus = tuple(sorted(there - {member_path(artifact.root, member) for member in artifact.members}))
    tree = UnpackedTree(path=folder, root=artifact.root, files=tuple(listed), surplus=surplus)
    findings = member_findings(artifact, tree)
    if findings:
        strangers = [TreeFinding(path=p, change=Change.SURPLUS, detail="not part of it") for p in surplus]
        msg = f"the files in {folder} are not those of {artifact.id}"
        raise IntegrityError(
            "supplied-files-differ",
            msg,
            context=tuple(finding.line for finding in (*findings, *strangers)),
            hint=artifact.note or "Bring the files whose SHA-256 the lock names.",
        )
    return tree


def _make(
    artifact: Artifact, cache: Cache, blob: Path, progress: Progress, limits: Limits, *, hashed: bool
) -> UnpackedTree:
    """Unpack beside the destination; only a complete and verified tree gets its name and manifest."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - most runs find the tree made

    final = cache.tree_path(artifact.sha256 or "")

    def fill(work: Path) -> UnpackedTree:
        # The blob's hash decides, but need not be waited for: nothing below is visible until both are done.
        with ThreadPoolExecutor(1) as side:
            hashing = None if hashed else side.submit(fs.hash_file, blob)
            try:
                unpacked = _unpack_into(artifact, blob, work, progress, limits)
            finally:
                if hashing is not None:
                    _require_blob(artifact, blob, hashing.result())
        listed = tuple(sorted(unpacked, key=lambda file: file.path))
        tree = UnpackedTree(path=final, root=artifact.root, files=listed)
        _require_members(artifact, tree)
        return tree

    return save_tree(publish(final, fill))


def discard_changed(artifact: Artifact, cache: Cache, *, progress: Progress) -> None:
    """Read and hash an archive and its tree, and take away what is not what it was, byte for byte.

    Raises:
        ConflictError: ``store-in-use``: a program holds what would be taken away.
    """
    blob = cache.blob_path(artifact.sha256) if artifact.sha256 else None
    if blob is not None and _is_changed(artifact, blob):
        with cache.making(blob):
            try:
                if _is_changed(artifact, blob):  # by now another run may have brought it again
                    fs.remove(blob)
            except PermissionError as error:
                raise in_use(blob, error) from error
    tree = load_tree(artifact, cache)
    if tree is not None and verify_tree(tree, deep=True, progress=progress):
        with cache.making(tree.path):
            clear_away(tree.path)


def _is_changed(artifact: Artifact, blob: Path) -> bool:
    """Whether an archive is there and has other bytes than the lock says."""
    return blob.exists() and fs.hash_file(blob) != artifact.sha256


def _unpack_into(
    artifact: Artifact, blob: Path, work: Path, progress: Progress, limits: Limits
) -> list[TreeFile]:
    """Write the artifact's files into ``work``; the readers are loaded by who has something to unpack."""
    from scripts.store import zip_reader  # noqa: PLC0415 - see above
    from scripts.store.tar_reader import unpack_tar_gz  # noqa: PLC0415 - see above

    packed = blob.stat().st_size
    bounded = limits.for_archive(packed)
    if artifact.format in _ZIPS:
        contents = zip_reader.read_contents(blob, bounded)
        require_space(artifact.id, work.parent, contents.size, "archive and tree")
        with progress.task(f"unpack {artifact.id}", contents.size) as advance:
            return zip_reader.unpack_zip(contents, blob, work, advance)
    require_space(artifact.id, work.parent, packed, "archive and tree")
    with progress.task(f"unpack {artifact.id}", None) as advance:
        if artifact.format is ArtifactFormat.TAR_GZ:
            return unpack_tar_gz(blob, work, bounded, advance)
        return _raw(artifact, blob, work, advance)


def _raw(artifact: Artifact, blob: Path, work: Path, advance: Callable[[int], None]) -> list[TreeFile]:
    """Take the blob itself as the only file, under its member's path or its URL's last component."""
    names = [member_path(artifact.root, member) for member in artifact.members]
    name = (names or [n for url in artifact.urls if (n := last_component(url))] or [artifact.id])[0]
    done = copy_in(blob, name, work, size=blob.stat().st_size)
    advance(done.size)
    return [done]


def _require_blob(artifact: Artifact, blob: Path, sha256: str) -> None:
    """Refuse a stored archive that rotted or was changed, and remove it so that it is fetched again."""
    if sha256 == artifact.sha256:
        return
    fs.remove(blob)
    raise IntegrityError(
        "stored-archive-changed",
        f"the stored archive of {artifact.id} is no longer the pinned one; it was removed",
        context=(f"file:     {blob}", f"expected: {artifact.sha256}", f"got:      {sha256}"),
        hint="run the command again to fetch it again; if this happens twice, check the disk",
    )


def _require_members(artifact: Artifact, tree: UnpackedTree) -> None:
    """Refuse an archive whose pinned members are missing or differ."""
    lines = tuple(finding.line for finding in member_findings(artifact, tree))
    if lines:
        msg = f"{artifact.id} does not hold what the lock says; nothing was unpacked"
        hint = "compare the lock's members with the archive's listing: the archive is the pinned one"
        raise IntegrityError("member-mismatch", msg, context=lines, hint=hint)
