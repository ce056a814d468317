"""One HTTP(S) request for the raw bytes of a file: redirects, proxies, ranges, and what may go wrong.

Proxies are the environment's, looked up for each hop, except for this machine itself.
"""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urljoin

import requests
import urllib3
from msgspec import Struct

from scripts.net.session import AttemptError, Transport, allowed, proxies_for, shown

#: The longest a server may ask us to wait.
LONGEST_WAIT: Final = 120.0
MAX_REDIRECTS: Final = 10
OK: Final = 200
PARTIAL_CONTENT: Final = 206
RANGE_NOT_SATISFIABLE: Final = 416

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TRANSIENT: Final = frozenset({408, 429})
_SERVER_ERROR: Final = 500
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Reply(Struct, frozen=True, kw_only=True):
    """An open response, positioned at byte ``start`` of the file.

    ``total`` is the whole file's size as the server tells it; ``etag`` is a strong validator or empty;
    ``encoding`` is a content encoding nobody asked for.
    """

    response: requests.Response
    start: int
    total: int | None
    etag: str
    encoding: str

    def read(self, most: int) -> bytes:
        """Return the next bytes as they came over the wire; empty at the end.

        Raises:
            AttemptError: the connection broke or the body ended too early.
        """
        try:
            return bytes(self.response.raw.read1(most, decode_content=False))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            msg = f"the connection broke: {_reason(error)}"
            raise AttemptError(msg, transient=True) from error

    def close(self) -> None:
        """Give the connection up."""
        self.response.close()


def open_url(
    session: requests.Session,
    url: str,
    transport: Transport,
    *,
    start: int = 0,
    etag: str = "",
    mirror: bool = False,
) -> Reply:
    """Ask for ``url`` from byte ``start`` on, if it still is the file that ``etag`` names.

    Redirects are followed one by one: to ``https:`` only; for a ``mirror`` also ``http:`` on loopback.

    Raises:
        AttemptError: anything but the file, from that byte or from its beginning.
    """
    headers = {"Range": f"bytes={start}-", "If-Range": etag} if start and etag else {}
    place = url
    for _ in range(MAX_REDIRECTS + 1):
        if not allowed(place, mirror=mirror):
            msg = f"refused to ask {shown(place)}: not https"
            raise AttemptError(msg)
        response = _get(session, place, headers, transport)
        location = response.headers.get("Location")
        if response.status_code not in _REDIRECTS or location is None:
            return _reply(response, start if headers else 0)
        response.close()
        place = urljoin(place, location)
    msg = f"more than {MAX_REDIRECTS} redirects"
    raise AttemptError(msg)


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
        raise AttemptError(msg, transient=True) from error
    except requests.exceptions.ConnectionError as error:
        msg = f"no connection: {_reason(error)}"
        raise AttemptError(msg, transient=True) from error
    except (requests.exceptions.RequestException, ValueError) as error:
        msg = f"cannot be asked: {_reason(error)}"
        raise AttemptError(msg) from error


def _reply(response: requests.Response, start: int) -> Reply:
    """Judge status and headers."""
    status = response.status_code
    try:
        if status == PARTIAL_CONTENT and start:
            total = _total_of_range(response.headers.get("Content-Range", ""), start)
        elif status == OK:
            start, total = 0, _length(response)
        else:
            raise _refusal(response)
    except AttemptError:
        response.close()
        raise
    etag = response.headers.get("ETag", "")
    encoding = response.headers.get("Content-Encoding", "")
    return Reply(
        response=response,
        start=start,
        total=total,
        etag=etag if etag.startswith('"') else "",
        encoding="" if encoding.lower() == "identity" else encoding,
    )


def _refusal(response: requests.Response) -> AttemptError:
    """Describe a status that brings no file."""
    status = response.status_code
    transient = status >= _SERVER_ERROR or status in _TRANSIENT or status == RANGE_NOT_SATISFIABLE
    return AttemptError(
        f"HTTP {status} {response.reason or ''}".rstrip(),
        transient=transient,
        status=status,
        wait=_retry_after(response.headers.get("Retry-After", "")) if transient else 0.0,
    )


def _total_of_range(header: str, start: int) -> int | None:
    """Check that the server sends exactly what was asked for, and return the whole size."""
    found = _CONTENT_RANGE.fullmatch(header.strip())
    if found is None or int(found[1]) != start:
        msg = f"asked for bytes {start}-, the server sends {header or 'no Content-Range'!r}"
        raise AttemptError(msg)
    total = None if found[3] == "*" else int(found[3])
    if total is not None and int(found[2]) != total - 1:
        msg = f"asked for bytes {start}-, the server stops early: {header!r}"
        raise AttemptError(msg)
    return total


def _length(response: requests.Response) -> int | None:
    """Return the announced length; a malformed one counts as unknown."""
    value = response.headers.get("Content-Length", "")
    return int(value) if value.isascii() and value.isdigit() else None


def _retry_after(value: str) -> float:
    """Read ``Retry-After``: seconds or a date; at most two minutes."""
    try:
        seconds = float(int(value))
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT)


def _tls_failure(error: Exception) -> AttemptError:
    """Say that the certificate is not trusted, and what usually is behind it."""
    return AttemptError(
        f"the server's certificate is not trusted: {_reason(error)}",
        context=("behind an antivirus or company proxy, its certificate belongs in the system's store",),
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
