"""``validate``: the whole ladder for one stack on this machine, and what it shows as documents."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from scripts.app.check import CheckResult, check_program, check_staged
from scripts.app.flow import Flow, read_request
from scripts.app.ladder import Subject, climb, look_inside, rung, subject_of
from scripts.app.run import WORKLOADS, RunResult, run_staged
from scripts.app.running import redactor_of, revision_of
from scripts.app.staged import Staged, cache_of, lock_of
from scripts.app.throw_away import copy_program
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode, HostError, UsageError, WorkspaceError
from scripts.launch.request import find_program
from scripts.model import CapabilityResult, Outcome, StackKind
from scripts.reporting.document import Document, build_document
from scripts.reporting.exchange import FILE_NAME, read_document, report_folder, write_document
from scripts.reporting.regressions import Earlier, Regression, find_regressions
from scripts.reporting.validation import Rung, Validation, Verdict, junit, unsatisfied, write_validation
from scripts.staging.select import selected_gpu
from scripts.system.files import remove_tree, write_atomic

CHECK_SECONDS: Final = 120.0
RUN_SECONDS: Final = 900.0
#: Refusals that mean "not without a person": the stack is skipped, and the reason says what is missing.
NEEDS_A_PERSON: Final = frozenset({"consent-needed", "declined", "supply-files"})


@dataclass(frozen=True, kw_only=True)
class ValidateResult:
    """One stack, validated or skipped, and where its documents lie.

    Attributes:
        validation: what was done and shown.
        regressions: what was better before.
        missing: required stacks and architectures that nothing was shown for.
        folder: the folder with evidence, JUnit file and logs.
    """

    validation: Validation
    regressions: tuple[Regression, ...]
    missing: tuple[str, ...]
    folder: Path

    @property
    def exit_code(self) -> int:
        """0 passed, 3 failed or a required thing was skipped, 50 cannot be run here."""
        if self.missing or self.validation.verdict is Verdict.FAILED:
            return int(ExitCode.NEGATIVE)
        return int(ExitCode.HOST if self.validation.verdict is Verdict.SKIPPED else ExitCode.OK)

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            **self.validation.to_json(),
            "missing": list(self.missing),
            "folder": str(self.folder),
        }


@dataclass
class _Found:
    """What the ladder has shown so far."""

    staged: Staged | None = None
    checked: CheckResult | None = None
    ran: RunResult | None = None
    subject: Subject | None = None
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


def validate(
    ws: Workspace,
    *,
    stack: str = "",
    require: str = "",
    exe: str = "",
    report: str = "",
    yes: bool = False,
    offline: bool = False,
    mirror: str = "",
    supplied: str = "",
) -> ValidateResult:
    """Verify, assemble, check, run, wrap by every way, undo and prove the undo; nothing is made active.

    Args:
        ws: the workspace.
        stack: its id; empty: the one that ``setup`` would choose.
        require: stacks and architectures, comma separated; each must have been run, else it is a failure.
        exe: a program of the user's, of whose folder a throw-away copy is used; empty: the stack's own check.
        report: also write the result as JSON to this file.
        yes: agree to downloads beforehand.
        offline: connect to nothing.
        mirror: asked first for every download.
        supplied: the folder with files that nobody publishes.

    Raises:
        UsageError: there is no such stack or program.
        LockError: the lock is wrong.
    """
    created = datetime.now(UTC).replace(microsecond=0)
    program = _program(ws, exe)
    request = read_request(
        stack=_known(ws, stack), yes=yes, offline=offline, mirror=mirror, supplied=supplied
    )
    flow, found = Flow(ws, request), _Found()
    with _throw_away_folder() as folder:
        _ladder(flow, found, program, folder)
    return _documents(flow, found, created, program=program, require=require, report=report)


def _known(ws: Workspace, stack: str) -> str:
    """Refuse a stack that is not in the lock before anything is written about it."""
    known = lock_of(ws).stacks
    if stack and stack not in known:
        msg = f"there is no stack {stack!r} in the lock"
        context = (f"stacks: {', '.join(known)}",)
        raise UsageError("no-such-stack", msg, context=context, hint="`invoke stacks` explains them")
    return stack


def _program(ws: Workspace, exe: str) -> Path | None:
    """Find the user's program."""
    if not exe:
        return None
    search = partial(shutil.which, path=ws.environ.get("PATH", ""))
    return find_program(exe, cwd=Path.cwd(), search=search, platform=ws.platform)


@contextmanager
def _throw_away_folder() -> Iterator[Path]:
    """Make a folder and take it away again; what a program still holds stays, in the system's own place."""
    folder = Path(tempfile.mkdtemp(prefix="cuda-amd-validate-")).resolve()
    try:
        yield folder
    finally:
        try:
            remove_tree(folder)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)


def _ladder(flow: Flow, found: _Found, program: Path | None, folder: Path) -> None:
    """Climb as far as it goes; what stops it is written down, not raised."""
    try:
        staged = found.staged = _stage(flow)
    except WorkspaceError as error:
        skip = isinstance(error, HostError) or error.reference in NEEDS_A_PERSON
        words = "; ".join((f"{error.reference}: {error.message}", *error.context))
        found.skip, found.failure = (words, "") if skip else ("", words)
        flow.steps[-1:] = [
            replace(step, status="skipped" if skip else "failed", detail=words) for step in flow.steps[-1:]
        ]
        return
    with _alone_on_its_gpu(flow.ws, staged):
        _show(flow, found, staged, program, folder)
    found.failure = "; ".join(f"{s.name}: {s.detail}" for s in flow.steps if s.status == "failed")


