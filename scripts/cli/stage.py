"""The face of ``stage``."""

from __future__ import annotations

from scripts.app.stage import StageResult
from scripts.cli.console import Out
from scripts.cli.steps import show_steps


def show(result: StageResult, out: Out) -> None:
    """Show the steps and what to do with the result."""
    show_steps(result.steps, out)
    out.line(f"{result.stack} lies ready: {result.path or 'nothing to stage'}")
    out.now(f"check it and make it active: invoke setup --stack={result.stack}")
