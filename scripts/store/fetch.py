"""Download an artifact once, verified, into the store.

First comes a decision that reads only names and sizes (``plan_fetch``), then the act. Nothing
gets its final name before its SHA-256 was the pinned one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from scripts.errors import FetchError
from scripts.model import Artifact, ArtifactFormat, Progress
from scripts.net.sources import DownloadSource, Partial, sources
from scripts.osal import fs
from scripts.store.cache import Cache, not_writable

if TYPE_CHECKING:
    from scripts.net.session import Transport

#: A download of unknown size stops here.
MAX_UNKNOWN_SIZE: Final = 8 * 1024**3
#: How much larger a packed artifact becomes when unpacked, for the summary only.
_GROWTH: Final = 3


class FetchOptions(Struct, frozen=True, kw_only=True):
    """How to fetch.

    Attributes:
        offline: ask no server; folders given as mirrors still count.
        mirrors: folders or URLs that are asked before the artifact's own URLs.
        max_unknown_size: bytes after which a download of unpublished size is given up.
        ca_file: certificates trusted besides the system's, in PEM format.
    """

    offline: bool = False
    mirrors: tuple[str, ...] = ()
    max_unknown_size: int = MAX_UNKNOWN_SIZE
    ca_file: Path | None = None


class FetchAction(StrEnum):
    """What has to happen for an artifact to be here."""

    HAVE = "have"
    FETCH = "fetch"
    OFFLINE_MISSING = "offline-missing"
    SUPPLIED = "supplied"


class FetchPlan(Struct, frozen=True, kw_only=True):
    """The decision for one artifact, for the summary.

    Attributes:
        artifact: what it is about.
        action: what ``fetch`` would do.
        download_bytes: 0 when nothing is downloaded, ``None`` when the size is not published.
        disk_bytes: about how much the archive and its tree will take, ``None`` when unknown.
        urls: the places that would be asked, in order.
    """

    artifact: Artifact
    action: FetchAction
    download_bytes: int | None
    disk_bytes: int | None
    urls: tuple[str, ...]


def plan_fetch(artifact: Artifact, cache: Cache, options: FetchOptions) -> FetchPlan:
    """Decide what ``fetch`` would do; looks at names and sizes in the store and in mirror folders only."""
    places = _usable(sources(artifact, options.mirrors), offline=options.offline)
    size = artifact.size
    download: int | None = 0
    disk: int | None = 0
    if artifact.sha256 is None:
        action = FetchAction.SUPPLIED
    elif present(artifact, cache):
        action = FetchAction.HAVE
    elif not places:
        action = FetchAction.OFFLINE_MISSING
    else:
        action = FetchAction.FETCH
        download = size
        growth = 1 if artifact.format is ArtifactFormat.RAW else _GROWTH
        disk = None if size is None else size * (1 + growth)
    urls = tuple(place.label for place in places) if action is FetchAction.FETCH else ()
    return FetchPlan(artifact=artifact, action=action, download_bytes=download, disk_bytes=disk, urls=urls)


def fetch(
    artifact: Artifact,
    cache: Cache,
    *,
    options: FetchOptions,
    progress: Progress,
    transport: Transport | None = None,
) -> Path:
    """Return the blob of ``artifact``, downloading it if it is not in the store.

    A blob was hashed in full when it came; here its size is compared again, and unpacking hashes it again.

    Raises:
        FetchError: no place had it (all errors in the context), or it would have to be downloaded offline.
        IntegrityError: a place had other bytes than the pinned ones; nothing of them is left.
        UsageError: a mirror cannot be used.
    """
    if artifact.sha256 is None:
        msg = f"{artifact.id} is not downloaded: you supply its files"
        raise FetchError("artifact-supplied", msg, hint=artifact.note)
    places = sources(artifact, options.mirrors)
    cache.ensure()
    blob = cache.blob_path(artifact.sha256)
    if present(artifact, cache):
        return blob
    with cache.making(blob), _storage(blob):
        if present(artifact, cache):
            return blob
        if blob.exists():
            progress.note(f"{artifact.id}: the stored file has another size than pinned; fetching it again")
            fs.remove(blob)
        usable = _usable(places, offline=options.offline)
        if not usable:
            msg = f"{artifact.id} is not in the store, and nothing is downloaded offline"
            hint = "run once without --offline, or give --mirror=FOLDER with the file in it"
            raise FetchError("offline-missing", msg, context=artifact.urls, hint=hint)
        _require_space(artifact, cache)
        blob.parent.mkdir(exist_ok=True)
        # Talking to servers takes a tenth of a second to import; most runs have everything already.
        from scripts.net.download import Download  # noqa: PLC0415 - see above
        from scripts.net.session import Transport  # noqa: PLC0415 - see above

        job = Download(
            artifact=artifact,
            partial=Partial(blob),
            limit=options.max_unknown_size if artifact.size is None else artifact.size,
            transport=transport or Transport(ca_file=options.ca_file),
            progress=progress,
        )
        return job.run(usable)


def present(artifact: Artifact, cache: Cache) -> bool:
    """Say whether the blob is in the store with the pinned size."""
    blob = cache.blob_path(artifact.sha256 or "")
    return blob.is_file() and artifact.size in {None, blob.stat().st_size}


def _usable(places: tuple[DownloadSource, ...], *, offline: bool) -> tuple[DownloadSource, ...]:
    """Drop what needs a server when offline."""
    if not offline:
        return places
    return tuple(place for place in places if place.file is not None and place.file.is_file())


def _require_space(artifact: Artifact, cache: Cache) -> None:
    """Refuse early what certainly does not fit: the archive and a tree at least as large."""
    if artifact.size is None:
        return
    tree = max(artifact.size, sum(member.size or 0 for member in artifact.members))
    require_space(artifact.id, cache.root, artifact.size + tree, "archive and tree")


def require_space(what: str, place: Path, need: int, parts: str = "") -> None:
    """Refuse early what does not fit; ``parts`` says what the bytes are for."""
    free = fs.free_space(place)
    if need > free:
        facts = (f"needed: {need:,} bytes{f', {parts}' if parts else ''}", f"free:   {free:,} bytes")
        raise no_space(what, place, facts)


def no_space(what: str, place: Path, facts: tuple[str, ...] = ()) -> FetchError:
    """Describe a volume that is too full."""
    msg = f"not enough space for {what} in {place}"
    hint = "free some space (`invoke cache.prune` helps), or set CUDA_AMD_CACHE to a larger disk"
    return FetchError("no-space", msg, context=facts, hint=hint)


@contextmanager
def _storage(blob: Path) -> Iterator[None]:
    """Turn what the disk refuses into an error a person can act on."""
    try:
        yield
    except OSError as error:
        raise not_writable(blob.parent, error) from error
