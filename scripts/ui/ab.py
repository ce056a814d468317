"""The face of ``ab``."""

from __future__ import annotations

from scripts.app.bench.ab import AbResult
from scripts.ui.compare import show as show_comparison
from scripts.ui.console import Out

STOPPED = {
    "width": "the interval is narrow enough",
    "budget": "the rounds are used up",
    "failure": "an answer was not right",
}


def show(result: AbResult, out: Out) -> None:
    """Say how it ended, show the comparison, name the files."""
    out.line(f"{result.rounds} blocks of A B B A; stopped because {STOPPED[result.stopped]}.")
    out.line(f"Record: {result.record}")
    if result.result is None:
        out.mark("fail", f"not compared: {result.failure}")
        out.now("find out why: invoke check, invoke doctor")
        return
    show_comparison(result.result, out)
