"""The face of ``validate``."""

from __future__ import annotations

from scripts.app.validate.validate import ValidateResult
from scripts.evidence.validation import ValidationVerdict
from scripts.ui.console import Out
from scripts.ui.words import seconds

MARKS = {ValidationVerdict.PASSED: "ok", ValidationVerdict.FAILED: "fail", ValidationVerdict.SKIPPED: "skip"}


def show(result: ValidateResult, out: Out) -> None:
    """Show every step, the verdict, what got worse, and where it is written."""
    validation = result.validation
    for step in validation.steps:
        mark = {"failed": "fail", "skipped": "skip"}.get(step.status, "ok")
        detail = f": {step.detail}" if step.detail else ""
        out.mark(mark, f"{step.name} ({seconds(step.seconds)}){detail}")
    if validation.simulated:
        out.loud("SIMULATED on the CPU: this proves that the pipeline works, and nothing about any GPU.")
    for regression in result.regressions:
        out.mark("fail", f"worse than before: {regression.sentence} ({regression.document})")
    out.mark(MARKS[validation.verdict], validation.summary)
    for word in result.missing:
        out.mark("fail", f"{word} was required, and nothing was shown for it")
    out.line(f"documents: {result.folder}")
    if result.exit_code == 0 and validation.simulated:
        out.now("validate every stack of the lock: nox -s validate (docs/validate.md)")
    elif result.exit_code == 0:
        out.now("promote it: commit the document in evidence/ (docs/evidence.md)")
    elif validation.verdict is ValidationVerdict.SKIPPED:
        out.now("see what each stack needs: invoke stacks")
    else:
        out.now("the logs lie beside the documents; a bug report takes them: invoke report --bundle")
