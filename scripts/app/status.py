"""``status``: what is here, at one glance, without changing anything."""

from __future__ import annotations

from msgspec import Struct

from scripts.app.compile_cache import CompileCache, compile_cache
from scripts.app.context import Workspace, cache_of, lock_of
from scripts.app.wrap_placing import ShimStatus, placed_here, shims_here
from scripts.errors import ExitCode
from scripts.model import Lock
from scripts.placement.status import PlacementStatus
from scripts.serialize import pick
from scripts.staging.runtimes import Generation, History, load_runtime, read_history
from scripts.store.cache import EntryKind, disk_of


class StatusResult(Struct, frozen=True, kw_only=True):
    """The active stack, the lock, the generations, and what lies in store and beside programs."""

    lock: Lock
    history: History
    runtime_present: bool
    store: str
    store_bytes: int
    leftovers: tuple[str, ...]
    placed: tuple[PlacementStatus, ...] = ()
    shims: tuple[ShimStatus, ...] = ()
    compiled: CompileCache | None = None
    exit_code: int = ExitCode.OK

    @property
    def active(self) -> Generation | None:
        """The generation in use."""
        return self.history.active

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        shown = "number stack digest options created=activated reason document?"
        return {
            "active": pick(self.active, shown) if self.active is not None else None,
            "lock": pick(self.lock, "path digest custom"),
            "lock_changed": self.active is not None and self.active.lock != self.lock.digest,
            "generations": [pick(generation, shown) for generation in self.history.generations],
            "store": {"path": self.store, "bytes": self.store_bytes},
            **pick(self, "runtime_present compile_cache=compiled leftovers placements=placed shims"),
        }


def status(ws: Workspace) -> StatusResult:
    """Look at lock, stage and store; reads no large file and asks no GPU."""
    lock, history, cache = lock_of(ws), read_history(ws.stage), cache_of(ws)
    active = history.active
    present = active is not None and load_runtime(cache, active.digest, stack=active.stack) is not None
    entries = cache.entries()
    return StatusResult(
        lock=lock,
        history=history,
        runtime_present=present,
        store=str(ws.cache_root),
        store_bytes=disk_of(entries),
        placed=placed_here(ws),
        shims=shims_here(ws),
        compiled=compile_cache(ws),
        leftovers=tuple(str(entry.path) for entry in entries if entry.kind is EntryKind.LEFTOVER),
    )
