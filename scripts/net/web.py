"""Ask upstream: https only, certificates of the operating system, a token for one host alone.

Redirects are followed here, one by one, so that a token never travels to another host and nothing is
taken from ``http:`` (loopback excepted, where tests and mirrors live).
"""

from __future__ import annotations

import functools
import hashlib
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import requests
from msgspec import Struct, field

from scripts.errors import FetchError
from scripts.model import NoProgress, Progress
from scripts.net.session import certificates, is_loopback, open_session, proxies_for, shown

#: A file of unknown size is given up after this many bytes.
MAX_BYTES: Final = 8 * 1024**3
MAX_REDIRECTS: Final = 10
CHUNK: Final = 1 << 20

_OK: Final = 200
_BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})


#: Looks at a response that is not 200; ``None`` leaves it to the general rule.
Judge = Callable[[str, requests.Response], Exception | None]


class Hashed(Struct, frozen=True, kw_only=True):
    """What a URL gave. ``cut`` means that it has more bytes than allowed; there is no hash then."""

    sha256: str
    size: int
    first: bytes
    cut: bool


class Web(Struct, frozen=True, kw_only=True):
    """How servers are asked.

    Attributes:
        ca_file: certificates trusted besides the system's, in PEM format.
        timeouts: seconds to connect, and seconds without a byte.
        delays: waits before another attempt, where another attempt may help.
        sleep: how to wait.
    """

    ca_file: Path | None = None
    timeouts: tuple[float, float] = (15.0, 60.0)
    delays: tuple[float, ...] = (1.0, 4.0)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def hash_url(self, url: str, *, most: int = MAX_BYTES, progress: Progress | None = None) -> Hashed:
        """Stream a file through SHA-256 and keep nothing of it.

        Args:
            url: an https URL, or http on loopback.
            most: stop after this many bytes and say so in ``cut``.
            progress: told about every block.

        Raises:
            FetchError: it did not arrive whole.
        """
        for delay in (*self.delays, None):
            try:
                with self.opened(url, {"Accept-Encoding": "identity"}) as response:
                    return _hash(response, url, most, progress or NoProgress())
            except requests.exceptions.RequestException as error:
                if delay is None:
                    raise unreachable(url, error) from None
            except BusyError as error:
                if delay is None:
                    raise error.final from None
            self.sleep(delay)
        raise AssertionError(url)  # the last round returns or raises

    def read_page(self, url: str, *, most: int) -> bytes:
        """Read a page of text whole.

        Raises:
            FetchError: it did not arrive whole, or it has more than ``most`` bytes.
        """
        for delay in (*self.delays, None):
            try:
                with self.opened(url, {"Accept": "text/html"}) as response:
                    return _whole(response, url, most)
            except requests.exceptions.RequestException as error:
                if delay is None:
                    raise unreachable(url, error) from None
            except BusyError as error:
                if delay is None:
                    raise error.final from None
            self.sleep(delay)
        raise AssertionError(url)  # the last round returns or raises

    @contextmanager
    def opened(
        self, url: str, headers: dict[str, str], *, token: str = "", judge: Judge | None = None
    ) -> Iterator[requests.Response]:
        """Open a URL, following redirects; the body is unread, the status is 200.

        Args:
            url: the address.
            headers: sent with every hop.
            token: sent to the address's own host only.
            judge: may turn another status into an error of its own.

        Raises:
            FetchError: refused for good. ``BusyError`` where another attempt may help.
            requests.exceptions.RequestException: no connection, or it broke.
        """
        with open_session(_certificates(self.ca_file)) as session:
            response = self._follow(session, url, headers, token)
            with response:
                if response.status_code != _OK:
                    raise (judge and judge(url, response)) or _refused(url, response)
                yield response

    def _follow(
        self, session: requests.Session, url: str, headers: dict[str, str], token: str
    ) -> requests.Response:
        home = origin(url)
        for _ in range(MAX_REDIRECTS + 1):
            if not secure(url):
                msg = "The server redirects to an address that is not https, so it was not followed."
                raise FetchError(reference="insecure-redirect", message=msg, context=(shown(url),))
            private = {"Authorization": f"Bearer {token}"} if token and origin(url) == home else {}
            response = session.get(
                url,
                headers={**headers, **private},
                stream=True,
                allow_redirects=False,
                timeout=self.timeouts,
                proxies=proxies_for(url),
            )
            if not response.is_redirect:
                return response
            url = urljoin(url, response.headers["Location"])
            response.close()
        msg = f"The server redirects more than {MAX_REDIRECTS} times."
        raise FetchError(reference="too-many-redirects", message=msg, context=(shown(url),))


