"""The face of ``shim``."""

from __future__ import annotations

from scripts.app.shim import ShimResult
from scripts.cli.console import Out


def show(result: ShimResult, out: Out) -> None:
    """Say where the script is and what it does not do."""
    for path in result.removed:
        out.mark("ok", f"removed {path}")
    for path in result.kept:
        out.mark("warn", f"left alone, because somebody changed it: {path}")
    if result.written is None:
        out.now("invoke wrap still starts the program")
        return
    out.mark("ok", f"{result.program.name} with {result.stack} ({result.via}): {result.written}")
    for note in result.notes:
        out.mark("warn", note)
    out.line("It does not verify the stack's files and undoes nothing; `invoke wrap` does.")
    out.now(f"double-click it, or make it the launch option of a game: {result.written}")
