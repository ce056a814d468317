"""What a validation leaves behind: evidence, JUnit file, logs, and the verdict that a round is judged by."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from msgspec import Struct

from scripts.app.check import CheckResult
from scripts.app.context import Staged, Workspace
from scripts.app.probe_findings import documents_here
from scripts.app.run import RunResult
from scripts.app.setup_steps import Flow
from scripts.app.stack_process import redactor_of, revision_of, write_logs
from scripts.app.validation_steps import ValidationSubject
from scripts.app.wrap_result import write_report
from scripts.bench.workloads import workloads
from scripts.errors import ExitCode
from scripts.evidence.document import Document, FileFact, build_document
from scripts.evidence.evidence_io import report_folder, write_document
from scripts.evidence.validation import (
    Regression,
    Validation,
    ValidationStep,
    ValidationVerdict,
    find_regressions,
    junit,
    write_validation,
)
from scripts.model import CapabilityResult, Outcome
from scripts.osal.fs import write_atomic
from scripts.osal.text import time_stamp


class Findings(Struct):
    """What the steps have shown so far."""

    staged: Staged | None = None
    checked: CheckResult | None = None
    ran: RunResult | None = None
    subject: ValidationSubject | None = None
    skip: str = ""
    failure: str = ""

    @property
    def loads(self) -> bool:
        """Whether the check went well."""
        return self.checked is not None and self.checked.exit_code == ExitCode.OK

    @property
    def results(self) -> list[CapabilityResult]:
        """Every result."""
        checked = self.checked.verdict.results if self.checked else ()
        wrapped = self.subject.results if self.subject else []
        return [*checked, *([self.ran.result] if self.ran else []), *wrapped]

    @property
    def logs(self) -> dict[str, bytes]:
        """What the programs printed, by file name."""
        logs = dict(self.subject.logs) if self.subject else {}
        if self.checked:
            logs["cuda_check.log"] = self.checked.output
        return logs | ({f"{self.ran.workload}.log": self.ran.output} if self.ran else {})


def write_papers(
    flow: Flow, found: Findings, created: datetime, *, program: Path | None, report: Path | None
) -> tuple[Validation, tuple[Regression, ...], Path]:
    """Write evidence, JUnit file, logs and the validation itself into one new folder.

    Return the validation, what got worse since earlier documents, and the folder.
    """
    ws, staged = flow.ws, found.staged
    name = staged.stack.id if staged else flow.request.stack or "no-stack"
    folder = report_folder(ws.stage / "reports", stack=name, created=created)
    write_logs(ws, folder, found.logs)
    document = _evidence(ws, found, staged, created, program) if staged and found.results else None
    regressions = find_regressions(document, documents_here(ws)) if document else ()
    evidence = write_document(folder, document) if document else None
    validation = _validation(
        flow, found, document, regressions, name=name, created=created, evidence=evidence
    )
    write_atomic(folder / "junit.xml", junit(validation))
    write_validation(folder / "validation.json", validation)
    if report:
        report.parent.mkdir(parents=True, exist_ok=True)
        write_report(report, validation.to_json())
    return validation, regressions, folder


def _evidence(
    ws: Workspace, found: Findings, staged: Staged, created: datetime, program: Path | None
) -> Document:
    return build_document(
        host=staged.host,
        stack=staged.stack,
        lock=staged.lock,
        runtime=staged.runtime,
        files=_files(found, staged),
        results=found.results,
        redactor=redactor_of(ws),
        revision=revision_of(ws),
        created=created,
        application=program.name if program else "",
        attachments=[*found.logs, "junit.xml", "validation.json"],
        not_exercised=sorted({w.shows for w in workloads().values()} - {r.capability for r in found.results}),
        figures=found.ran.figures if found.ran else (),
    )


def _files(found: Findings, staged: Staged) -> list[FileFact]:
    """Return the stack's files and, each once, what the program's processes loaded."""
    loaded = found.subject.loaded if found.subject else []
    return [*(FileFact(name=f.name, sha256=f.sha256) for f in staged.runtime.files), *dict.fromkeys(loaded)]


def _validation(
    flow: Flow,
    found: Findings,
    document: Document | None,
    regressions: tuple[Regression, ...],
    *,
    name: str,
    created: datetime,
    evidence: Path | None,
) -> Validation:
    """Put everything into the form that a round is judged by."""
    gpu = document.subject.gpu if document else None
    failure = found.failure or "; ".join(f"worse than before: {r.sentence}" for r in regressions)
    verdict = ValidationVerdict.FAILED if failure else ValidationVerdict.PASSED
    if found.skip:
        verdict = ValidationVerdict.SKIPPED
    text = redactor_of(flow.ws).text
    level = document.level.value if document and document.level else ""
    return Validation(
        stack=name,
        gfx=(gpu.gfx or "") if gpu else "",
        gpu=gpu.name if gpu else "",
        simulated=document.simulated if document else False,
        verdict=verdict,
        reason=text(found.skip or failure or f"every step that applies went well: {level}"),
        started=time_stamp(created),
        level=level,
        steps=tuple(
            ValidationStep(name=s.name, status=s.status, seconds=s.seconds, detail=text(s.detail))
            for s in flow.steps
        ),
        passed=tuple(r.capability for r in document.results if r.outcome is Outcome.PASS) if document else (),
        regressions=tuple(r.to_json() for r in regressions),
        evidence=str(evidence) if evidence else "",
    )
