"""The face of ``status``."""

from __future__ import annotations

from typing import Final

from scripts.app.status import StatusResult
from scripts.placement.status import PlacementStatus, TargetState
from scripts.ui.console import Out
from scripts.ui.words import short, size

#: What somebody should clean up.
UNWANTED: Final = frozenset(TargetState) - {TargetState.IN_USE, TargetState.KEPT}


def show(result: StatusResult, out: Out) -> None:
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
        out.now("invoke wrap --exe=PROGRAM -- ARGUMENTS" if ready else "set one up: invoke setup")


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
