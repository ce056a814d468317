"""The face of ``status``."""

from __future__ import annotations

from scripts.app.status import StatusResult
from scripts.ui.console import Out
from scripts.ui.words import short, size


def show(result: StatusResult, out: Out) -> None:
    """Show the active stack first, then everything around it."""
    active = result.active
    if active is None:
        out.mark("skip", "no stack is active in this workspace")
    elif not result.runtime_present:
        out.mark("fail", f"{active.stack} is active, but its files are no longer in the store")
    else:
        out.mark("ok", f"{active.stack} is active (generation {active.number}, {short(active.digest)}, {active.created})")
    custom = ", custom" if result.lock.custom else ""
    out.line(f"lock     {short(result.lock.digest)} {result.lock.path}{custom}")
    if active is not None and active.lock != result.lock.digest:
        out.mark("warn", f"the lock has changed since generation {active.number}: `invoke setup` takes it up")
    if active is not None and active.document:
        out.line(f"evidence {active.document}")
    out.line(f"store    {result.store} ({size(result.store_bytes)})")
    for other in result.history.generations:
        if active is None or other.number != active.number:
            out.line(f"         generation {other.number}: {other.stack} {short(other.digest)} {other.created}")
    for path in result.leftovers:
        out.mark("warn", f"left over from an interrupted run: {path}")
    out.now("set one up: invoke setup" if active is None or not result.runtime_present else "invoke wrap --exe=PROGRAM -- ARGUMENTS")
