"""``run``: a workload with a known answer, under a stack, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scripts.app.running import read_seconds, run_ours
from scripts.app.staged import Staged, staged_runtime
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode, UsageError
from scripts.model import CapabilityResult, Outcome, StackKind
from scripts.reporting.records import judge_run, parse_record
from scripts.system.child import Captured

DEFAULT_SECONDS: Final = 300.0
LARGEST_SIZE: Final = 16384


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A program in ``scripts/inside`` that prints one marked result line; ``shows`` is the capability."""

    name: str
    script: str
    shows: str
    size: int


WORKLOADS: Final[Mapping[str, Workload]] = {
    "gemm": Workload(name="gemm", script="gemm.py", shows="cublas gemm", size=1024),
}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One run: the judged result, what the workload said, and its output for the log."""

    stack: str
    simulated: bool
    workload: str
    result: CapabilityResult
    data: Mapping[str, object] = field(default_factory=dict)
    output: bytes = b""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 for a right answer and a clean end, 124 after a timeout, else 3."""
        if self.result.outcome is Outcome.PASS:
            return ExitCode.OK
        return ExitCode.TIMEOUT if self.result.outcome is Outcome.TIMEOUT else ExitCode.NEGATIVE

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "stack": self.stack,
            "simulated": self.simulated,
            "workload": self.workload,
            "level": self.result.level.value if self.result.level else None,
            "outcome": self.result.outcome.value,
            "detail": self.result.detail,
            "record": dict(self.data),
            "seconds": round(self.seconds, 3),
        }


def run(
    ws: Workspace, *, workload: str = "gemm", stack: str = "", size: str = "", timeout: str = ""
) -> RunResult:
    """Run a workload under the active stack or a named one.

    Raises:
        UsageError: the workload is unknown, or the size is no number between 1 and 16384.
    """
    known = WORKLOADS.get(workload or "gemm")
    if known is None:
        msg = f"there is no workload {workload!r}"
        raise UsageError("no-such-workload", msg, hint=f"one of: {', '.join(WORKLOADS)}")
    if size and not (size.isdecimal() and 1 <= int(size) <= LARGEST_SIZE):
        raise UsageError("bad-size", f"--size={size}: a whole number from 1 to {LARGEST_SIZE}")
    seconds = read_seconds(timeout, default=DEFAULT_SECONDS)
    return run_staged(ws, staged_runtime(ws, stack), known, size=int(size or known.size), seconds=seconds)


def run_staged(ws: Workspace, staged: Staged, workload: Workload, *, size: int, seconds: float) -> RunResult:
    """Run a workload under a verified stack and judge it."""
    script = ws.root / "scripts" / "inside" / workload.script
    argv = [sys.executable, str(script), "--size", str(size)]
    with ws.progress.task(f"run {workload.name} {size}", None):
        captured = run_ours(ws, staged, argv, timeout=seconds)
    record = parse_record(captured.stderr)
    code = None if captured.timed_out else captured.returncode
    result = judge_run(
        record,
        capability=workload.shows,
        exit_code=code,
        timed_out=captured.timed_out,
        folders=_own_folders(ws, staged),
    )
    return RunResult(
        stack=staged.stack.id,
        simulated=staged.stack.kind is StackKind.REFERENCE,
        workload=workload.name,
        result=result,
        data=record.data,
        output=transcript(captured),
        seconds=captured.seconds,
    )


def _own_folders(ws: Workspace, staged: Staged) -> tuple[Path, ...]:
    """Say where the libraries must have come from, so that numbers of another CUDA never count.

    Not on Windows, where a launcher's junction gives the same folder another name.
    """
    path = staged.runtime.path
    if path is None or ws.platform == "win32" or staged.stack.kind is StackKind.CONTROL:
        return ()
    return (path.resolve(),)


def transcript(captured: Captured) -> bytes:
    """Join what a process printed, for a log."""
    return captured.stdout + (b"\n--- stderr ---\n" if captured.stderr else b"") + captured.stderr
