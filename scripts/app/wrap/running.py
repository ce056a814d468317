"""Which programs run with a stack's files at this moment, so that nothing takes the files away from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from scripts.app.context import Staged, Workspace
from scripts.osal.process_table import running, this_process
from scripts.placement.registry import PlacementRegistry

RUNS: Final = "runs"


@contextmanager
def noted_run(ws: Workspace, staged: Staged, program: Path) -> Iterator[None]:
    """Note a run while it lasts; a state folder that cannot be written to is no reason not to run."""
    registry = PlacementRegistry(ws.state_root)
    user = this_process()
    entry = ws.state_root / RUNS / user.name
    noted = staged.runtime.path is not None
    if noted:
        with suppress(OSError):
            facts = {"program": str(program), "stack": staged.stack.id, "user": user.name}
            registry.add(RUNS, entry, **facts)
    try:
        yield
    finally:
        if noted:
            with suppress(OSError):
                registry.remove(RUNS, entry)


def running_here(ws: Workspace) -> tuple[str, ...]:
    """Return a line for each wrapped program that runs; what was left by one that was killed is forgotten."""
    registry = PlacementRegistry(ws.state_root)
    lines = []
    for entry in registry.entries(RUNS):
        user = running(entry.facts.get("user", ""))
        if user is None:
            with suppress(OSError):
                registry.remove(RUNS, entry.path)
            continue
        program, stack = entry.facts.get("program", ""), entry.facts.get("stack", "")
        lines.append(f"{program} with {stack} (process {user.pid})")
    return tuple(lines)
