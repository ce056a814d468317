"""Bring an artifact's bytes from one place into its partial file, and compare them with the pin."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final

import requests
from msgspec import Struct

from scripts.errors import FetchError, IntegrityError, WorkspaceError
from scripts.model import Artifact, ArtifactFormat, Progress
from scripts.net.request import RANGE_NOT_SATISFIABLE, Reply, is_web_page, open_url
from scripts.net.session import AttemptError, Transport
from scripts.net.sources import DownloadSource, Partial, Received
from scripts.osal import fs

#: An attempt that brings this many bytes is followed by another at the same place.
_GOOD_PIECE: Final = 1024 * 1024


def from_place(
    job: Download, session: requests.Session, place: DownloadSource, advance: Callable[[int], None]
) -> None:
    """Collect the pinned bytes from ``place``.

    Raises:
        AttemptError: the place did not deliver them. Wrong bytes are removed.
        FetchError: the disk is full; nothing is left.
    """
    try:
        if place.file is not None:
            received = _from_file(job, place, advance)
        else:
            received = _from_url(job, session, place, advance)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            job.partial.discard()
            msg = f"the disk became full while {job.artifact.id} was written"
            hint = "free some space (`invoke cache.prune` helps), or set CUDA_AMD_CACHE to a larger disk"
            facts = (str(job.partial.blob.parent),)
            raise FetchError("no-space", msg, context=facts, hint=hint) from error
        raise
    _compare(job, place, received)


def _from_file(job: Download, place: DownloadSource, advance: Callable[[int], None]) -> Received:
    """Copy a file of a mirror folder, hashing it."""
    job.partial.begin("")
    try:
        source = fs.long_path(place.file or job.partial.path).open("rb")
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        msg = "not in this folder" if gone else f"cannot be read: {error.strerror}"
        raise AttemptError(msg) from error
    with source:
        return _collect(job, source, advance)


def _from_url(
    job: Download, session: requests.Session, place: DownloadSource, advance: Callable[[int], None]
) -> Received:
    """Download from a URL, going on where an earlier attempt stopped if the server vouches for it."""
    partial = job.partial
    etag, start = partial.etag(), partial.size()
    if etag and start == job.artifact.size:
        return _collect(job, None, advance)  # killed between the last byte and the comparison
    try:
        reply = open_url(session, place.url, job.transport, start=start, etag=etag, loopback=place.mirror)
    except AttemptError as error:
        if error.status == RANGE_NOT_SATISFIABLE:
            partial.discard()
        raise
    with closing(reply):
        if not reply.start:
            partial.begin("" if reply.encoding else reply.etag)
        return _collect(job, reply, advance)


def _collect(job: Download, source: Reply | BinaryIO | None, advance: Callable[[int], None]) -> Received:
    """Hash what is there, append what ``source`` gives, and return what it all is."""
    with job.partial.writer(advance) as writer:
        looked_at = False
        while source is not None and (block := source.read(fs.CHUNK)):
            if not looked_at:
                looked_at = True
                _refuse_web_page(job.artifact, block)
                _refuse_other_size(job, source)
            writer.write(block)
            advance(len(block))
            if writer.size > job.limit:
                break
        received = writer.finish()
    if received.size > job.limit:
        raise _too_large(job, received.head)
    if job.artifact.size is not None and received.size < job.artifact.size:
        msg = f"the body ended after {received.size:,} of {job.artifact.size:,} bytes"
        served = isinstance(source, Reply)
        raise AttemptError(msg, transient=served, wrong_bytes=not served)
    return received


def _compare(job: Download, place: DownloadSource, received: Received) -> None:
    """Accept the pinned bytes; remove others and say everything that helps to find out why."""
    artifact = job.artifact
    if received.sha256 == artifact.sha256:
        return
    job.partial.discard()
    facts = (
        f"name:     {artifact.id}",
        f"from:     {place.label}",
        f"expected: {artifact.sha256}",
        f"got:      {received.sha256}",
        f"size:     {received.size:,} bytes, pinned {_size_text(artifact)}",
        f"begins:   {received.head!r}",
    )
    msg = "the bytes have another SHA-256 than pinned"
    raise AttemptError(msg, wrong_bytes=True, context=facts)


def _refuse_web_page(artifact: Artifact, block: bytes) -> None:
    if artifact.format is not ArtifactFormat.RAW and is_web_page(block):
        msg = "a web page came instead of the file (a login or portal page?)"
        raise AttemptError(msg, context=(f"begins: {block[:96]!r}",))


def _refuse_other_size(job: Download, source: Reply | BinaryIO) -> None:
    """Do not download what cannot be the pinned file."""
    total = source.total if isinstance(source, Reply) else None
    if total is None:
        return
    if job.artifact.size not in {None, total}:
        msg = f"the server announces {total:,} bytes, pinned are {_size_text(job.artifact)}"
        raise AttemptError(msg, wrong_bytes=True)
    if total > job.limit:
        msg = f"the server announces {total:,} bytes; the cap for files of unpublished size is {job.limit:,}"
        raise AttemptError(msg)


def _too_large(job: Download, head: bytes) -> AttemptError:
    """Describe a body that goes on beyond what is pinned or allowed, and remove it."""
    job.partial.discard()
    if job.artifact.size is None:
        msg = f"larger than {job.limit:,} bytes, the cap for files of unpublished size"
        return AttemptError(msg)
    msg = f"the body goes on after the pinned {job.limit:,} bytes"
    return AttemptError(msg, wrong_bytes=True, context=(f"begins: {head!r}",))


def _size_text(artifact: Artifact) -> str:
    return "unknown" if artifact.size is None else f"{artifact.size:,} bytes"


class Download(Struct, frozen=True, kw_only=True):
    """One artifact on its way from one of several places; ``limit`` is how many bytes it may have at most."""

    artifact: Artifact
    partial: Partial
    limit: int
    transport: Transport
    progress: Progress

    def run(self, places: tuple[DownloadSource, ...]) -> Path:
        """Ask the places in rounds until one delivers; return the blob.

        Raises:
            FetchError: none had it, or the disk is full.
            IntegrityError: none had it, and one had other bytes.
        """
        failures: dict[DownloadSource, AttemptError] = {}
        open_places = list(places)
        try:
            with self.transport.session() as session:
                for delay in (*self.transport.delays, None):
                    for place in tuple(open_places):
                        failure = self._ask(session, place)
                        if failure is None:
                            self._note_wrong_bytes(failures)
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

    def _ask(self, session: requests.Session, place: DownloadSource) -> AttemptError | None:
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

    def _receive(self, session: requests.Session, place: DownloadSource) -> None:
        """Bring the file from one place and compare it; a wrong resumed one is started again once."""
        resumed = place.file is None and bool(self.partial.etag()) and self.partial.size() > 0
        with self.progress.task(f"fetch {self.artifact.id}", self.artifact.size) as advance:
            try:
                from_place(self, session, place, advance)
            except AttemptError as error:
                if error.wrong_bytes and resumed:
                    self.partial.discard()
                    msg = "the resumed file was damaged; starting again from its first byte"
                    raise AttemptError(msg, transient=True) from error
                raise

    def _pause(self, delay: float, failures: list[AttemptError]) -> None:
        """Wait before the next round, as long as the most patient server asks for."""
        wait = max(delay, *(failure.wait for failure in failures))
        self.progress.note(f"{self.artifact.id}: {failures[-1]}; trying again in {wait:.0f} s")
        self.transport.sleep(wait)

    def _note_wrong_bytes(self, failures: dict[DownloadSource, AttemptError]) -> None:
        """Say which earlier places had wrong bytes."""
        for place, failure in failures.items():
            if failure.wrong_bytes:
                self.progress.note(f"{self.artifact.id}: {place.label} was passed over: {failure}")


def _failure(artifact: Artifact, failures: dict[DownloadSource, AttemptError]) -> WorkspaceError:
    """Put every place's error into one; wrong bytes are the graver news."""
    lines: list[str] = []
    for place, failure in failures.items():
        lines += [f"{place.label}: {failure}", *(f"  {fact}" for fact in failure.context)]
    if any(failure.wrong_bytes for failure in failures.values()):
        return IntegrityError(
            "hash-mismatch",
            f"what came for {artifact.id} is not the pinned file; nothing of it was kept",
            context=tuple(lines),
            hint="try another network or mirror: usually the file was replaced upstream (`invoke pins.check` "
            "shows it), or something on the way (a mirror, proxy or login page) changed it",
        )
    own = next((failure.hint for failure in reversed(failures.values()) if failure.hint), "")
    return FetchError(
        "fetch-failed",
        f"{artifact.id} could not be downloaded",
        context=tuple(lines),
        hint=own or "check network and proxy and try again; --mirror=FOLDER takes a file you already have",
    )
