"""When a failed download or question is tried again: the delays, what a server asks for, the last error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, TypeVar

from scripts.errors import FetchError, UsageError
from scripts.net.sources import shown
from scripts.osal.text import count

if TYPE_CHECKING:
    import requests

    from scripts.net.session import Transport

T = TypeVar("T")

#: Seconds between rounds of attempts; together 63, because a release host's hiccup lasts about a minute.
DELAYS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
#: The same for a question that a person waits for.
SHORT_DELAYS: Final = (1.0, 4.0)
#: The longest a server may ask us to wait.
LONGEST_WAIT: Final = 120.0


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
                    raise _final(url, error) from None
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


def _final(url: str, error: AttemptError) -> FetchError:
    """Make the error to show where nothing else is tried."""
    hint = error.hint or "Check the network and the proxy settings, then run the task again."
    return FetchError(error.reference, str(error), context=(f"url: {shown(url)}", *error.context), hint=hint)
