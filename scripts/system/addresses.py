"""What an address says: whether it is this machine, and how it is shown to people. Pure."""

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
