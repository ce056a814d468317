"""The face of ``doctor``."""

from __future__ import annotations

from scripts.app.doctor.doctor import DoctorResult
from scripts.doctor.diagnose import SURE, Finding
from scripts.doctor.machine import Status
from scripts.ui.console import Out


def show(result: DoctorResult, out: Out) -> None:
    """Show what was looked at, then what the text means, then what to do."""
    for line in result.lines:
        out.mark(line.status.value, f"{line.topic}: {line.text} ({line.looked_at})")
    for finding in result.findings:
        show_finding(finding, out)
    if result.log and not result.findings:
        out.mark("unknown", "This text is not a failure that is known here.")
    out.now(_now(result))


def show_finding(finding: Finding, out: Out) -> None:
    """Show one explanation, with what it rests on."""
    likely = finding.confidence > SURE
    word = "" if likely else "perhaps "
    out.mark("fail" if likely else "warn", f"{word}{finding.reference} ({finding.confidence:.2f})")
    for line in finding.evidence:
        out.line(f"    {line}")
    out.line(f"    {finding.cause}")
    for number, step in enumerate(finding.fix, start=1):
        out.line(f"    {number}. {step}")
    for step in finding.tell:
        out.line(f"    What would tell: {step}")


def note_finding(finding: Finding, out: Out) -> None:
    """Say the best explanation under an error, on stderr."""
    out.note(f"doctor: {finding.reference} ({finding.confidence:.2f}): {finding.cause}")
    for number, step in enumerate(finding.fix, start=1):
        out.note(f"  {number}. {step}")


def _now(result: DoctorResult) -> str:
    """Say what a person would do next."""
    if result.findings:
        return f"all kinds of failure are described in {result.findings[0].docs.partition('#')[0]}"
    failed = [line for line in result.lines if line.status is Status.FAIL]
    if failed:
        return f"begin with: {failed[0].text}"
    if result.log:
        return "bundle everything for a report: invoke report --bundle"
    return "explain a program's output: invoke doctor --log=FILE"
