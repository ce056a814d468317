"""Which URLs may be pinned: https, one unchanging file, nothing secret in it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ARCHIVE_END: Final = re.compile(r"\.(?:zip|tar|tar\.gz|tgz|whl|7z)$")
_LATEST: Final = re.compile(r"(?<![a-z0-9])latest(?![a-z0-9])")
_BRANCHES: Final = frozenset({"main", "master", "head", "heads", "trunk", "develop", "nightly"})
_SECRETS: Final = frozenset(
    {"access_token", "token", "key", "sig", "signature", "x-amz-signature", "x-amz-credential", "password"}
)
_ENCODE: Final = frozenset(' \\"<>^`{|}')


class UrlProblem(Struct, frozen=True, kw_only=True):
    """Why a URL cannot be pinned, in the words of an error panel."""

    reference: str
    message: str
    hint: str


def url_problem(value: str) -> UrlProblem | None:
    """Return what is wrong with a URL, or ``None`` if it may be pinned; pure."""
    if not value.isascii() or not value.isprintable() or _ENCODE & set(value):
        return _bad(
            "holds characters that must be percent-encoded", "Percent-encode it, for example + as %2B."
        )
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return _bad("cannot be read as one", "Copy it again from its source.")
    return _address(parts) or _secret(parts) or _moving(parts)


def _address(parts: SplitResult) -> UrlProblem | None:
    if parts.scheme == "http":
        message = "the URL uses http:, which anyone on the way can change"
        hint = "use the https address; a file from an http mirror goes through --mirror"
        return UrlProblem(reference="insecure-url", message=message, hint=hint)
    if parts.scheme != "https" or not parts.hostname or parts.path in {"", "/"}:
        return _bad("is not the https address of a file", "Use an https URL.")
    if parts.fragment:
        return _bad("has a fragment, which is never sent to a server", "Put a #sha256=… into the key sha256.")
    return None


def _secret(parts: SplitResult) -> UrlProblem | None:
    names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.username is None and not names & _SECRETS:
        return None
    return UrlProblem(
        reference="credentials-in-url",
        message="The URL holds credentials, which a lock would publish.",
        hint="Take them out and revoke them; pin a public URL.",
    )


def _bad(what: str, hint: str) -> UrlProblem:
    return UrlProblem(reference="bad-url", message=f"The URL {what}.", hint=hint)


def _moving(parts: SplitResult) -> UrlProblem | None:
    """Find a branch or ``latest``: such a URL gives other bytes tomorrow."""
    path = [unquote(part).lower() for part in parts.path.split("/")]
    values = [value.lower() for _, value in parse_qsl(parts.query)]
    found = next((part for part in (*path, *values) if _moves(part)), None)
    pinned = any(_COMMIT.fullmatch(part) for part in path)
    if found is None and not pinned and ("raw" in path or parts.hostname == "raw.githubusercontent.com"):
        found = "raw"
    if found is None:
        return None
    return UrlProblem(
        reference="moving-url",
        message=f"The URL names something that moves ({found!r}), so its bytes will change.",
        hint="Use the URL of one release or of one commit.",
    )


def _moves(part: str) -> bool:
    return _LATEST.search(part) is not None or _ARCHIVE_END.sub("", part) in _BRANCHES
