"""How we talk to servers: certificates, identification, patience.

Certificates are the operating system's (plus ``ca_file``), so that nobody behind an antivirus or company
proxy has a reason to switch verification off. ``.netrc`` is not read.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests
import truststore
import urllib3
from requests.adapters import HTTPAdapter

from scripts import __version__
from scripts.errors import UsageError

#: Seconds between rounds of attempts; together 63, because a release host's hiccup lasts about a minute.
DELAYS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class AttemptError(Exception):
    """One attempt at one place failed.

    Attributes:
        transient: trying the same place again later may help.
        wait: seconds the server asked us to wait, or 0.
        wrong_bytes: bytes came, but not the pinned ones.
        status: the HTTP status that came instead of the file, or 0.
        context: more facts, one a line.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        wait: float = 0.0,
        wrong_bytes: bool = False,
        status: int = 0,
        context: tuple[str, ...] = (),
    ) -> None:
        """Keep what the caller decides by."""
        super().__init__(message)
        self.transient = transient
        self.wait = wait
        self.wrong_bytes = wrong_bytes
        self.status = status
        self.context = context


@dataclass(frozen=True, kw_only=True)
class Transport:
    """How to talk to servers; tests make the waiting shorter."""

    connect_timeout: float = 15.0
    read_timeout: float = 60.0
    delays: tuple[float, ...] = DELAYS
    sleep: Callable[[float], None] = time.sleep
    ca_file: Path | None = None

    def session(self) -> requests.Session:
        """Open a session that trusts what the operating system trusts and reads no ``.netrc``."""
        session = requests.Session()
        session.trust_env = False  # it would also read .netrc; proxies are looked up for each hop
        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca_file is not None:
            _add_certificates(context, self.ca_file)
        session.mount("https://", _SystemCertificates(context))
        session.headers = requests.structures.CaseInsensitiveDict(
            {"User-Agent": f"cuda-on-amd/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
        )
        return session


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


def _add_certificates(context: ssl.SSLContext, ca_file: Path) -> None:
    """Trust the certificates of a PEM file too."""
    try:
        context.load_verify_locations(cafile=str(ca_file))
    except OSError as error:  # ssl.SSLError is one as well
        msg = f"no certificates could be read from {ca_file}"
        hint = "Give a file in PEM format."
        raise UsageError("ca-file-not-usable", msg, context=(str(error),), hint=hint) from error
