"""The face of ``check``."""

from __future__ import annotations

from typing import Final

from scripts.app.check import CheckResult
from scripts.model import Outcome, StackKind
from scripts.cli.console import Out
from scripts.cli.words import seconds

MARKS: Final = {
    Outcome.PASS: "ok",
    Outcome.UNAVAILABLE: "skip",
    Outcome.NOT_REACHED: "unknown",
    Outcome.HANG_AFTER_RESULT: "warn",
    Outcome.CRASH_AFTER_RESULT: "warn",
}


def show(result: CheckResult, out: Out) -> None:
    """Show every library, then what it means, then what to do."""
    absent = [
        r.capability for r in result.verdict.results if r.outcome is Outcome.UNAVAILABLE and not r.level
    ]
    for item in result.verdict.results:
        if item.capability in absent:
            continue
        detail = f": {item.detail}" if item.detail else ""
        out.mark(MARKS.get(item.outcome, "fail"), f"{item.capability} {item.outcome.value}{detail}")
    if absent:
        out.mark("skip", f"not here: {', '.join(absent)}")
    for note in result.notes:
        out.mark("warn", note)
    for line in result.noise[:20]:
        out.line(f"    {line}")
    word = "The libraries load" if result.verdict.loads else "Not all libraries load"
    out.line(f"{word} ({result.stack}, {seconds(result.seconds)}): {result.verdict.reason}.")
    if result.simulated:
        out.loud("This is the CPU reference stack: it proves the pipeline, not a GPU.")
    if result.verdict.loads:
        out.line("Loading is not working: this says nothing about numbers.")
        out.now("see whether numbers are right: invoke run --workload=gemm")
    else:
        if result.kind is StackKind.TRANSLATION and result.verdict.outcome is Outcome.TIMEOUT:
            out.line(
                "A library that is missing opens a message box; without anybody to close it the check waits."
            )
        out.now("find out why: invoke doctor")
