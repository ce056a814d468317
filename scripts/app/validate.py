"""``validate`` and ``validate-round``: every step for one stack, and what a round of them means."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, Unpack

from msgspec import Struct
from msgspec.structs import replace

from scripts.app.check import check_program
from scripts.app.context import Staged, Workspace, cache_of, lock_of
from scripts.app.setup import check_noted, probes_noted, run_noted
from scripts.app.setup_steps import DownloadWords, Flow, read_request
from scripts.app.validation_findings import Findings, write_papers
from scripts.app.validation_steps import (
    ValidationSubject,
    copy_program,
    look_inside,
    run_all,
    run_step,
    subject_of,
)
from scripts.app.wrap import output_paths
from scripts.app.wrap_plan import named_program
from scripts.errors import ExitCode, HostError, LockError, TargetError, UsageError, WorkspaceError
from scripts.evidence.validation import (
    Regression,
    Validation,
    ValidationVerdict,
    markdown,
    problems_of,
    read_validations,
    unsatisfied,
)
from scripts.lock.reader import find_stack
from scripts.model import StackKind
from scripts.osal.fs import long_path, remove_tree, write_atomic
from scripts.osal.named_output import append_regular
from scripts.osal.paths import user_path
from scripts.osal.text import utc_now
from scripts.serialize import JsonRecord, pick

#: Refusals that mean "not without a person": the stack is skipped, and the reason says what is missing.
NEEDS_A_PERSON: Final = frozenset({"consent-needed", "declined", "supply-files"})
_GFX: Final = re.compile(r"gfx[0-9a-f]{3,5}")


class ValidateResult(Struct, frozen=True, kw_only=True):
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
        if self.missing or self.validation.verdict is ValidationVerdict.FAILED:
            return int(ExitCode.NEGATIVE)
        return int(ExitCode.HOST if self.validation.verdict is ValidationVerdict.SKIPPED else ExitCode.OK)

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {**self.validation.to_json(), **pick(self, "missing folder")}


def validate(
    ws: Workspace,
    *,
    require: str = "",
    exe: str = "",
    report: str = "",
    supplied: str = "",
    **words: Unpack[DownloadWords],
) -> ValidateResult:
    """Verify, assemble, check, run, wrap by every way, undo and prove the undo; nothing is made active.

    ``require`` names stacks and architectures, comma separated; each must have been run, else it is a
    failure. Of the folder of ``exe``, a program of the user's, a throw-away copy is used; without it the
    stack's own check runs. ``report`` is a file for the result as JSON. Without a stack in ``words`` it is
    the one that ``setup`` would choose.

    Raises:
        UsageError: there is no such stack or program, ``require`` names neither a stack nor an architecture,
            or ``report`` names what is no output.
        LockError: the lock is wrong.
    """
    created = utc_now()
    copy = output_paths(ws, exe, (), report=report).get("report")
    if copy is not None and long_path(copy).is_dir():
        hint = "name a file"
        raise UsageError("bad-output", "--report names a folder", context=(str(copy),), hint=hint)
    program = named_program(ws, exe) if exe else None
    lock = lock_of(ws)
    if stack := words.get("stack"):
        find_stack(lock, stack)  # an unknown one is refused before anything is written about it
    _refuse_unknown(require, lock.stacks)
    flow, found = Flow(ws, read_request(supplied=supplied, **words)), Findings()
    with _throw_away_folder() as place:
        _run_steps(flow, found, program, place)
    validation, worse, folder = write_papers(flow, found, created, program=program, report=copy)
    missing = unsatisfied([validation], require)
    return ValidateResult(validation=validation, regressions=worse, missing=missing, folder=folder)


def _refuse_unknown(require: str, stacks: Iterable[str]) -> None:
    """Refuse a requirement that nothing could ever meet."""
    words = {word.strip() for word in require.split(",")} - {"", *stacks}
    if strange := sorted(word for word in words if not _GFX.fullmatch(word)):
        msg = f"--require={strange[0]} is neither a stack nor an architecture"
        raise UsageError("bad-requirement", msg, hint="name them by their ids: invoke stacks")


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


def _run_steps(flow: Flow, found: Findings, program: Path | None, folder: Path) -> None:
    """Go as far as possible; what stops it is written down, not raised."""
    try:
        found.staged = staged = flow.staged()[0]
    except WorkspaceError as error:
        skip = isinstance(error, HostError) or error.reference in NEEDS_A_PERSON
        unmet = error.reference == "stack-unmet"  # its context says what is lacking, one a line
        words = "; ".join((*(() if unmet else (f"{error.reference}: {error.message}",)), *error.context))
        found.skip, found.failure = (words, "") if skip else ("", words)
        flow.steps[-1:] = [
            replace(step, status="skipped" if skip else "failed", detail=words) for step in flow.steps[-1:]
        ]
        return
    with alone_on_its_gpu(flow.ws, staged):
        _show(flow, found, staged, program, folder)
    found.failure = "; ".join(f"{s.name}: {s.detail}" for s in flow.steps if s.status == "failed")


@contextmanager
def alone_on_its_gpu(ws: Workspace, staged: Staged) -> Iterator[None]:
    """Keep other validations off the same GPU meanwhile; those on the CPU disturb none."""
    gpu = None if staged.stack.kind is StackKind.REFERENCE else staged.host.selected_gpu
    cache = cache_of(ws)
    cache.ensure()
    with nullcontext() if gpu is None else cache.locked(f"gpu-{gpu.index}", timeout=6 * 3600.0):
        yield


def _show(flow: Flow, found: Findings, staged: Staged, program: Path | None, folder: Path) -> None:
    """Look into the program, check, run, and wrap."""
    found.subject = _copy(flow, staged, program, folder)
    seen = look_inside(flow, found.subject) if found.subject is not None else None
    with run_step(flow, "check") as notes:
        found.checked = check_noted(flow, staged, notes)
    why_not = "" if found.loads else "the core libraries do not load"
    with run_step(flow, "run", why_not) as notes:
        if not why_not:
            found.ran = run_noted(flow, staged, notes)
    with run_step(flow, "probes", why_not) as notes:
        if not why_not:
            probes_noted(flow, staged, notes)
    if found.subject is not None and seen is not None:
        run_all(flow, found.subject, seen, why_not=why_not if found.subject.own else "")


def _copy(flow: Flow, staged: Staged, program: Path | None, folder: Path) -> ValidationSubject | None:
    """Make the throw-away copy; ``None`` where its step has failed."""
    with run_step(flow, "copy") as notes:
        copy = copy_program(program or check_program(staged.runtime), folder, alone=program is None)
        notes.detail = "a throw-away copy of " + ("its folder" if program else "the stack's own cuda_check")
        return subject_of(flow.ws, staged, copy, own=program is None)
    return None


PAGE = "summary.md"


class RoundResult(JsonRecord, frozen=True, kw_only=True):
    """A judged round.

    Attributes:
        validations: one for each stack.
        problems: why the round is no success; empty when it is one.
        page: where the summary was written.
    """

    validations: tuple[Validation, ...]
    problems: tuple[str, ...]
    page: Path

    JSON = "validations problems page"

    @property
    def exit_code(self) -> int:
        """3 unless it is a success."""
        return int(ExitCode.NEGATIVE if self.problems else ExitCode.OK)

    @property
    def skipped(self) -> dict[str, list[str]]:
        """The skipped stacks by reason, in which each is ``it``, so that a reason is given once."""
        found: dict[str, list[str]] = {}
        for validation in self.validations:
            if validation.verdict is ValidationVerdict.SKIPPED:
                reason = validation.reason.replace(validation.stack, "it")
                found.setdefault(reason, []).append(validation.stack)
        return found


def validate_round(ws: Workspace, *, folder: str = "", require: str = "") -> RoundResult:
    """Read a round's documents, write its page, and judge it.

    ``require`` names stacks and architectures, comma separated, that must really have been run.

    Raises:
        UsageError: no folder is named, or ``require`` names neither a stack nor an architecture.
        TargetError: it is not there, or the page cannot be written.
    """
    if not folder:
        hint = "name it: invoke validate-round --folder=FOLDER"
        raise UsageError("folder-needed", "no folder of a round is named", hint=hint)
    place = user_path(folder, "--folder")
    if not long_path(place).is_dir():
        msg = f"{folder} is not a folder"
        raise TargetError("no-round", msg, hint="run a round: nox -s validate")
    validations, faults = read_validations(place)
    with suppress(LockError):  # a round is judged by its documents, whatever became of the lock
        _refuse_unknown(require, (*lock_of(ws).stacks, *(validation.stack for validation in validations)))
    problems = problems_of(validations, require=require, faults=faults)
    page = markdown(validations, problems)
    try:
        write_atomic(place / PAGE, page.encode())  # replaces the name: what a link there leads to stays
    except OSError as error:
        msg = f"the page of the round cannot be written: {error.strerror or error}"
        hint = "see what stands in its place"
        raise TargetError("page-not-written", msg, context=(str(place / PAGE),), hint=hint) from error
    if run_page := ws.environ.get("GITHUB_STEP_SUMMARY"):
        _add_to_run(ws, Path(run_page), page)
    return RoundResult(validations=validations, problems=problems, page=place / PAGE)


def _add_to_run(ws: Workspace, path: Path, page: str) -> None:
    """Add the page to the one of the CI run; without it the round is judged all the same."""
    try:
        append_regular(path, page.replace("\n", os.linesep).encode())
    except OSError as error:
        why = error.strerror or str(error)
        ws.progress.note(f"the page of the run (GITHUB_STEP_SUMMARY) cannot be written: {why}")
