"""Where an artifact may come from: mirrors first, then its own URLs."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from scripts.errors import UsageError
from scripts.model import Artifact
from scripts.net.urls import allowed, shown
from scripts.osal.paths import refusal


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
    """Return the places of one mirror."""
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
