"""The face of ``cache.prune``."""

from __future__ import annotations

from scripts.app.cache_prune import CachePruneResult
from scripts.ui.console import Out
from scripts.ui.words import short, size


def show(result: CachePruneResult, out: Out) -> None:
    """Say what went and what stayed."""
    for entry in result.gone:
        out.line(f"{entry.kind.value:8} {short(entry.key)}  {size(entry.bytes)}")
    verb = "would go" if result.dry_run else "gone"
    out.line(f"{len(result.gone)} entries {verb} ({size(result.bytes)}), {result.kept} kept")
    if result.dry_run and result.gone:
        out.now("take them away: invoke cache.prune")
