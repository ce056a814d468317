"""One file with the archives of a stack, for machines without network: a zip whose members are named by hash.

``blobs/SHA256`` holds an archive as it was downloaded, ``bundle.json`` says what they are for. Nothing in it
is believed: an archive is taken only if ``pins.lock`` names its hash, and only after its bytes had that hash.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.errors import ArchiveError, FetchError, IntegrityError
from scripts.model import Artifact, Progress
from scripts.osal import fs
from scripts.serialize import parse_json
from scripts.store.cache import TREES, Cache, not_writable
from scripts.store.entries import Limits
from scripts.store.fetch import present, require_space

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.store.zip_reader import ZipContents

FORMAT: Final = 1
MANIFEST: Final = "bundle.json"
BLOBS: Final = "blobs/"
#: No stack has more archives, and no manifest is longer.
MOST_MEMBERS: Final = 200
MOST_MANIFEST: Final = 1 << 20
_NAME: Final = re.compile(rf"{BLOBS}([0-9a-f]{{64}})")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


class BundleFacts(Struct, frozen=True, kw_only=True):
    """What a bundle says about itself; a hint for choosing a stack, never a proof.

    Attributes:
        stack: the stack it was made for.
        options: the optional parts that are among its archives.
        lock: the digest of the ``pins.lock`` it was made with.
    """

    stack: str
    options: tuple[str, ...] = ()
    lock: str = ""


def write_bundle(
    path: Path, facts: BundleFacts, archives: Iterable[tuple[Artifact, Path]], *, progress: Progress
) -> int:
    """Write the archives into one file and return its size; each is hashed again on the way.

    Raises:
        IntegrityError: a stored archive is not what the lock says; nothing is written.
        FetchError: ``bundle-not-written``: the disk refuses it.
    """
    rows = sorted(archives, key=lambda row: row[0].id)
    listed = [{"id": a.id, "sha256": a.sha256, "size": blob.stat().st_size} for a, blob in rows]
    told = {"format": FORMAT, "stack": facts.stack, "options": list(facts.options), "lock": facts.lock}
    manifest = json.dumps({**told, "artifacts": listed}, indent=1).encode("ascii")
    work = fs.temporary_beside(path)
    try:
        with fs.long_path(work).open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as target:
            target.writestr(zipfile.ZipInfo(MANIFEST, _EPOCH), manifest)
            with progress.task("write the bundle", sum(blob.stat().st_size for _, blob in rows)) as advance:
                for artifact, blob in rows:
                    info = zipfile.ZipInfo(f"{BLOBS}{artifact.sha256}", _EPOCH)
                    info.file_size = blob.stat().st_size
                    with target.open(info, "w", force_zip64=True) as member:
                        _require(artifact, blob, _copied(blob, member, advance))
        fs.replace(work, path)
    except OSError as error:
        msg = f"the bundle cannot be written: {path}"
        hint = "name a file on a disk with enough space that you may write"
        raise FetchError("bundle-not-written", msg, context=(str(error),), hint=hint) from error
    finally:
        if work.exists():
            fs.remove(work)
    return path.stat().st_size


def read_facts(path: Path) -> BundleFacts:
    """Return what a bundle says about itself.

    Raises:
        ArchiveError: ``bundle-unreadable``, ``bundle-newer``, or what the zip reader refuses.
    """
    members = {member.name: member for member in _contents(path).members}
    manifest = members.get(MANIFEST)
    if manifest is None or manifest.size > MOST_MANIFEST:
        raise _unreadable(path, f"it has no {MANIFEST}")
    try:
        with zipfile.ZipFile(fs.long_path(path)) as archive, archive.open(MANIFEST) as file:
            body = parse_json(file.read(MOST_MANIFEST + 1))
    except (ValueError, zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError) as error:
        raise _unreadable(path, f"its {MANIFEST} cannot be read") from error
    return _facts(path, body)


def take_bundle(
    path: Path, cache: Cache, artifacts: Mapping[str, Artifact], *, progress: Progress
) -> tuple[str, ...]:
    """Put a bundle's archives into the store and return the ids of those that were not there.

    Args:
        path: the bundle.
        cache: the store.
        artifacts: the lock's; nothing else is taken.
        progress: reports the bytes.

    Raises:
        ArchiveError: it holds anything but archives that the lock names, or cannot be read.
        IntegrityError: an archive's bytes are not those of its name; nothing of the bundle is kept.
    """
    wanted = {item.sha256: item for item in artifacts.values() if item.sha256}
    contents = _contents(path)
    found = {}
    for member in contents.members:
        if member.name == MANIFEST:
            continue
        match = _NAME.fullmatch(member.name)
        artifact = wanted.get(match[1]) if match else None
        if artifact is None:
            msg = f"the bundle holds something that this pins.lock does not name: {member.name[:100]!r}"
            hint = "use the pins.lock of the machine where the bundle was made; nothing of it was taken"
            raise ArchiveError("bundle-foreign", msg, context=(str(path),), hint=hint)
        if not member.stored or artifact.size not in {None, member.size}:
            raise _unreadable(path, f"{member.name} has {member.size:,} bytes, pinned {artifact.size}")
        found[member.name] = artifact
    cache.ensure()
    absent = {name: artifact for name, artifact in found.items() if not present(artifact, cache)}
    members = tuple(member for member in contents.members if member.name in absent)
    require_space("the bundle", cache.root, sum(member.size for member in members))
    chosen = replace(contents, members=members, folders=frozenset({BLOBS.rstrip("/")}))
    try:
        _take(path, cache, chosen, absent, progress)
    except OSError as error:
        raise not_writable(cache.root, error) from error
    return tuple(artifact.id for artifact in absent.values())


def _take(
    path: Path, cache: Cache, chosen: ZipContents, absent: Mapping[str, Artifact], progress: Progress
) -> None:
    """Unpack beside the archives' places; all are verified before one gets its name."""
    from scripts.store.zip_reader import unpack_zip  # noqa: PLC0415 - most runs take no bundle

    work = fs.temporary_beside(cache.root / TREES / "bundle")
    work.mkdir()
    try:
        with progress.task("take the bundle", sum(member.size for member in chosen.members)) as advance:
            done = unpack_zip(chosen, path, work, advance)
        for file in done:
            _require(absent[file.path], path, file.sha256)
        for file in done:
            blob = cache.blob_path(file.sha256)
            with cache.making(blob):
                blob.parent.mkdir(exist_ok=True)
                fs.replace(work / file.path, blob)
    finally:
        fs.remove_tree(work)


