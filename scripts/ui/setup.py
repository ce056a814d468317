"""The face of ``setup``."""

from __future__ import annotations

from scripts.app.setup.setup import SetupResult
from scripts.model import StackKind
from scripts.ui.console import Out
from scripts.ui.steps import show_steps

#: What a finished set-up proves, and what not; a simulated run must never be taken for a GPU.
PROVES = {
    StackKind.REFERENCE: (
        "SIMULATED on the CPU: this proves that the pipeline works on this machine. "
        "It says nothing about any GPU, any driver, or your program."
    ),
    StackKind.CONTROL: (
        "This is the control: NVIDIA's own CUDA, nothing translated. "
        "It proves that check and workload are right, not that a Radeon can run them."
    ),
    StackKind.TRANSLATION: (
        "This proves what the table says for this GPU and this stack, and nothing about your program: "
        "run it, and compare its own answer."
    ),
}


def show(result: SetupResult, out: Out) -> None:
    """Show the steps, what they prove, where it is written, and what to do now."""
    show_steps(result.steps, out)
    out.loud(PROVES[result.kind])
    level = result.level.value if result.level else "nothing shown"
    good = result.generation is not None
    simulated = ", simulated" if result.simulated else ""
    out.mark("ok" if good else "fail", f"{result.stack}: {result.outcome.value}, {level}{simulated}")
    for failure in result.failures:
        out.mark("fail", f"{failure.capability}: {failure.outcome.value} {failure.detail}")
    out.line(f"document: {result.evidence}")
    if good:
        out.now("run a program with it: invoke wrap --exe=PROGRAM -- ARGUMENTS")
    else:
        out.now("the stack was not made active; the logs lie beside the document")
