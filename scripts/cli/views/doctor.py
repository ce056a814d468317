"""What a person sees of ``doctor``."""

from __future__ import annotations

from scripts.app.doctor import DoctorResult
from scripts.cli.console import Out
from scripts.doctor.diagnose import Finding
from scripts.doctor.event import Event
from scripts.doctor.knowledge import CodeMeaning
from scripts.doctor.machine import Status


def show_doctor(result: DoctorResult, out: Out) -> None:
    """Show what was looked at, then what the text or the code means, then what to do."""
    for line in result.lines:
        out.mark(line.status.value, f"{line.topic}: {line.text} ({line.looked_at})")
    for code in result.codes:
        show_code(code, out)
    for finding in result.findings:
        show_finding(finding, out)
    if result.event is not None:
        if result.is_empty:
            out.mark("warn", "the log is empty: the program wrote nothing to it, so nothing can be explained")
        else:
            show_event(result.event, out, explained=bool(result.findings))
    out.now(_now(result))


def show_finding(finding: Finding, out: Out) -> None:
    """Show one explanation, with what it rests on."""
    sure = finding.confidence.sure
    out.mark("fail" if sure else "warn", f"{finding.reference} ({finding.confidence.value})")
    for line in finding.evidence:
        out.quote(f"    {line}")
    out.line(f"    {finding.cause}")
    for number, step in enumerate(finding.fix, start=1):
        out.line(f"    {number}. {step}")
    out.lines(finding.tell, "    What would tell: ")


def show_event(event: Event, out: Out, *, explained: bool) -> None:
    """Show what the text tells by itself: the codes and names in it. Without a cause this is the answer."""
    sentences = list(event.sentences())
    if explained:
        out.lines(sentences, "in the text: ")
        return
    out.mark("unknown", "no cause is known here for what this text says; this is no diagnosis")
    out.lines(sentences)
    if sentences:
        last = event.component or "the program"
        doing = f", while it was to {event.activity}" if event.activity else ""
        out.line(f"    the last to speak: {last}{doing}")


def show_code(code: CodeMeaning, out: Out) -> None:
    """Show what a status code means, and what mostly causes it."""
    status = code.code
    out.line(f"{status.name} ({status.number}), {status.title}")
    out.line(f"    {status.meaning}")
    for reference, sentence in code.sentences():
        out.line(f"    mostly {reference}: {sentence}")


def note_finding(finding: Finding, out: Out) -> None:
    """Say the best explanation under an error, on stderr."""
    out.note(f"doctor: {finding.reference} ({finding.confidence.value}): {finding.cause}")
    for number, step in enumerate(finding.fix, start=1):
        out.note(f"  {number}. {step}")


def _now(result: DoctorResult) -> str:
    if result.findings:
        return f"all kinds of failure are described in {result.findings[0].docs.partition('#')[0]}"
    if result.codes:
        return "explain the program's whole output, which says more: invoke doctor --log=FILE"
    failed = [line for line in result.lines if line.status is Status.FAIL]
    if failed:
        return f"begin with: {failed[0].text}"
    if result.event is not None:
        return "see whether this machine is in order: invoke doctor; for a report: invoke report --bundle"
    return "explain a program's output: invoke doctor --log=FILE"
