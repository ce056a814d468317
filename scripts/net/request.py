"""One HTTP(S) request for the raw bytes of a file: redirects, proxies, ranges, busy servers.

Proxies are the environment's, looked up for each hop, except for this machine itself. A token goes to the
host it was given for, and not along with a redirect to another one.
"""

from __future__ import annotations

import hashlib
import re
import time
from contextlib import closing
from typing import Final, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from msgspec import Struct

from scripts.errors import FetchError
from scripts.model import NoProgress, Progress
from scripts.net.session import AttemptError, Transport, proxies_for, retry, retry_after
from scripts.net.sources import allowed, origin, shown
from scripts.osal.text import count

T = TypeVar("T")

MAX_REDIRECTS: Final = 10
OK: Final = 200
PARTIAL_CONTENT: Final = 206
RANGE_NOT_SATISFIABLE: Final = 416
#: A file of unknown size is given up after this many bytes.
MAX_BYTES: Final = 8 * 1024**3

#: A server that sends less than this in a minute is given up like one that sends nothing.
_SLOWEST: Final = 60 * 1024
_MINUTE: Final = 60.0
_BLOCK: Final = 256 * 1024
#: Bytes of the beginning that messages may show.
_FIRST: Final = 64
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TRANSIENT: Final = frozenset({408, 429})
_MOVED: Final = "look at the project's release page: the file may have moved"
_PROXY_LOGIN: Final = "set HTTPS_PROXY to http://USER:PASSWORD@HOST:PORT: the proxy wants a login"
_HINTS: Final = {404: _MOVED, 410: _MOVED, 407: _PROXY_LOGIN}
_SERVER_ERROR: Final = 500
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.ASCII)
_WEB_PAGE: Final = (b"<!doctype html", b"<html", b"<head", b"<body", b"<script")


class HashedUrl(Struct, frozen=True, kw_only=True):
    """What a URL gave. ``cut`` means that it has more bytes than allowed; there is no hash then."""

    sha256: str
    size: int
    first: bytes
    cut: bool


