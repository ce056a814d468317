"""``cache.prune``: take away what nothing refers to any more."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.app.keeping import references
from scripts.app.staged import cache_of
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode
from scripts.store.cache import CacheEntry


@dataclass(frozen=True, kw_only=True)
class CachePruneResult:
    """What went (or with ``dry_run`` would go) and what stays."""

    gone: tuple[CacheEntry, ...]
    kept: int
    dry_run: bool
    exit_code: int = ExitCode.OK

    @property
    def bytes(self) -> int:
        """Disk that became free."""
        return sum(entry.bytes for entry in self.gone)

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        rows = [{"kind": e.kind.value, "key": e.key, "bytes": e.bytes} for e in self.gone]
        return {"dry_run": self.dry_run, "bytes": self.bytes, "gone": rows, "kept": self.kept}


def cache_prune(ws: Workspace, *, dry_run: bool = False) -> CachePruneResult:
    """Remove every entry that no generation of any checkout and no placement refers to."""
    cache, needed = cache_of(ws), references(ws)
    entries = cache.entries()
    gone = tuple(entry for entry in entries if entry.key not in needed)
    if not dry_run:
        for entry in gone:
            cache.remove(entry)
    return CachePruneResult(gone=gone, kept=len(entries) - len(gone), dry_run=dry_run)