def _contents(path: Path) -> ZipContents:
    """Return what the zip declares, judged."""
    from scripts.store.zip_reader import read_contents  # noqa: PLC0415 - see `_take`

    try:
        size = path.stat().st_size
        return read_contents(path, replace(Limits(members=MOST_MEMBERS), total=size, ratio=1, floor=0))
    except ArchiveError as error:
        hint = "make it again with `invoke fetch --bundle=FILE`; nothing of it was taken"
        raise ArchiveError(error.reference, error.message, context=(str(path),), hint=hint) from error
    except OSError as error:
        raise _unreadable(path, str(error)) from error


def _facts(path: Path, body: object) -> BundleFacts:
    """Read the manifest as text that can be shown and looked up."""
    if not isinstance(body, dict) or type(body.get("format")) is not int:
        raise _unreadable(path, f"its {MANIFEST} is not one of ours")
    if body["format"] > FORMAT:
        msg = "the bundle was made by a newer workspace"
        raise ArchiveError("bundle-newer", msg, context=(str(path),), hint="update this workspace first")
    stack, options, lock = body.get("stack"), body.get("options"), body.get("lock")
    texts = [stack, lock, *(options if isinstance(options, list) else [None])]
    if not all(isinstance(text, str) for text in texts):
        raise _unreadable(path, f"its {MANIFEST} is not one of ours")
    return BundleFacts(stack=str(stack), options=tuple(map(str, texts[2:])), lock=str(lock))


def _copied(blob: Path, target: IO[bytes], advance: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    with fs.long_path(blob).open("rb", buffering=0) as file:
        while block := file.read(fs.CHUNK):
            digest.update(block)
            target.write(block)
            advance(len(block))
    return digest.hexdigest()


def _require(artifact: Artifact, where: Path, sha256: str) -> None:
    """Refuse bytes that are not the pinned ones."""
    if sha256 == artifact.sha256:
        return
    msg = f"{artifact.id} in {where.name} is not what the lock says; nothing of it was taken"
    context = (f"file:     {where}", f"expected: {artifact.sha256}", f"got:      {sha256}")
    hint = "fetch and bundle it again on the other machine; if this happens twice, check its disk"
    raise IntegrityError("bundle-changed", msg, context=context, hint=hint)


def _unreadable(path: Path, why: str) -> ArchiveError:
    hint = "make it again with `invoke fetch --bundle=FILE`; nothing of it was taken"
    return ArchiveError(
        "bundle-unreadable", f"this is no whole bundle: {why[:200]}", context=(str(path),), hint=hint
    )
