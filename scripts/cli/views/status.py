"""What a person sees of ``status``, the store and ``remove``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.cli.console import RUN_ONE, Out, short, size
from scripts.placement.status import TargetState

if TYPE_CHECKING:
    from scripts.app.cache import CacheListResult, CachePruneResult
    from scripts.app.remove import RemoveResult
    from scripts.app.status import StatusResult
    from scripts.placement.status import PlacementStatus


#: What somebody should clean up.
UNWANTED: Final = frozenset(TargetState) - {TargetState.IN_USE, TargetState.KEPT}


def show_status(result: StatusResult, out: Out) -> None:
    """Show the active stack first, then everything around it."""
    _show_active(result, out)
    active, lock = result.active, result.lock
    out.line(f"lock     {short(lock.digest)} {lock.path}{', custom' if lock.custom else ''}")
    if active is not None and active.lock != lock.digest:
        out.mark("warn", f"the lock has changed since generation {active.number}: `invoke setup` takes it up")
    if active is not None and active.document:
        out.line(f"evidence {active.document}")
    out.line(f"store    {result.store} ({size(result.store_bytes)})")
    if result.compiled is not None and result.compiled.files:
        out.line(f"compiled {result.compiled.folder} ({size(result.compiled.bytes)}, the layer's)")
    for other in result.history.generations:
        if active is None or other.number != active.number:
            out.line(
                f"         generation {other.number}: {other.stack} {short(other.digest)} {other.created}"
            )
    unwanted = [placed for placed in result.placed if placed.standing in UNWANTED]
    for placed in result.placed:
        line = _placed(placed, advise=placed not in unwanted[:1])  # the closing line says what to do first
        out.mark("warn" if placed in unwanted else "ok", line)
    for shim in result.shims:
        what = f"shim for {shim.program.name} with {shim.stack}: {shim.path}"
        out.mark("warn" if shim.advice else "ok", f"{what}. {shim.advice}".rstrip(". "))
    for path in result.leftovers:
        out.mark("warn", f"left over from an interrupted run: {path}")
    ready = active is not None and result.runtime_present
    if unwanted:
        out.now(unwanted[0].advice)
    else:
        out.now(RUN_ONE if ready else "set one up: invoke setup")


def _placed(placed: PlacementStatus, *, advise: bool) -> str:
    """Say in one sentence what lies beside a program, for whom, and what can be done."""
    files = f"{len(placed.files)} files of {placed.stack} beside the program in " if placed.stack else ""
    users = f" (process {', '.join(map(str, placed.users))})" if placed.users else ""
    advice = f"; {placed.advice}" if placed.advice and advise else ""
    return f"{placed.standing.value}{users}: {files}{placed.target}{advice}"


def _show_active(result: StatusResult, out: Out) -> None:
    """Say in one line what is active and whether it can be used."""
    active = result.active
    if active is None:
        out.mark("skip", "no stack is active in this workspace")
    elif not result.runtime_present:
        out.mark("fail", f"{active.stack} is active, but its files are no longer in the store")
    else:
        which = f"generation {active.number}, {short(active.digest)}, {active.created}"
        out.mark("ok", f"{active.stack} is active ({which})")


def show_cache_list(result: CacheListResult, out: Out) -> None:
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


def show_cache_prune(result: CachePruneResult, out: Out) -> None:
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


def show_remove(result: RemoveResult, out: Out) -> None:
    """Name what went and what stays."""
    mark, what = ("ok", "removed") if result.done else ("skip", "would remove")
    compiled = [path for path in result.paths if Path(path).name == "__pycache__"]
    for path in result.paths:
        if path not in compiled:
            out.mark(mark, f"{what} {path}")
    if compiled:
        out.mark(mark, f"{what} {len(compiled)} folders __pycache__ below {os.path.commonpath(compiled)}")
    for path in result.kept:
        out.mark("skip", f"kept {path}")
    if not result.done:
        out.now("remove it: invoke remove --yes")
