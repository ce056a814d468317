"""The face of ``use``."""

from __future__ import annotations

from scripts.app.stacks import UseResult
from scripts.ui.console import Out
from scripts.ui.words import short


def show(result: UseResult, out: Out) -> None:
    """Say what is active now and how to go back."""
    out.mark(
        "ok",
        f"{result.active.stack} is active (generation {result.active.number}, {short(result.active.digest)})",
    )
    if result.before is not None and result.before.number != result.active.number:
        out.now(f"back to {result.before.stack}: invoke rollback")
    else:
        out.now("run a program with it: invoke wrap --exe=PROGRAM -- ARGUMENTS")
