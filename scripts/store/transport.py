"""How patient downloads are with servers, and what one failed attempt says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import requests

from scripts.errors import UsageError
from scripts.records import dataclass
from scripts.system.https import certificates, open_session

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
        """Open a session that trusts what the operating system trusts.

        Raises:
            UsageError: ``ca_file`` holds no certificates.
        """
        try:
            session = open_session(certificates(self.ca_file))
        except OSError as error:  # ssl.SSLError is one as well
            msg = f"no certificates could be read from {self.ca_file}"
            hint = "Give a file in PEM format."
            raise UsageError("ca-file-not-usable", msg, context=(str(error),), hint=hint) from error
        session.headers["Accept-Encoding"] = "identity"
        return session
