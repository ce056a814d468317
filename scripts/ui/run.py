"""The face of ``run``."""

from __future__ import annotations

from collections.abc import Mapping

from scripts.app.bench.run import RunResult
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
    for words in result.last_words:
        out.line(f"    | {words}")
    if result.native:
        out.line(f"    beside it, the device's own: {native(result.native)}")
    if result.record_path:
        out.line(f"    {result.trials} trials in {result.record_path}")
    if not good:
        out.now("see which libraries load: invoke check")


def native(found: Mapping[str, object]) -> str:
    """Put the device's own product into a line."""
    figure = next(
        (f"{v:,.1f} GFLOP/s" for k, v in found.items() if k.startswith("gflops") and isinstance(v, float)), ""
    )
    words = (found.get("library"), figure or found.get("note"), "" if figure else found.get("detail"))
    return ", ".join(str(word) for word in words if word)
