"""The face of ``cache.prune``."""

from __future__ import annotations

from scripts.app.cache import CachePruneResult
from scripts.ui.console import Out
from scripts.ui.words import short, size


def show(result: CachePruneResult, out: Out) -> None:
    """Say what went and what stayed."""
    if result.compiled is not None:
        _show_compiled(result, out)
        return
    for entry in result.gone:
        out.line(f"{entry.kind.value:8} {short(entry.key)}  {size(entry.bytes)}")
    verb = "would go" if result.dry_run else "gone"
    out.line(f"{len(result.gone)} entries {verb} ({size(result.bytes)}), {result.kept} kept")
    if result.dry_run and result.gone:
        out.now("take them away: invoke cache.prune")


def _show_compiled(result: CachePruneResult, out: Out) -> None:
    """Say what went of the compile cache."""
    cache = result.compiled
    if cache is None or not cache.files:
        out.line("The compile cache is empty.")
        return
    for path in cache.files:
        out.line(str(path))
    count = f"{len(cache.files)} file{'s' if len(cache.files) > 1 else ''}"
    out.line(f"{count} {'would go' if result.dry_run else 'gone'} ({size(cache.bytes)})")
    if result.dry_run:
        out.now("take them away: invoke cache.prune --compile")
    else:
        out.line("The first run of every program compiles again, which can take minutes.")