class BusyError(Exception):
    """The server may answer later; ``final`` is the error to show when it does not."""

    def __init__(self, final: FetchError) -> None:
        """Keep the error."""
        super().__init__(str(final))
        self.final = final


def secure(url: str) -> bool:
    """Whether nobody on the way can change what comes: https, or http on loopback."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def unreachable(url: str, error: Exception) -> FetchError:
    """Make the error for a server that cannot be asked."""
    host = urlsplit(url).hostname
    if isinstance(error, requests.exceptions.SSLError):
        msg = f"The certificate of {host} is not trusted."
        hint = "Behind an antivirus or a company proxy, add its certificate to the system's store."
        return FetchError(reference="untrusted-certificate", message=msg, context=(str(url),), hint=hint)
    msg = f"{host} cannot be reached, or the connection broke."
    hint = "Check the network and the proxy settings, then run the task again."
    return FetchError(
        reference="upstream-unreachable",
        message=msg,
        context=(shown(url), type(error).__name__),
        hint=hint,
    )


def _refused(url: str, response: requests.Response) -> Exception:
    status = response.status_code
    msg = f"The server answers {status} {response.reason or ''}".rstrip() + "."
    hint = "The file may have moved: look at its project's release page."
    final = FetchError(reference="upstream-refused", message=msg, context=(f"url: {shown(url)}",), hint=hint)
    return BusyError(final) if status in _BUSY else final


def _hash(response: requests.Response, url: str, most: int, progress: Progress) -> Hashed:
    total = _announced(response)
    if total is not None and total > most:
        return Hashed(sha256="", size=total, first=b"", cut=True)
    digest = hashlib.sha256()
    first, size = b"", 0
    with progress.task(urlsplit(url).path.rpartition("/")[2], total) as advance:
        for chunk in response.iter_content(CHUNK):
            digest.update(chunk)
            size += len(chunk)
            first = first or chunk[:64]
            advance(len(chunk))
            if size > most:
                return Hashed(sha256="", size=size, first=first, cut=True)
    if total is not None and size != total:
        raise requests.exceptions.ChunkedEncodingError(url)
    return Hashed(sha256=digest.hexdigest(), size=size, first=first, cut=False)


def _whole(response: requests.Response, url: str, most: int) -> bytes:
    body = b""
    for chunk in response.iter_content(1 << 16):
        body += chunk
        if len(body) > most:
            raise FetchError("page-too-long", "the page is longer than it may be", context=(shown(url),))
    return body


def _announced(response: requests.Response) -> int | None:
    """Return the announced length; a packed copy has other bytes than the file and is refused."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        msg = "The server sends a packed copy, although the plain file was asked for."
        raise FetchError(reference="content-encoding", message=msg, context=(shown(response.url),))
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isascii() and length.isdigit() else None


@functools.cache
def _certificates(ca_file: Path | None) -> ssl.SSLContext:
    """Read the certificates once; on some systems there are hundreds."""
    try:
        return certificates(ca_file)
    except OSError:
        msg = f"No certificates can be read from {ca_file}."
        hint = "Correct SSL_CERT_FILE, or unset it."
        raise FetchError(reference="bad-certificates", message=msg, hint=hint) from None
