"""The face of ``cache.list``."""

from __future__ import annotations

from scripts.app.cache import CacheListResult
from scripts.ui.console import Out
from scripts.ui.words import short, size


def show(result: CacheListResult, out: Out) -> None:
    """Show the entries, the largest first."""
    rows = [
        (e.kind.value, short(e.key), size(e.bytes), result.needed_by.get(e.key, "nothing here"))
        for e in sorted(result.entries, key=lambda e: -e.bytes)
    ]
    if rows:
        out.table(("what", "key", "size", "needed by"), rows)
    shared = "; what entries share counts once" if result.bytes < sum(e.bytes for e in result.entries) else ""
    out.line(f"{result.root}: {len(rows)} entries, {size(result.bytes)}{shared}")
    out.now("take away what nothing needs: invoke cache.prune --dry-run")
