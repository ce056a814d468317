"""What we may ask, and how an address is shown."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit, urlunsplit


def allowed(url: str, *, mirror: bool) -> bool:
    """Say whether we talk to ``url``: https, or for a mirror http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    return mirror and parts.scheme == "http" and is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Say whether ``host`` is this machine, by literal address or by the name ``localhost``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def shown(url: str) -> str:
    """Return ``url`` without user, password, query and fragment: those may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