class _Pace:
    """Notices a body that only trickles: each block resets a socket's own timeout."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._bytes = 0

    def add(self, amount: int) -> None:
        """Add a block; give up at the end of a minute that brought next to nothing."""
        self._bytes += amount
        now = time.monotonic()
        if now - self._since < _MINUTE:
            return
        if self._bytes < _SLOWEST:
            msg = f"only {self._bytes:,} bytes in a minute"
            raise AttemptError(msg, transient=True)
        self._since, self._bytes = now, 0


class Reply:
    """An open response, positioned at byte ``start`` of the file.

    ``total`` is the whole file's size as the server announces it; ``etag`` is a strong validator or empty;
    ``encoding`` is a content encoding that was not asked for.
    """

    def __init__(self, response: requests.Response, *, start: int, total: int | None) -> None:
        """Take over an answer whose body is unread."""
        self._response = response
        self._pace = _Pace()
        self.start = start
        self.total = total
        etag = response.headers.get("ETag", "")
        self.etag = etag if etag.startswith('"') else ""
        encoding = response.headers.get("Content-Encoding", "")
        self.encoding = "" if encoding.lower() == "identity" else encoding

    def read(self, most: int, /) -> bytes:
        """Return the next bytes as they came over the wire; empty at the end.

        Raises:
            AttemptError: the connection broke, the body ended too early, or it only trickles.
        """
        try:
            block = bytes(self._response.raw.read1(most, decode_content=False))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            msg = f"the connection broke: {_reason(error)}"
            raise AttemptError(msg, transient=True, reference="upstream-unreachable") from error
        self._pace.add(len(block))
        return block

    def whole(self, most: int) -> bytes | None:
        """Return a short body; ``None`` where it has more bytes than that.

        Raises:
            AttemptError: as ``read``.
        """
        body = b""
        while block := self.read(1 << 16):
            body += block
            if len(body) > most:
                return None
        return body

    def close(self) -> None:
        """Give the connection up."""
        self._response.close()


def hash_url(
    url: str, transport: Transport, *, most: int = MAX_BYTES, progress: Progress | None = None
) -> HashedUrl:
    """Stream a file through SHA-256 and keep nothing of it.

    Args:
        url: an https URL, or http on loopback.
        transport: how to ask.
        most: stop after this many bytes and set ``cut``.
        progress: given every block's size.

    Raises:
        FetchError: it did not arrive whole.
    """

    def ask(session: requests.Session) -> HashedUrl:
        with closing(open_url(session, url, transport, loopback=True)) as reply:
            return _hash(reply, url, most, progress or NoProgress())

    return retry(url, transport, ask)


def read_url(url: str, transport: Transport, *, most: int, headers: dict[str, str]) -> bytes:
    """Read a short text, for example a page of a package index.

    Raises:
        FetchError: it did not arrive whole; ``too-long``: it has more than ``most`` bytes.
    """

    def ask(session: requests.Session) -> bytes:
        with closing(open_url(session, url, transport, headers=headers)) as reply:
            body = reply.whole(most)
        if body is None:
            msg = f"the answer is longer than {most} bytes"
            raise FetchError("too-long", msg, context=(shown(url),))
        return body

    return retry(url, transport, ask)


def open_url(
    session: requests.Session,
    url: str,
    transport: Transport,
    *,
    start: int = 0,
    etag: str = "",
    loopback: bool = False,
    headers: dict[str, str] | None = None,
    token: str = "",
) -> Reply:
    """Ask for ``url`` from byte ``start`` on, if it still is the file that ``etag`` names.

    Redirects are followed one by one: to ``https:``, with ``loopback`` also to ``http:`` on this machine.

    Raises:
        AttemptError: anything but the file, from that byte or from its beginning.
    """
    ranged = {"Range": f"bytes={start}-", "If-Range": etag} if start and etag else {}
    place = url
    for _ in range(MAX_REDIRECTS + 1):
        if not allowed(place, loopback=loopback):
            msg = f"refused to ask {shown(place)}: not https"
            raise AttemptError(msg, reference="insecure-redirect")
        private = {"Authorization": f"Bearer {token}"} if token and origin(place) == origin(url) else {}
        response = _get(session, place, {**(headers or {}), **ranged, **private}, transport)
        location = response.headers.get("Location")
        if response.status_code not in _REDIRECTS or location is None:
            return _reply(response, start if ranged else 0)
        response.close()
        place = urljoin(place, location)
    msg = f"more than {MAX_REDIRECTS} redirects"
    raise AttemptError(msg, reference="too-many-redirects")


def is_web_page(start: bytes) -> bool:
    """Recognise a page sent instead of a file: a login, a portal, a "not found" with status 200."""
    return start[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_WEB_PAGE)


def _get(
    session: requests.Session, url: str, headers: dict[str, str], transport: Transport
) -> requests.Response:
    """Send one request and return the response with its body unread."""
    try:
        return session.get(
            url,
            headers=headers,
            stream=True,
            allow_redirects=False,
            timeout=(transport.connect_timeout, transport.read_timeout),
            proxies=proxies_for(url),
        )
    except requests.exceptions.SSLError as error:
        raise _tls_failure(error) from error
    except requests.exceptions.Timeout as error:
        msg = "no answer in time"
        raise AttemptError(msg, transient=True, reference="upstream-unreachable") from error
    except requests.exceptions.ConnectionError as error:
        if "407" in _reason(error) and isinstance(error, requests.exceptions.ProxyError):
            raise AttemptError(_reason(error), reference="upstream-unreachable", hint=_PROXY_LOGIN) from error
        msg = f"no connection: {_reason(error)}"
        raise AttemptError(msg, transient=True, reference="upstream-unreachable") from error
    except (requests.exceptions.RequestException, ValueError) as error:
        msg = f"cannot be asked: {_reason(error)}"
        raise AttemptError(msg, reference="upstream-unreachable") from error


def _reply(response: requests.Response, start: int) -> Reply:
    status = response.status_code
    try:
        if status == PARTIAL_CONTENT and start:
            total = _total(response.headers.get("Content-Range", ""), start)
            return Reply(response, start=start, total=total)
        if status == OK:
            return Reply(response, start=0, total=count(response.headers.get("Content-Length", "")))
        raise _refusal(response)
    except AttemptError:
        response.close()
        raise


def _refusal(response: requests.Response) -> AttemptError:
    """Describe a status that brings no file."""
    status = response.status_code
    transient = status >= _SERVER_ERROR or status in _TRANSIENT or status == RANGE_NOT_SATISFIABLE
    return AttemptError(
        f"HTTP {status} {response.reason or ''}".rstrip(),
        transient=transient,
        status=status,
        headers=response.headers,
        wait=retry_after(response.headers.get("Retry-After", "")) if transient else 0.0,
        hint=_HINTS.get(status, ""),
    )


def _total(header: str, start: int) -> int | None:
    """Check that the server sends exactly what was asked for, and return the whole size."""
    found = _CONTENT_RANGE.fullmatch(header.strip())
    if found is None or int(found[1]) != start:
        msg = f"asked for bytes {start}-, the server sends {header[:100] or 'no Content-Range'!r}"
        raise AttemptError(msg)
    total = None if found[3] == "*" else int(found[3])
    if total is not None and int(found[2]) != total - 1:
        msg = f"asked for bytes {start}-, the server stops early: {header!r}"
        raise AttemptError(msg)
    return total


def _hash(reply: Reply, url: str, most: int, progress: Progress) -> HashedUrl:
    """Read a body to its end or to ``most`` bytes."""
    if reply.encoding:
        msg = "the server sends a packed copy, although the plain file was asked for"
        raise AttemptError(msg, reference="content-encoding")
    if reply.total is not None and reply.total > most:
        return HashedUrl(sha256="", size=reply.total, first=b"", cut=True)
    digest, first, size = hashlib.sha256(), b"", 0
    with progress.task(urlsplit(url).path.rpartition("/")[2], reply.total) as advance:
        while block := reply.read(_BLOCK):
            digest.update(block)
            size += len(block)
            first += block[: _FIRST - len(first)]
            advance(len(block))
            if size > most:
                return HashedUrl(sha256="", size=size, first=first, cut=True)
    if reply.total is not None and size != reply.total:
        msg = f"the body ended after {size:,} of {reply.total:,} bytes"
        raise AttemptError(msg, transient=True, reference="upstream-unreachable")
    return HashedUrl(sha256=digest.hexdigest(), size=size, first=first, cut=False)


def _tls_failure(error: Exception) -> AttemptError:
    """Say that the certificate is not trusted, and what usually is behind it."""
    reason = _reason(error)
    if "expired" in reason or "not yet valid" in reason:
        today = time.strftime("%Y-%m-%d", time.gmtime())
        return AttemptError(
            f"the server's certificate is not valid at this machine's date, {today}: {reason}",
            reference="untrusted-certificate",
            hint="compare this machine's date with the real one; a certificate has a first and a last day",
        )
    return AttemptError(
        f"the server's certificate is not trusted: {reason}",
        reference="untrusted-certificate",
        context=("behind an antivirus or company proxy, its certificate belongs in the system's store",),
        hint="add the certificate of your antivirus program or company proxy to the system's store",
    )


def _reason(error: BaseException) -> str:
    """Return the innermost reason in one line, without the layers of wrapping."""
    inner: BaseException = error
    while True:
        nested = getattr(inner, "reason", None) or next(
            (a for a in inner.args if isinstance(a, BaseException)), None
        )
        if not isinstance(nested, BaseException):
            return " ".join(str(inner).split())[:300] or type(inner).__name__
        inner = nested
