"""``cache.list``: what the store holds and who needs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scripts.app.compiling import CompileCache, clear, compile_cache
from scripts.app.context import Workspace, cache_of, lock_of
from scripts.app.shims import shims_here
from scripts.app.wrap.placing import placed_here
from scripts.errors import ExitCode, HistoryError, HostError
from scripts.serialize import pick
from scripts.staging.build import build_key_of
from scripts.staging.generations import known_stages, read_history
from scripts.staging.runtimes import load_runtime
from scripts.store.cache import CacheEntry, disk_of


class CacheListResult(Struct, frozen=True, kw_only=True):
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
            {**pick(e, "kind key bytes path"), "needed_by": self.needed_by.get(e.key)} for e in self.entries
        ]
        return {"root": self.root, "bytes": self.bytes, "entries": rows}


def cache_list(ws: Workspace) -> CacheListResult:
    """List the store; changes nothing."""
    needed = references(ws, skip_unreadable=True)
    return CacheListResult(root=str(ws.cache_root), entries=cache_of(ws).entries(), needed_by=needed)


class CachePruneResult(Struct, frozen=True, kw_only=True):
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
        rows = [pick(entry, "kind key bytes") for entry in self.gone]
        return {**pick(self, "dry_run bytes kept compile_cache=compiled"), "gone": rows}


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


def references(ws: Workspace, *, skip_unreadable: bool = False) -> dict[str, str]:
    """Map every needed key of the store to a sentence that says who needs it.

    A runtime is needed by a generation, a placement or a shim; the archives and trees it was made from stay
    with it, so that a file an antivirus program takes can be put back without a download.

    Raises:
        HistoryError: the list of a checkout cannot be read, so that nothing of it may be removed; with
            ``skip_unreadable`` this is noted instead.
    """
    needed: dict[str, str] = {}
    cache, artifacts = cache_of(ws), lock_of(ws).artifacts
    for digest, who in _runtimes(ws, skip_unreadable=skip_unreadable):
        needed.setdefault(digest, who)
        runtime = load_runtime(cache, digest, stack="")
        for origin in {file.origin for file in runtime.files} if runtime else ():
            key = build_key_of(origin) or (artifacts[origin].sha256 if origin in artifacts else None)
            if key:
                needed.setdefault(key, who)
    return needed


def _runtimes(ws: Workspace, *, skip_unreadable: bool) -> Iterator[tuple[str, str]]:
    """Yield every runtime that may still be used."""
    for stage in dict.fromkeys((ws.stage, *known_stages(ws.state_root))):
        try:
            generations = read_history(stage).generations
        except HistoryError as error:
            if not skip_unreadable:
                raise
            ws.progress.note(f"{error.message}: {error.context[0]}")
            continue
        for generation in generations:
            yield (
                generation.digest,
                f"generation {generation.number} ({generation.stack}) of {_checkout(stage)}",
            )
    for placed in placed_here(ws):
        if placed.digest:
            yield placed.digest, f"placed in {placed.target}"
    for shim in shims_here(ws):
        if shim.standing != "gone":
            yield shim.digest, f"started by {shim.path}"


def _checkout(stage: Path) -> str:
    return str(stage.parent)
