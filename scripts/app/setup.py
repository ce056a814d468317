"""``setup``, ``stage`` and ``fetch``: from this machine to an evidence document, or part of the way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Unpack

from scripts.app.check import CheckResult, check_staged
from scripts.app.context import Staged, Workspace, cache_of, within
from scripts.app.download_summary import DownloadSummary
from scripts.app.run import RunResult, run_staged
from scripts.app.setup_steps import FetchWords, Flow, FlowStep, StageWords, StepNotes, coming, read_request
from scripts.app.stack_process import redactor_of, revision_of, write_logs
from scripts.bench.workloads import workloads
from scripts.errors import ExitCode, UsageError, WorkspaceError
from scripts.evidence.document import Document, build_document, speaks_of
from scripts.evidence.evidence_io import read_document, report_folder, write_document
from scripts.model import ArtifactFormat, CapabilityResult, Level, Outcome, StackKind
from scripts.osal.fs import long_path
from scripts.osal.named_output import check_output
from scripts.osal.paths import user_path
from scripts.osal.text import utc_now
from scripts.serialize import JsonRecord
from scripts.staging.runtimes import Generation, activate, read_history, remember_stage
from scripts.store.bundle import BundleFacts, write_bundle
from scripts.store.fetch import fetch as fetch_artifact

RUN_SECONDS = 900.0


class SetupResult(JsonRecord, frozen=True, kw_only=True):
    """What is set up, what it is worth by its document, and how each step went."""

    stack: str
    kind: StackKind
    level: Level | None
    outcome: Outcome
    simulated: bool
    evidence: str
    generation: int | None
    warnings: tuple[str, ...]
    steps: tuple[FlowStep, ...]
    failures: tuple[CapabilityResult, ...] = ()

    JSON = "stack kind level outcome simulated evidence generation warnings steps"

    @property
    def exit_code(self) -> int:
        """0 when the stack is active; 3 when check or workload were negative and nothing was switched."""
        return ExitCode.OK if self.generation is not None else ExitCode.NEGATIVE


def setup(
    ws: Workspace,
    *,
    only_proven: bool = False,
    **words: Unpack[StageWords],
) -> SetupResult:
    """Choose, fetch, verify, assemble, check, run, report, and only then make the stack active.

    What was active before stays active when anything fails. ``force`` takes a stack that was named
    although it does not cover the GPU.

    Raises:
        WorkspaceError: a step before the check failed; nothing was switched.
    """
    flow = Flow(ws, read_request(only_proven=only_proven, **words))
    flow.take_bundle()
    staged, selection = flow.staged()
    runtime = staged.runtime
    remember_stage(ws.state_root, ws.stage)
    proven = _proven(ws, staged, flow.request.parts)
    if proven is not None:
        document, path = proven
        flow.steps += [
            FlowStep(name=name, status="kept", seconds=0.0, detail="done before") for name in PROOF
        ]
    else:
        document, path = prove(flow, staged)
    generation: Generation | None = None
    if all(step.status in {"done", "kept"} for step in flow.steps if step.name in PROOF):
        generation = activate(
            ws.stage,
            stack=runtime.stack,
            digest=runtime.digest,
            lock=staged.lock.digest,
            options=flow.request.parts,
            reason="setup",
            document=within(ws, path),
        )
    return SetupResult(
        stack=runtime.stack,
        kind=staged.stack.kind,
        level=document.level,
        outcome=document.outcome,
        simulated=document.simulated,
        evidence=str(path),
        generation=generation.number if generation else None,
        warnings=selection.warnings,
        steps=tuple(flow.steps),
        failures=tuple(_failures(document.results)),
    )


def _proven(ws: Workspace, staged: Staged, options: tuple[str, ...]) -> tuple[Document, Path] | None:
    """Find the document of an earlier set-up of exactly this runtime, on the GPU and driver of now."""
    runtime = staged.runtime
    for generation in read_history(ws.stage).of(runtime.stack):
        if (generation.digest, generation.options) != (runtime.digest, options):
            continue
        path = ws.root / generation.document
        try:
            document = read_document(path) if generation.document else None
        except WorkspaceError:
            return None  # removed or damaged by hand: it is written again
        known = document is not None and speaks_of(document, host=staged.host, runtime=runtime)
        return (document, path) if document is not None and known else None
    return None


def _failures(results: Iterable[CapabilityResult]) -> list[CapabilityResult]:
    """Keep what went wrong, for the person who reads the end of the output."""
    quiet = {Outcome.PASS, Outcome.UNAVAILABLE, Outcome.NOT_REACHED}
    return [result for result in results if result.outcome not in quiet]


def prove(flow: Flow, staged: Staged) -> tuple[Document, Path]:
    """Check and run the stack, and write the document with its logs."""
    with flow.step("check", "Checking that every library loads") as notes:
        checked = check_noted(flow, staged, notes)
    ran: RunResult | None = None
    with flow.step("run", "Running the workload gemm") as notes:
        if checked.exit_code == ExitCode.OK:
            ran = run_noted(flow, staged, notes)
        else:
            notes.status, notes.detail = "skipped", "the core libraries do not load"
    with flow.step("report") as notes:
        document, path = _report(flow.ws, staged, checked, ran)
        notes.detail = within(flow.ws, path)
    with flow.step("probes", "Asking the quick probes") as notes:
        if ran is not None and ran.exit_code == ExitCode.OK:
            try:
                probes_noted(flow, staged, notes)
            except WorkspaceError as error:  # our own Python cannot be run under this stack: others may
                notes.status, notes.detail = "skipped", f"{error.reference}: {error.message}"
        else:
            notes.status, notes.detail = "skipped", "check or workload have failed"
    return document, path


def check_noted(flow: Flow, staged: Staged, notes: StepNotes) -> CheckResult:
    """Check a stack as one step of a flow."""
    checked = check_staged(flow.ws, staged)
    notes.status = "done" if checked.exit_code == ExitCode.OK else "failed"
    notes.detail = "; ".join((checked.verdict.reason, *checked.notes))
    return checked


def probes_noted(flow: Flow, staged: Staged, notes: StepNotes) -> None:
    """Run the quick probes as one step of a flow; they leave a document of their own."""
    from scripts.app.probe import quick_summary  # noqa: PLC0415 - a warm start does without

    right, notes.detail = quick_summary(flow.ws, staged)
    notes.status = "done" if right else "failed"


def run_noted(flow: Flow, staged: Staged, notes: StepNotes) -> RunResult:
    """Run the workload that every stack is asked for, as one step of a flow."""
    gemm = workloads()["gemm"]
    ran = run_staged(flow.ws, staged, gemm, size=gemm.size, seconds=RUN_SECONDS)
    notes.status = "done" if ran.exit_code == ExitCode.OK else "failed"
    notes.detail = f"{ran.workload}: {ran.result.outcome.value}; {ran.result.detail}"
    return ran


def _report(
    ws: Workspace, staged: Staged, checked: CheckResult, ran: RunResult | None
) -> tuple[Document, Path]:
    """Write one document for check and workload together."""
    now = utc_now()
    folder = report_folder(ws.stage / "reports", stack=staged.stack.id, created=now)
    logs = {"cuda_check.log": checked.output} | ({f"{ran.workload}.log": ran.output} if ran else {})
    write_logs(ws, folder, logs)
    results = [*checked.verdict.results, *([ran.result] if ran else [])]
    document = build_document(
        host=staged.host,
        stack=staged.stack,
        lock=staged.lock,
        runtime=staged.runtime,
        results=results,
        redactor=redactor_of(ws),
        revision=revision_of(ws),
        created=now,
        attachments=logs,
        not_exercised=sorted(
            {w.shows for w in workloads().values()} - {ran.result.capability if ran else ""}
        ),
        figures=ran.figures if ran else (),
    )
    return document, write_document(folder, document)


#: The steps that show what a stack is worth; a stack becomes active only when all of them went well.
PROOF = ("check", "run", "report")


class StageResult(JsonRecord, frozen=True, kw_only=True):
    """An assembled runtime; it is not active until `use` or `setup` says so."""

    stack: str
    digest: str
    path: str
    steps: tuple[FlowStep, ...]
    exit_code: int = ExitCode.OK


def stage(ws: Workspace, *, for_: str = "", **words: Unpack[StageWords]) -> StageResult:
    """Fetch, unpack and assemble a stack; what is damaged, archives too, is replaced as the lock says."""
    flow = Flow(ws, read_request(system=for_, **words))
    flow.take_bundle()
    _lock, _selection, resolved = flow.select(flow.scan())
    flow.distrust(resolved)
    flow.confirm_downloads(resolved)
    runtime = flow.runtime(resolved)
    return StageResult(
        stack=runtime.stack, digest=runtime.digest, path=str(runtime.path or ""), steps=tuple(flow.steps)
    )


class FetchResult(JsonRecord, frozen=True, kw_only=True):
    """What is in the store now, and the bundle that was made of it."""

    stack: str
    summary: DownloadSummary
    blobs: tuple[str, ...]
    steps: tuple[FlowStep, ...]
    bundle: Path | None = None
    bundle_bytes: int | None = None
    exit_code: int = ExitCode.OK

    JSON = "stack bill=summary files=blobs steps bundle bundle_bytes"


def fetch(ws: Workspace, *, for_: str = "", bundle: str = "", **words: Unpack[FetchWords]) -> FetchResult:
    """Download what is missing; what is in the store already is verified again.

    ``bundle`` names a file into which the archives are written too, for a machine without network.

    Raises:
        WorkspaceError: something did not arrive, or the bundle cannot be written.
    """
    target = _bundle_path(ws, bundle)
    request = read_request(system=for_, **words)
    flow = Flow(ws, request)
    lock, _selection, resolved = flow.select(flow.scan())
    summary = flow.confirm_downloads(resolved)
    cache = cache_of(ws)
    published = [a for a in resolved.artifacts if a.format is not ArtifactFormat.SUPPLIED]
    with flow.step("fetch", coming(published, cache)) as notes:
        blobs = [fetch_artifact(a, cache, options=request.fetching, progress=ws.progress) for a in published]
        notes.detail = f"{len(blobs)} verified by hash"
    size = None
    if target is not None:
        with flow.step("bundle") as notes:
            facts = BundleFacts(stack=resolved.stack.id, options=request.parts, lock=lock.digest)
            pairs = zip(published, blobs, strict=True)
            for artifact in resolved.artifacts:
                if artifact not in published:
                    ws.progress.note(f"{artifact.id} is not in the bundle: its files are brought by a person")
            size = write_bundle(target, facts, pairs, progress=ws.progress)
            notes.detail = f"{len(blobs)} archives, {size:,} bytes"
    return FetchResult(
        stack=resolved.stack.id,
        summary=summary,
        blobs=tuple(map(str, blobs)),
        steps=tuple(flow.steps),
        bundle=target,
        bundle_bytes=size,
    )


def _bundle_path(ws: Workspace, text: str) -> Path | None:
    """Read where the bundle goes, before anything is downloaded; it is never written into our own folders."""
    if not text:
        return None
    path = user_path(text, "--bundle", cwd=Path.cwd()).absolute()
    check_output(path, "--bundle", trees={"the store": ws.cache_root, "the stage": ws.stage})
    if long_path(path).is_dir() or not long_path(path.parent).is_dir():
        hint = "name a file in a folder that exists"
        raise UsageError("bad-output", "--bundle names no file", context=(str(path),), hint=hint)
    return path
