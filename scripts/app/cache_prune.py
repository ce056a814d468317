"""``cache.prune``: take away what nothing refers to any more, or what the layer has compiled."""

from __future__ import annotations

from scripts.app.compiling import CompileCache, clear, compile_cache
from scripts.app.keeping import references
from scripts.app.staged import cache_of
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode, HostError
from scripts.records import dataclass
from scripts.store.cache import CacheEntry, disk_of


@dataclass(frozen=True, kw_only=True)
class CachePruneResult:
    """What went (or with ``dry_run`` would go), what stays, and how many bytes that freed.

    With ``compiled`` it is the layer's compile cache that went, and nothing of the store.
    """

    gone: tuple[CacheEntry, ...]
    kept: int
    dry_run: bool
    freed: int = 0
    compiled: CompileCache | None = None
    exit_code: int = ExitCode.OK

    @property
    def bytes(self) -> int:
        """Disk that became free."""
        return self.compiled.bytes if self.compiled else self.freed

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        rows = [{"kind": e.kind.value, "key": e.key, "bytes": e.bytes} for e in self.gone]
        return {
            "dry_run": self.dry_run,
            "bytes": self.bytes,
            "gone": rows,
            "kept": self.kept,
            "compile_cache": self.compiled.to_json() if self.compiled else None,
        }


def cache_prune(ws: Workspace, *, compile_: bool = False, dry_run: bool = False) -> CachePruneResult:
    """Remove every entry that no generation of any checkout and no placement refers to.

    With ``compile_`` clear the layer's compile cache instead, which grows for ever; programs fill it anew.

    Raises:
        ConflictError: ``compile-cache-in-use``.
        HostError: ``compile-cache-unknown``: this user's cache folder is not known.
    """
    if compile_:
        return _clear_compiled(ws, dry_run=dry_run)
    cache, needed = cache_of(ws), references(ws)
    entries = cache.entries()
    gone = tuple(entry for entry in entries if entry.key not in needed)
    if not dry_run:
        for entry in gone:
            cache.remove(entry)
    kept = [entry for entry in entries if entry.key in needed]
    freed = disk_of(entries) - disk_of(kept)
    return CachePruneResult(gone=gone, kept=len(kept), dry_run=dry_run, freed=freed)


def _clear_compiled(ws: Workspace, *, dry_run: bool) -> CachePruneResult:
    """Clear the compile cache, or with ``dry_run`` say what would go."""
    compiled = compile_cache(ws)
    if compiled is None:
        msg = "this user's cache folder is not known"
        raise HostError("compile-cache-unknown", msg, hint="set HOME, as the layer needs it too")
    if not dry_run:
        clear(compiled)
    return CachePruneResult(gone=(), kept=0, dry_run=dry_run, compiled=compiled)
