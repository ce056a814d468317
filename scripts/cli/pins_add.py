"""Show ``pins.add``."""

from __future__ import annotations

from scripts.app.pins_add import PinsAddResult
from scripts.model import Trust
from scripts.cli.console import Out


def show(result: PinsAddResult, out: Out) -> None:
    """Print the new pin, how far it can be trusted, and how to take it over."""
    item = result.artifact
    for line in result.diff.lines():
        out.line(line)
    if item.trust is Trust.UPSTREAM_DIGEST:
        out.mark("ok", "the release's own digest is the same")
    else:
        out.mark("warn", "nobody else has confirmed this hash: compare it with somebody on another network")
    if result.written:
        out.now(f"{item.id} is in pins.lock; add its root and members, and name it in a stack")
    else:
        out.now("take it over with --write")
