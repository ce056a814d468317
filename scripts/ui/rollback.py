"""The face of ``rollback``."""

from __future__ import annotations

from scripts.app.stacks import RollbackResult
from scripts.ui.console import Out


def show(result: RollbackResult, out: Out) -> None:
    """Say what is active now and how to go forward again."""
    left, active = result.left, result.active
    out.mark("ok", f"{active.stack} is active again (generation {active.number})")
    out.line(f"left {left.stack} (generation {left.number})")
    out.now(f"forward again: invoke rollback --to={left.number}")
