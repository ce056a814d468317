"""``cache.list``: what the store holds and who needs it."""

from __future__ import annotations

from scripts.app.keeping import references
from scripts.app.staged import cache_of
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode
from scripts.records import dataclass
from scripts.store.cache import CacheEntry, disk_of


@dataclass(frozen=True, kw_only=True)
class CacheListResult:
    """Everything in the store; ``needed_by`` says why an entry stays, entry key by entry key."""

    root: str
    entries: tuple[CacheEntry, ...]
    needed_by: dict[str, str]
    exit_code: int = ExitCode.OK

    @property
    def bytes(self) -> int:
        """Disk in use: less than the entries' sum where they share files."""
        return disk_of(self.entries)

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        rows = [
            {
                "kind": e.kind.value,
                "key": e.key,
                "bytes": e.bytes,
                "path": str(e.path),
                "needed_by": self.needed_by.get(e.key),
            }
            for e in self.entries
        ]
        return {"root": self.root, "bytes": self.bytes, "entries": rows}


def cache_list(ws: Workspace) -> CacheListResult:
    """List the store; changes nothing."""
    return CacheListResult(root=str(ws.cache_root), entries=cache_of(ws).entries(), needed_by=references(ws))
