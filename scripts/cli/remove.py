"""The face of ``remove``."""

from __future__ import annotations

from scripts.app.remove import RemoveResult
from scripts.cli.console import Out


def show(result: RemoveResult, out: Out) -> None:
    """Name what went and what stays."""
    for path in result.paths:
        out.mark("ok" if result.done else "skip", f"{'removed' if result.done else 'would remove'} {path}")
    for path in result.kept:
        out.mark("skip", f"kept {path}")
    if result.done:
        out.now("the environment itself: delete the folder .venv of this checkout")
    else:
        out.now("take it away: invoke remove --yes")
