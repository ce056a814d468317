"""The face of ``fetch``."""

from __future__ import annotations

from scripts.app.stage import FetchResult
from scripts.ui.console import Out
from scripts.ui.steps import show_steps


def show(result: FetchResult, out: Out) -> None:
    """Show the steps and what is in the store."""
    show_steps(result.steps, out)
    for blob in result.blobs:
        out.line(blob)
    out.now(f"unpack and assemble: invoke stage --stack={result.stack}")
