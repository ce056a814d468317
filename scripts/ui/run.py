"""The face of ``run``."""

from __future__ import annotations

from scripts.app.run import RunResult
from scripts.model import Outcome
from scripts.ui.console import Out
from scripts.ui.words import seconds


def show(result: RunResult, out: Out) -> None:
    """Say whether the answer was right, and how far that goes."""
    good = result.result.outcome is Outcome.PASS
    level = f", {result.result.level.value}" if result.result.level else ""
    simulated = " (simulated: this is the CPU, not a GPU)" if result.simulated else ""
    word = f"{result.result.outcome.value}{level}{simulated}"
    line = f"{result.workload} on {result.stack}: {word}, {seconds(result.seconds)}"
    out.mark("ok" if good else "fail", line)
    out.line(f"    {result.result.detail}")
    if not good:
        out.now("see which libraries load: invoke check")
