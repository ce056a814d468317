"""What we may ask."""

from __future__ import annotations

from urllib.parse import urlsplit

from scripts.system.addresses import is_loopback


def allowed(url: str, *, mirror: bool) -> bool:
    """Say whether we talk to ``url``: https, or for a mirror http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    return mirror and parts.scheme == "http" and is_loopback(parts.hostname or "")
