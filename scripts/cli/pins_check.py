"""Show ``pins.check``."""

from __future__ import annotations

from scripts.app.pins_check import PinsCheckResult, PinStatus
from scripts.cli.console import Out


def show(result: PinsCheckResult, out: Out) -> None:
    """Print one line per URL and what to do about differences."""
    rows = [(row.artifact, row.status.value, row.url or "-", row.detail) for row in result.checked]
    out.table(("artifact", "status", "url", "detail"), rows, title="Pinned downloads, hashed again")
    found = [row.status for row in result.checked]
    if PinStatus.DIFFERS in found:
        out.loud(
            "Bytes upstream are not the pinned ones. Do not change the pin: find out why they changed, "
            "for example in the project's release notes, and report it."
        )
    if PinStatus.UNREACHABLE in found:
        out.mark(
            "unknown", f"{found.count(PinStatus.UNREACHABLE)} could not be asked; nothing is said about them"
        )
    if set(found) <= {PinStatus.SAME, PinStatus.SUPPLIED}:
        out.mark("ok", f"{found.count(PinStatus.SAME)} downloads are what pins.lock says")
