"""``status``: what is here, at one glance, without changing anything."""

from __future__ import annotations

from scripts.app.compiling import CompileCache, compile_cache
from scripts.app.context import Workspace, cache_of, lock_of
from scripts.app.shim import ShimStatus, shims_here
from scripts.app.wrap.placing import placed_here
from scripts.errors import ExitCode
from scripts.model import Lock
from scripts.placement.status import PlacementStatus
from scripts.records import dataclass
from scripts.staging.assemble import load_runtime
from scripts.staging.generations import Generation, History, read_history
from scripts.store.cache import EntryKind, disk_of


@dataclass(frozen=True, kw_only=True)
class StatusResult:
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
        active = self.active
        return {
            "active": None if active is None else _generation(active),
            "runtime_present": self.runtime_present,
            "lock": {"path": str(self.lock.path), "digest": self.lock.digest, "custom": self.lock.custom},
            "lock_changed": active is not None and active.lock != self.lock.digest,
            "generations": [_generation(g) for g in self.history.generations],
            "store": {"path": self.store, "bytes": self.store_bytes},
            "compile_cache": None if self.compiled is None else self.compiled.to_json(),
            "leftovers": list(self.leftovers),
            "placements": [status.to_json() for status in self.placed],
            "shims": [shim.to_json() for shim in self.shims],
        }


def _generation(generation: Generation) -> dict[str, object]:
    """Return plain data of one generation."""
    return {
        "number": generation.number,
        "stack": generation.stack,
        "digest": generation.digest,
        "options": list(generation.options),
        "created": generation.created,
        "reason": generation.reason,
        "document": generation.document or None,
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
