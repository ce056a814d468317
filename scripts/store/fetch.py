"""Download an artifact once, verified, into the store.

Mirrors are asked first, then the artifact's own URLs, in order. What fails for good is not asked again;
what may pass (a broken line, a busy server) is asked in rounds that span at least a minute. Every error is
kept for the message. Nothing gets its final name before its SHA-256 was the pinned one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import requests

from scripts.errors import FetchError, IntegrityError, WorkspaceError
from scripts.model import Artifact, ArtifactFormat, Progress
from scripts.store import receive
from scripts.store.cache import Cache, not_writable
from scripts.store.mirrors import Source, sources
from scripts.store.partial import Partial
from scripts.store.transport import AttemptError, Transport
from scripts.system import files

#: A download of unknown size stops here.
MAX_UNKNOWN_SIZE: Final = 8 * 1024**3
#: How much larger a packed artifact becomes when unpacked, for the bill only.
_GROWTH: Final = 3
#: An attempt that brings this much is followed by another at the same place.
_GOOD_PIECE: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
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


@dataclass(frozen=True, kw_only=True)
class FetchPlan:
    """The decision for one artifact, for the bill.

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
    elif _present(artifact, cache):
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
    if _present(artifact, cache):
        return blob
    with cache.locked(f"blobs-{artifact.sha256}"), _storage(blob):
        if _present(artifact, cache):
            return blob
        if blob.exists():
            progress.note(f"{artifact.id}: the stored file has another size than pinned; fetching it again")
            files.remove(blob)
        usable = _usable(places, offline=options.offline)
        if not usable:
            raise _offline(artifact)
        _require_space(artifact, cache)
        blob.parent.mkdir(exist_ok=True)
        talk = transport or Transport(ca_file=options.ca_file)
        return _Fetching(artifact, Partial(blob), options, progress, talk).run(usable)


@dataclass(frozen=True)
class _Fetching:
    """One artifact on its way."""

    artifact: Artifact
    partial: Partial
    options: FetchOptions
    progress: Progress
    transport: Transport

    def run(self, places: tuple[Source, ...]) -> Path:
        """Ask the places in rounds until one delivers."""
        failures: dict[Source, AttemptError] = {}
        open_places = list(places)
        try:
            with self.transport.session() as session:
                for delay in (*self.transport.delays, None):
                    for place in tuple(open_places):
                        failure = self._ask(session, place)
                        if failure is None:
                            self._tell(failures)
                            return self.partial.keep()
                        failures[place] = failure
                        if not failure.transient:
                            open_places.remove(place)
                    if not open_places or delay is None:
                        break
                    self._pause(delay, [failures[place] for place in open_places])
        finally:
            self.partial.tidy()
        raise _failure(self.artifact, failures)

    def _ask(self, session: requests.Session, place: Source) -> AttemptError | None:
        """Ask one place, again as long as each attempt brings a good piece of the file."""
        while True:
            before = self.partial.size()
            try:
                self._receive(session, place)
            except AttemptError as error:
                if not error.transient or self.partial.size() - before < _GOOD_PIECE:
                    return error
                self.progress.note(f"{self.artifact.id}: {error}; going on from where it stopped")
            else:
                return None

    def _receive(self, session: requests.Session, place: Source) -> None:
        """Bring the file from one place and compare it; a wrong resumed one is begun anew once."""
        resumed = place.file is None and bool(self.partial.etag()) and self.partial.size() > 0
        limit = self.artifact.size if self.artifact.size is not None else self.options.max_unknown_size
        job = receive.Job(artifact=self.artifact, partial=self.partial, limit=limit, transport=self.transport)
        with self.progress.task(f"fetch {self.artifact.id}", self.artifact.size) as advance:
            try:
                receive.from_place(job, session, place, advance)
            except AttemptError as error:
                if error.wrong_bytes and resumed:
                    self.partial.discard()
                    msg = "the resumed file was damaged; beginning anew"
                    raise AttemptError(msg, transient=True) from error
                raise

    def _pause(self, delay: float, failures: list[AttemptError]) -> None:
        """Wait before the next round, as long as the most patient server asks for."""
        wait = max(delay, *(failure.wait for failure in failures))
        self.progress.note(f"{self.artifact.id}: {failures[-1]}; trying again in {wait:.0f} s")
        self.transport.sleep(wait)

    def _tell(self, failures: dict[Source, AttemptError]) -> None:
        """Say which earlier places had wrong bytes: somebody should look at them."""
        for place, failure in failures.items():
            if failure.wrong_bytes:
                self.progress.note(f"{self.artifact.id}: {place.label} was passed over: {failure}")


def _present(artifact: Artifact, cache: Cache) -> bool:
    """Say whether the blob is in the store with the pinned size."""
    blob = cache.blob_path(artifact.sha256 or "")
    return blob.is_file() and artifact.size in {None, blob.stat().st_size}


def _usable(places: tuple[Source, ...], *, offline: bool) -> tuple[Source, ...]:
    """Drop what needs a server when offline."""
    if not offline:
        return places
    return tuple(place for place in places if place.file is not None and place.file.is_file())


def _require_space(artifact: Artifact, cache: Cache) -> None:
    """Refuse early what certainly does not fit: the archive and a tree at least as large."""
    if artifact.size is None:
        return
    tree = max(artifact.size, sum(member.size or 0 for member in artifact.members))
    need, free = artifact.size + tree, files.free_space(cache.root)
    if need > free:
        raise no_space(artifact, cache.root, need=need, free=free)


def no_space(
    artifact: Artifact, place: Path, *, need: int | None = None, free: int | None = None
) -> FetchError:
    """Describe a volume that is too full."""
    facts = () if need is None else (f"needed: {need:,} bytes, archive and tree", f"free:   {free:,} bytes")
    msg = f"not enough space for {artifact.id} in {place}"
    hint = "Free some space (`invoke cache.prune` helps), or set CUDA_AMD_CACHE to a larger disk."
    return FetchError("no-space", msg, context=facts, hint=hint)


@contextmanager
def _storage(blob: Path) -> Iterator[None]:
    """Turn what the disk refuses into an error a person can act on."""
    try:
        yield
    except OSError as error:
        raise not_writable(blob.parent, error) from error


def _offline(artifact: Artifact) -> FetchError:
    """Describe an artifact that is missing while nothing may be downloaded."""
    msg = f"{artifact.id} is not in the store, and nothing is downloaded offline"
    hint = "Run once without --offline, or give --mirror=FOLDER with the file in it."
    return FetchError("offline-missing", msg, context=artifact.urls, hint=hint)


def _failure(artifact: Artifact, failures: dict[Source, AttemptError]) -> WorkspaceError:
    """Put every place's error into one; wrong bytes are the graver news."""
    lines: list[str] = []
    for place, failure in failures.items():
        lines += [f"{place.label}: {failure}", *(f"  {fact}" for fact in failure.context)]
    if any(failure.wrong_bytes for failure in failures.values()):
        return IntegrityError(
            "hash-mismatch",
            f"what came for {artifact.id} is not the pinned file; nothing of it was kept",
            context=tuple(lines),
            hint="Usually the file was replaced upstream (`invoke pins.check` tells), or something on the "
            "way (a mirror, proxy or login page) changed it. Try another network or mirror.",
        )
    return FetchError(
        "fetch-failed",
        f"{artifact.id} could not be downloaded",
        context=tuple(lines),
        hint="Check network and proxy and try again; --mirror=FOLDER takes a file you already have.",
    )
