"""Which addresses are asked, and how they are shown; light, for whoever only plans a download."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit, urlunsplit


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
