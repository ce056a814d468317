"""``check``: do the CUDA libraries of a stack load here? Runs its ``cuda_check`` and judges the lines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scripts.app.context import Staged, Workspace, staged_runtime
from scripts.app.stack_process import (
    backend_notes,
    check_environment,
    file_called,
    redactor_of,
    run_ours,
)
from scripts.errors import ExitCode, StagedFileError
from scripts.evidence.cuda_check import CORE, OPTIONAL, CheckVerdict, group_of, judge, parse_output
from scripts.launch.program import parse_timeout
from scripts.model import Runtime, StackKind
from scripts.osal.processes import Captured
from scripts.serialize import JsonRecord

PROGRAM: Final = "cuda_check"
#: A healthy check takes seconds; the first start of a HIP runtime may take a minute.
DEFAULT_SECONDS: Final = 120.0


class CheckResult(JsonRecord, frozen=True, kw_only=True):
    """One judged check.

    Attributes:
        verdict: what the lines mean.
        notes: what is missing behind the layer, found without running anything.
        noise: what else was printed, redacted; often the one line that explains a crash.
        output: all that was printed, stdout first, as it was.
        process_code: the process's exit code; ``None`` if we ended it.
    """

    stack: str
    kind: StackKind
    digest: str
    verdict: CheckVerdict
    noise: tuple[str, ...]
    output: bytes
    process_code: int | None
    seconds: float
    notes: tuple[str, ...] = ()

    JSON = (
        "stack kind digest simulated loads=verdict.loads outcome=verdict.outcome reason=verdict.reason "
        "groups=verdict.groups capabilities=verdict.results process_code seconds noise notes"
    )

    @property
    def simulated(self) -> bool:
        """Whether this was the CPU reference stack, which shows nothing about a GPU."""
        return self.kind is StackKind.REFERENCE

    @property
    def exit_code(self) -> int:
        """0 when every core library loads, also if the process then hung or crashed; else 3."""
        return ExitCode.OK if self.verdict.loads else ExitCode.NEGATIVE


def check(ws: Workspace, *, stack: str = "", timeout: str = "") -> CheckResult:
    """Check the active stack, or a named one that is staged.

    Raises:
        UsageError: the stack or the duration cannot be used.
        StagedFileError: files are missing or changed, or the runtime holds no ``cuda_check``.
        LaunchError: the check could not be started.
    """
    seconds = parse_timeout(timeout) or DEFAULT_SECONDS
    return check_staged(ws, staged_runtime(ws, stack), seconds=seconds)


def check_staged(ws: Workspace, staged: Staged, *, seconds: float = DEFAULT_SECONDS) -> CheckResult:
    """Check a stack whose files are verified; a message box, a hang or a crash is a result, no error."""
    runtime = staged.runtime
    program = check_program(runtime)
    with ws.progress.task(f"check {staged.stack.id}", None):
        argv = [str(program), *check_arguments(staged)]
        captured = run_ours(ws, staged, argv, timeout=seconds)
    # One stream after the other: lines of two streams never run into each other.
    noise = (*parse_output(captured.stdout).noise, *parse_output(captured.stderr).noise)
    redactor = redactor_of(ws)
    return CheckResult(
        stack=staged.stack.id,
        kind=staged.stack.kind,
        digest=runtime.digest,
        verdict=judge_check(staged, captured),
        noise=tuple(redactor.text(line) for line in noise),
        output=captured.stdout + b"\n" + captured.stderr,
        process_code=None if captured.timed_out else captured.returncode,
        seconds=round(captured.seconds, 3),
        notes=backend_notes(ws, staged, program, check_environment(ws, staged).environ, refuse=False),
    )


def check_arguments(staged: Staged) -> list[str]:
    """Return what a stack's ``cuda_check`` is asked for.

    Our own asks for what the reference stack has; elsewhere everything that turns up is of interest.
    """
    reference = staged.stack.kind is StackKind.REFERENCE
    return [f"--{name}" for name in _provided(staged.runtime)] if reference else []


def judge_check(staged: Staged, captured: Captured) -> CheckVerdict:
    """Judge the lines of a finished ``cuda_check``, wherever it was started."""
    return judge(
        parse_output(captured.stdout),
        expected=_provided(staged.runtime),
        exit_code=None if captured.timed_out else captured.returncode,
        timed_out=captured.timed_out,
        kind=staged.stack.kind,
        backed=[file.provides for file in staged.runtime.files if file.provides and file.needs],
        dialogs=[f"{box.title}: {box.text}" for box in captured.dialogs],
    )


def _provided(runtime: Runtime) -> list[str]:
    """Name the CUDA libraries that a runtime answers for and that a check can ask."""
    names = [file.provides for file in runtime.files if file.provides]
    return [name for name in names if group_of(name) in CORE + OPTIONAL]


def check_program(runtime: Runtime) -> Path:
    """Return the runtime's ``cuda_check``; the topmost one if there are several.

    Raises:
        StagedFileError: ``no-cuda-check``.
    """
    found = file_called(runtime, PROGRAM)
    if found is None:
        msg = f"the files of {runtime.stack} hold no cuda_check"
        hint = f"assemble it again: invoke stage --stack={runtime.stack}"
        raise StagedFileError("no-cuda-check", msg, hint=hint)
    return found
