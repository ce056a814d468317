"""How servers are talked to, for downloads and metadata alike, and when they are asked again.

Certificates are the operating system's (plus a file of the user's), so that no one behind an antivirus or
company proxy has a reason to switch verification off. ``.netrc`` is not read. Slow to import: whoever may
do without a server imports it late.
"""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import requests
import truststore
import urllib3
from msgspec import Struct
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies

from scripts import __version__
from scripts.errors import FetchError, UsageError
from scripts.net.sources import is_loopback, shown
from scripts.osal.text import count

T = TypeVar("T")

#: Seconds between rounds of attempts; together 63, because a release host's hiccup lasts about a minute.
DELAYS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
#: The same for a question that a person waits for.
SHORT_DELAYS: Final = (1.0, 4.0)
#: The longest a server may ask us to wait.
LONGEST_WAIT: Final = 120.0


@functools.cache
def certificates(ca_file: Path | None) -> ssl.SSLContext:
    """Trust what the operating system trusts, and the certificates of a PEM file too; read once.

    Raises:
        OSError: the file cannot be read, or holds no certificates.
    """
    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file is not None:
        context.load_verify_locations(cafile=str(ca_file))
    return context


def proxies_for(url: str) -> dict[str, str]:
    """Return the environment's proxies for one address; this machine itself is asked directly."""
    if is_loopback(urlsplit(url).hostname or ""):
        return {}
    return {scheme: proxy for scheme, proxy in get_environ_proxies(url).items() if proxy}


class _SystemCertificates(HTTPAdapter):
    """An adapter that verifies with a context of ours instead of a bundle of its own."""

    def __init__(self, context: ssl.SSLContext) -> None:
        """Keep the context; the base class builds its pools at once."""
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed through
        """Use the context for direct connections."""
        super().init_poolmanager(*args, **kwargs, ssl_context=self._context)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> urllib3.ProxyManager:  # noqa: ANN401 - passed
        """Use the context behind a proxy too."""
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, **kwargs, ssl_context=self._context)
        return manager

    def cert_verify(self, conn: object, url: str, verify: object, cert: object) -> None:
        """Always verify, and do not add the bundle that comes with requests."""
        del url, verify, cert
        conn.cert_reqs = "CERT_REQUIRED"  # type: ignore[attr-defined]  # a urllib3 pool


def _quiet(_line: str) -> None:
    """Say nothing."""


class Transport(Struct, frozen=True, kw_only=True):
    """How to talk to servers; ``note`` hears that one is asked again. Tests make the waiting shorter."""

    connect_timeout: float = 15.0
    read_timeout: float = 60.0
    delays: tuple[float, ...] = DELAYS
    sleep: Callable[[float], None] = time.sleep
    note: Callable[[str], None] = _quiet
    ca_file: Path | None = None

    def session(self) -> requests.Session:
        """Open a session that trusts what the operating system trusts.

        Raises:
            UsageError: ``ca_file`` holds no certificates.
        """
        try:
            context = certificates(self.ca_file)
        except OSError as error:  # ssl.SSLError is one as well
            msg = f"no certificates can be read from {self.ca_file}"
            hint = "give a file in PEM format, or unset SSL_CERT_FILE"
            raise UsageError("ca-file-not-usable", msg, context=(str(error),), hint=hint) from error
        session = requests.Session()
        session.trust_env = False  # it would also read .netrc; proxies are looked up for each address
        session.mount("https://", _SystemCertificates(context))
        session.headers["User-Agent"] = f"cuda-on-amd/{__version__}"
        session.headers["Accept-Encoding"] = "identity"
        return session


class AttemptError(Exception):
    """One attempt at one place failed.

    Attributes:
        transient: trying the same place again later may help.
        wait: seconds the server asked us to wait, or 0.
        wrong_bytes: bytes came, but not the pinned ones.
        status: the HTTP status that came instead of the file, or 0.
        reference: what kind of failure this is, for callers that show it as an error of its own.
        headers: those of the answer, where one came.
        context: more facts, one a line.
        hint: what the person can do.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        wait: float = 0.0,
        wrong_bytes: bool = False,
        status: int = 0,
        reference: str = "upstream-refused",
        headers: Mapping[str, str] | None = None,
        context: tuple[str, ...] = (),
        hint: str = "",
    ) -> None:
        """Keep what the caller decides by."""
        super().__init__(message)
        self.transient = transient
        self.wait = wait
        self.wrong_bytes = wrong_bytes
        self.status = status
        self.reference = reference
        self.headers = headers or {}
        self.context = context
        self.hint = hint


def retry(url: str, transport: Transport, ask: Callable[[requests.Session], T]) -> T:
    """Return what ``ask`` returns, asking again where a failure may pass.

    Raises:
        FetchError: the last failure; a certificate file that cannot be read.
    """
    try:
        session = transport.session()
    except UsageError as error:
        raise FetchError("bad-certificates", error.message, context=error.context, hint=error.hint) from None
    with session:
        for delay in (*transport.delays, None):
            try:
                return ask(session)
            except AttemptError as error:
                if delay is None or not error.transient:
                    hint = error.hint or "check the network and the proxy settings, then run the task again"
                    facts = (f"url: {shown(url)}", *error.context)
                    raise FetchError(error.reference, str(error), context=facts, hint=hint) from None
                pause = max(delay, error.wait)
                transport.note(f"{shown(url)}: {error}; asking again in {pause:.0f} s")
                transport.sleep(pause)
    raise AssertionError(url)  # the last round returns or raises


def retry_after(value: str) -> float:
    """Read ``Retry-After``: seconds or a date; at most two minutes."""
    seconds = count(value.strip())
    if seconds is None:
        try:
            return min(max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0), LONGEST_WAIT)
        except (ValueError, OverflowError):
            return 0.0
    return min(float(seconds), LONGEST_WAIT)
