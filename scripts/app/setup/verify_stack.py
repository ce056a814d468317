"""Show what a stack is worth: check it, run a workload, write the document with its logs.

In a module of its own because a warm ``setup`` needs none of it, and what it imports takes time to load.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from scripts.app.bench.run import WORKLOADS, RunResult, run_staged
from scripts.app.check import CheckResult, check_staged
from scripts.app.context import Staged, Workspace, within
from scripts.app.setup.flow import Flow, StepNotes
from scripts.app.stack_process import redactor_of, revision_of
from scripts.errors import ExitCode
from scripts.evidence.document import Document, build_document
from scripts.evidence.evidence_io import report_folder, write_document

CHECK_SECONDS = 120.0
RUN_SECONDS = 900.0


def prove(flow: Flow, staged: Staged) -> tuple[Document, Path]:
    """Check and run the stack, and write the document with its logs."""
    with flow.step("check") as notes:
        checked = check_noted(flow, staged, notes)
    ran: RunResult | None = None
    with flow.step("run") as notes:
        if checked.exit_code == ExitCode.OK:
            ran = run_noted(flow, staged, notes)
        else:
            notes.status, notes.detail = "skipped", "the core libraries do not load"
    with flow.step("report") as notes:
        document, path = _report(flow.ws, staged, checked, ran)
        notes.detail = within(flow.ws, path)
    return document, path


def check_noted(flow: Flow, staged: Staged, notes: StepNotes) -> CheckResult:
    """Check a stack as one step of a flow."""
    checked = check_staged(flow.ws, staged, seconds=CHECK_SECONDS)
    notes.status = "done" if checked.exit_code == ExitCode.OK else "failed"
    notes.detail = "; ".join((checked.verdict.reason, *checked.notes))
    return checked


def run_noted(flow: Flow, staged: Staged, notes: StepNotes) -> RunResult:
    """Run the workload that every stack is asked for, as one step of a flow."""
    gemm = WORKLOADS["gemm"]
    ran = run_staged(flow.ws, staged, gemm, size=gemm.size, seconds=RUN_SECONDS)
    notes.status = "done" if ran.exit_code == ExitCode.OK else "failed"
    notes.detail = f"{ran.workload}: {ran.result.outcome.value}; {ran.result.detail}"
    return ran


def _report(
    ws: Workspace, staged: Staged, checked: CheckResult, ran: RunResult | None
) -> tuple[Document, Path]:
    """Write one document for check and workload together."""
    now = datetime.now(UTC).replace(microsecond=0)
    folder = report_folder(ws.stage / "reports", stack=staged.stack.id, created=now)
    redactor = redactor_of(ws)
    logs = {"cuda_check.log": checked.output} | ({f"{ran.workload}.log": ran.output} if ran else {})
    for name, data in logs.items():
        (folder / name).write_bytes(redactor.text(data.decode("utf-8", "replace")).encode("utf-8"))
    results = [*checked.verdict.results, *([ran.result] if ran else [])]
    document = build_document(
        host=staged.host,
        stack=staged.stack,
        lock=staged.lock,
        runtime=staged.runtime,
        results=results,
        redactor=redactor,
        revision=revision_of(ws),
        created=now,
        attachments=logs,
        not_exercised=sorted({w.shows for w in WORKLOADS.values()} - {ran.result.capability if ran else ""}),
    )
    return document, write_document(folder, document)
