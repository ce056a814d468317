"""Where an artifact may come from, and what of it is here already; light enough for planning a download."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from msgspec import Struct

from scripts.errors import UsageError
from scripts.model import Artifact
from scripts.osal import fs
from scripts.osal.paths import refusal
from scripts.serialize import parse_json


def is_loopback(host: str) -> bool:
    """Say whether ``host`` is this machine by its spelling; names are not looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def shown(url: str) -> str:
    """Return ``url`` without user, password, query and fragment: those may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def allowed(url: str, *, loopback: bool) -> bool:
    """Say whether we talk to ``url``: https, or with ``loopback`` http on this machine as well."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    return loopback and parts.scheme == "http" and is_loopback(parts.hostname or "")


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


class DownloadSource(Struct, frozen=True, kw_only=True):
    """One place to ask: a file in a folder, or a URL; ``mirror`` marks what is not the artifact's own."""

    url: str = ""
    file: Path | None = None
    mirror: bool = False

    @property
    def label(self) -> str:
        """How the place is shown; secrets in URLs are left out."""
        return str(self.file) if self.file is not None else shown(self.url)


def sources(artifact: Artifact, mirrors: tuple[str, ...]) -> tuple[DownloadSource, ...]:
    """Return every place in the order it is asked.

    A mirror holds files under their SHA-256 or under the last component of one of the artifact's URLs.

    Raises:
        UsageError: a mirror is neither a folder, nor https, nor http on this machine.
    """
    own = tuple(DownloadSource(url=url) for url in artifact.urls)
    return (*(source for mirror in mirrors for source in _of_mirror(artifact, mirror)), *own)


def file_names(artifact: Artifact) -> tuple[str, ...]:
    """Return the names a mirror may hold the artifact under; each is one safe path component."""
    names = [artifact.sha256] if artifact.sha256 else []
    names += [name for url in artifact.urls if (name := last_component(url))]
    return tuple(dict.fromkeys(names))


def last_component(url: str) -> str:
    """Return the percent-decoded last component of a URL's path, or "" if it is not a plain name."""
    name = unquote(urlsplit(url).path.rpartition("/")[2], errors="surrogateescape")
    return "" if "/" in name or refusal(name) is not None else name


def _of_mirror(artifact: Artifact, mirror: str) -> tuple[DownloadSource, ...]:
    names = file_names(artifact)
    if "://" not in mirror:
        return tuple(DownloadSource(file=Path(mirror) / name, mirror=True) for name in names)
    parts = urlsplit(mirror)
    if not allowed(mirror, loopback=True) or parts.query or parts.fragment:
        msg = f"not a usable mirror: {shown(mirror)}"
        hint = "give a folder, an https: URL, or an http: URL on this machine, without ? and #"
        raise UsageError("mirror-not-usable", msg, hint=hint)
    base = mirror.rstrip("/")
    return tuple(DownloadSource(url=f"{base}/{quote(name)}", mirror=True) for name in names)


#: Bytes of the beginning that messages may show.
HEAD: Final = 48
#: Blocks that wait to be hashed: the bound on memory.
_WAITING_BLOCKS: Final = 32
_MOST_NOTE: Final = 64 * 1024


class Received(Struct, frozen=True, kw_only=True):
    """What has arrived: the hash and size of everything, and its first bytes."""

    sha256: str
    size: int
    head: bytes


class HashingWriter:
    """Writes blocks to a file while a second thread hashes them (hashlib releases the GIL)."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to ``file``, which stays the caller's to close."""
        self._file = file
        self._digest = hashlib.sha256()
        self._blocks: queue.Queue[bytes | None] = queue.Queue(_WAITING_BLOCKS)
        self._thread = threading.Thread(target=self._hash, name="hash", daemon=True)
        self._thread.start()
        self._finished = False
        self.size = 0
        self.head = b""

    def write(self, block: bytes) -> None:
        """Take one block."""
        self.feed(block)
        self._file.write(block)

    def feed(self, block: bytes) -> None:
        """Hash a block that is on disk already."""
        self._blocks.put(block)
        self.size += len(block)
        if len(self.head) < HEAD:
            self.head += block[: HEAD - len(self.head)]

    def finish(self) -> Received:
        """Wait for the hash; nothing may be written afterwards. Asking again is fine."""
        if not self._finished:
            self._finished = True
            self._blocks.put(None)
            self._thread.join()
        return Received(sha256=self._digest.hexdigest(), size=self.size, head=self.head)

    def _hash(self) -> None:
        while (block := self._blocks.get()) is not None:
            self._digest.update(block)


class Partial(Struct, frozen=True):
    """The unfinished file of one blob: ``<sha256>.part``, with the server's validator in ``.part.json``.

    Without a strong validator the rest might come from another file, so nothing is kept then.
    """

    blob: Path

    @property
    def path(self) -> Path:
        """Where the bytes are."""
        return self.blob.with_name(f"{self.blob.name}.part")

    @property
    def note(self) -> Path:
        """Where the validator is."""
        return self.blob.with_name(f"{self.blob.name}.part.json")

    def size(self) -> int:
        """Return how many bytes are there."""
        try:
            return fs.long_path(self.path).stat().st_size
        except FileNotFoundError:
            return 0

    def etag(self) -> str:
        """Return the strong validator of the file these bytes began, or nothing."""
        try:
            noted = parse_json(fs.read_bounded(self.note, _MOST_NOTE))
            etag = noted["etag"]
        except (OSError, ValueError, KeyError, TypeError):
            return ""
        return etag if isinstance(etag, str) and etag.startswith('"') else ""

    def begin(self, etag: str) -> None:
        """Forget what is there; remember which file the next bytes belong to."""
        self.discard()
        if etag:
            fs.write_atomic(self.note, json.dumps({"etag": etag}).encode(), durable=False)

    def discard(self) -> None:
        """Leave nothing."""
        fs.remove(self.path)
        fs.remove(self.note)

    def tidy(self) -> None:
        """Keep the bytes only if the download can be resumed."""
        if not self.etag() or not self.size():
            self.discard()

    @contextmanager
    def writer(self, advance: Callable[[int], None]) -> Iterator[HashingWriter]:
        """Open for appending, with what is there read and hashed first."""
        with fs.long_path(self.path).open("a+b") as file:
            writer = HashingWriter(file)
            try:
                file.seek(0)
                while block := file.read(fs.CHUNK):
                    writer.feed(block)
                    advance(len(block))
                yield writer
            finally:
                writer.finish()

    def keep(self) -> Path:
        """Make the finished file the blob: durable, read-only, under its name."""
        with fs.long_path(self.path).open("rb+") as file:
            os.fsync(file.fileno())
        fs.set_read_only(self.path)
        fs.replace(self.path, self.blob)
        fs.remove(self.note)
        fs.sync_folder(self.blob.parent)
        return self.blob