def _stage(flow: Flow) -> Staged:
    """Scan, select, fetch, verify and assemble, as ``setup`` does."""
    host = flow.scan()
    lock, _selection, resolved = flow.select(host)
    flow.bill(resolved)
    runtime, _kept = flow.assemble(flow.plan(resolved, flow.obtain(resolved)))
    return Staged(lock=lock, stack=resolved.stack, runtime=runtime, host=host)


@contextmanager
def _alone_on_its_gpu(ws: Workspace, staged: Staged) -> Iterator[None]:
    """Keep other validations off the same GPU meanwhile; those on the CPU disturb nobody."""
    gpu = None if staged.stack.kind is StackKind.REFERENCE else selected_gpu(staged.host)
    cache = cache_of(ws)
    cache.ensure()
    with nullcontext() if gpu is None else cache.locked(f"gpu-{gpu.index}", timeout=6 * 3600.0):
        yield


def _show(flow: Flow, found: _Found, staged: Staged, program: Path | None, folder: Path) -> None:
    """Check, run, and wrap."""
    with rung(flow, "check") as notes:
        checked = found.checked = check_staged(flow.ws, staged, seconds=CHECK_SECONDS)
        notes.status = "done" if checked.exit_code == ExitCode.OK else "failed"
        notes.detail = checked.verdict.reason
    why_not = "" if found.loads else "the core libraries do not load"
    with rung(flow, "run", why_not) as notes:
        if not why_not:
            gemm = WORKLOADS["gemm"]
            ran = found.ran = run_staged(flow.ws, staged, gemm, size=gemm.size, seconds=RUN_SECONDS)
            notes.status = "done" if ran.exit_code == ExitCode.OK else "failed"
            notes.detail = f"{ran.workload}: {ran.result.outcome.value}; {ran.result.detail}"
    with rung(flow, "copy") as notes:
        copy = copy_program(program or check_program(staged.runtime), folder, alone=program is None)
        found.subject = subject_of(flow.ws, staged, copy, own=program is None)
        notes.detail = "a throw-away copy of " + ("its folder" if program else "the stack's own cuda_check")
    if found.subject is not None:
        seen = look_inside(flow, found.subject)
        climb(flow, found.subject, seen, why_not=why_not if found.subject.own else "")


def _documents(
    flow: Flow, found: _Found, created: datetime, *, program: Path | None, require: str, report: str
) -> ValidateResult:
    """Write evidence, JUnit file, logs and the validation itself into one new folder."""
    ws, staged = flow.ws, found.staged
    name = staged.stack.id if staged else flow.request.stack or "no-stack"
    folder = report_folder(ws.stage / "reports", stack=name, created=created)
    redactor = redactor_of(ws)
    for file, data in found.logs.items():
        (folder / file).write_bytes(redactor.text(data.decode("utf-8", "replace")).encode("utf-8"))
    document = _evidence(ws, found, staged, created, program) if staged and found.results else None
    regressions = find_regressions(document, _earlier(ws)) if document else ()
    evidence = write_document(folder, document) if document else None
    validation = _validation(
        flow, found, document, regressions, name=name, created=created, evidence=evidence
    )
    write_atomic(folder / "junit.xml", junit(validation))
    write_validation(folder / "validation.json", validation)
    if report:
        write_validation(Path(report).absolute(), validation)
    missing = unsatisfied([validation], require)
    return ValidateResult(validation=validation, regressions=regressions, missing=missing, folder=folder)


def _evidence(
    ws: Workspace, found: _Found, staged: Staged, created: datetime, program: Path | None
) -> Document:
    """Make the evidence document of this validation."""
    return build_document(
        host=staged.host,
        stack=staged.stack,
        lock=staged.lock,
        runtime=staged.runtime,
        results=found.results,
        redactor=redactor_of(ws),
        revision=revision_of(ws),
        created=created,
        application=program.name if program else "",
        attachments=[*found.logs, "junit.xml", "validation.json"],
        not_exercised=() if found.ran else [workload.shows for workload in WORKLOADS.values()],
    )


def _earlier(ws: Workspace) -> Iterator[Earlier]:
    """Yield every document of this workspace: what was committed, then what was made here."""
    own = sorted((ws.stage / "reports").glob(f"*/{FILE_NAME}"))
    for path in (*sorted(ws.evidence.glob("*.json")), *own):
        try:
            where = path.relative_to(ws.root).as_posix() if path.is_relative_to(ws.root) else str(path)
            yield Earlier(path=where, document=read_document(path, trusted=True))
        except WorkspaceError:
            continue  # damaged by hand: it proves nothing, and `report` names it


def _validation(
    flow: Flow,
    found: _Found,
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
    verdict = Verdict.SKIPPED if found.skip else Verdict.FAILED if failure else Verdict.PASSED
    text = redactor_of(flow.ws).text
    level = document.level.value if document and document.level else ""
    return Validation(
        stack=name,
        gfx=(gpu.gfx or "") if gpu else "",
        gpu=gpu.name if gpu else "",
        simulated=document.simulated if document else False,
        verdict=verdict,
        reason=text(found.skip or failure or f"every step that applies went well: {level}"),
        started=created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        level=level,
        steps=tuple(
            Rung(name=s.name, status=s.status, seconds=round(s.seconds, 3), detail=text(s.detail))
            for s in flow.steps
        ),
        passed=tuple(r.capability for r in document.results if r.outcome is Outcome.PASS) if document else (),
        regressions=tuple(r.to_json() for r in regressions),
        evidence=str(evidence) if evidence else "",
    )
