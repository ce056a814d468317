"""One trial: one process of a workload, judged, with what it measured and what the machine was like."""

from __future__ import annotations

import platform as platform_module
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace
from scripts.app.loader_look import lacking_cuda
from scripts.app.preflight import inspect_program
from scripts.app.stack_process import redactor_of, revision_of, run_ours
from scripts.app.wrap_plan import WrapRequest, plan_run
from scripts.bench.trials import SIMULATED, Metric, Runs, Trial
from scripts.bench.workload_record import Record, judge_run, parse_record
from scripts.bench.workloads import OwnWorkload, Workload
from scripts.host.facts import UNKNOWN, read_condition
from scripts.model import CapabilityResult, Outcome, StackKind
from scripts.osal.process import capture, is_loaders
from scripts.osal.processes import Captured, Command
from scripts.osal.text import time_stamp

SEED: Final = 20260101
INSIDE: Final = ("scripts", "inside")


class TrialJob(Struct, frozen=True, kw_only=True):
    """What is run again and again: one of our workloads at a size, or a program of the user's own.

    Attributes:
        size: how much of it; 0 for a program of the user's own.
        exe: the Python that runs one of ours; empty for the one that runs us.
        slowdown: percent by which one of ours is made slower, to see whether a comparison finds that.
    """

    workload: Workload | OwnWorkload
    size: int = 0
    seconds: float
    exe: str = ""
    slowdown: float = 0.0

    @property
    def name(self) -> str:
        """What records call it."""
        return self.workload.name

    @property
    def metrics(self) -> dict[str, Metric]:
        """What an iteration holds."""
        if isinstance(self.workload, OwnWorkload):
            return dict(self.workload.metrics)
        return {metric.name: metric for metric in self.workload.metrics}

    @property
    def primary(self) -> str:
        """The metric that decides."""
        if isinstance(self.workload, OwnWorkload):
            return self.workload.primary
        return self.workload.metrics[0].name

    @property
    def warmup(self) -> int:
        """How many first iterations do not count; ours warm up before they measure."""
        return self.workload.warmup if isinstance(self.workload, OwnWorkload) else 0

    @property
    def size_text(self) -> str:
        """The size as records write it."""
        return UNKNOWN if isinstance(self.workload, OwnWorkload) else str(self.size)


class Attempt(Struct, frozen=True, kw_only=True):
    """One process run: judged, with its figures; ``first`` is what came before the steady state."""

    result: CapabilityResult
    iterations: tuple[Mapping[str, float], ...]
    first: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    output: bytes = b""
    seconds: float = 0.0
    started: str = UNKNOWN

    @property
    def right(self) -> bool:
        """A right answer and a clean end."""
        return self.result.outcome is Outcome.PASS


def attempt(ws: Workspace, staged: Staged, job: TrialJob) -> Attempt:
    """Run a workload once under a verified stack and judge it."""
    started = time_stamp()
    if isinstance(job.workload, OwnWorkload):
        attempted = _attempt_own(ws, staged, job.workload)
    else:
        attempted = _attempt_ours(ws, staged, job.workload, job)
    return replace(attempted, started=started)


def _attempt_ours(ws: Workspace, staged: Staged, workload: Workload, job: TrialJob) -> Attempt:
    """Start a program of ours, and read its result line."""
    words = [str(ws.root.joinpath(*INSIDE, workload.script)), "--size", str(job.size), *workload.arguments]
    if job.slowdown:
        words += ["--slowdown", f"{job.slowdown:g}"]
    if job.exe:
        captured = capture(planned(ws, staged, job.exe, words), timeout=job.seconds)
    else:
        captured = run_ours(ws, staged, [sys.executable, *words], timeout=job.seconds)
    return attempt_of(
        captured, workload.shows, application=workload.application, folders=own_folders(ws, staged)
    )


def attempt_of(
    captured: Captured, capability: str, *, application: bool = False, folders: tuple[Path, ...] = ()
) -> Attempt:
    """Read what a program of ours printed, and judge it."""
    record = parse_record(captured.stderr)
    rows = record.data.get("iterations")
    first = record.data.get("first")
    return Attempt(
        result=judge_captured(record, captured, capability, application=application, folders=folders),
        iterations=tuple(row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else (),
        first=first if isinstance(first, dict) else {},
        data=record.data,
        output=transcript(captured),
        seconds=captured.seconds,
    )


def planned(ws: Workspace, staged: Staged, exe: str, words: Sequence[str], *, cwd: str = "") -> Command:
    """Plan a process as ``wrap`` plans any program."""
    request = WrapRequest(exe=exe, cwd=cwd, program_args=tuple(words))
    look = partial(inspect_program, ws)
    return plan_run(ws, request, staged=lambda _ws, _stack: staged, placer=None, inspect=look).command


def _attempt_own(ws: Workspace, staged: Staged, workload: OwnWorkload) -> Attempt:
    """Start the user's program the way ``wrap`` starts it, and read its output."""
    words = [sys.executable if word == "{python}" else word for word in workload.command]
    named = any(mark in words[0] for mark in ("/", "\\")) or Path(words[0]).is_absolute()
    program = workload.folder / words[0] if named else Path(words[0])
    command = planned(ws, staged, str(program), words[1:], cwd=str(workload.folder))
    captured = capture(command, timeout=workload.timeout)
    text = captured.stdout.decode("utf-8", "replace") + "\n" + captured.stderr.decode("utf-8", "replace")
    record, iterations = _read_own(ws, workload, text, captured)
    result = judge_captured(record, captured, workload.name, application=True)
    if not captured.timed_out and is_loaders(captured.returncode, ws.platform):
        started = program if program.is_absolute() else command.program
        lacking = lacking_cuda(started, command.env, ws.platform, staged.runtime)
        result = replace(result, detail="; ".join((result.detail, *(one.inside for one in lacking))))
    return Attempt(
        result=result,
        iterations=iterations,
        data=record.data,
        output=transcript(captured),
        seconds=captured.seconds,
    )


def _read_own(
    ws: Workspace, workload: OwnWorkload, text: str, captured: Captured
) -> tuple[Record, tuple[Mapping[str, float], ...]]:
    """Say in a record's words what a program of the user's printed; no answer is a fault, not a wrong one."""
    try:
        right, answer = workload.answer.judge(text, ws.environ)
    except ValueError as error:
        return Record(data={}, fault=str(error)), ()
    if answer is None:
        return Record(data={}, fault="the answer is not in its output"), ()
    if not right:
        return Record(data={"outcome": "incorrect", "detail": f"answer: {answer}"}), ()
    try:
        iterations = workload.iterations(text, ws.environ)
    except ValueError as error:
        # What a timeout or a crash cut off is reported as that.
        ended = captured.timed_out or captured.returncode != 0
        return Record(data={} if ended else {"outcome": "error", "detail": str(error)}, fault=str(error)), ()
    return Record(data={"outcome": "pass", "detail": f"answer: {answer}"}), iterations


def judge_captured(
    record: Record,
    captured: Captured,
    capability: str,
    *,
    application: bool = False,
    folders: tuple[Path, ...] = (),
) -> CapabilityResult:
    """Judge a process by its record and its end."""
    return judge_run(
        record,
        capability=capability,
        exit_code=None if captured.timed_out else captured.returncode,
        timed_out=captured.timed_out,
        application=application,
        folders=folders,
    )


def own_folders(ws: Workspace, staged: Staged) -> tuple[Path, ...]:
    """Say where the libraries must have come from, so that numbers of another CUDA never count.

    Not on Windows, where a launcher's junction gives the same folder another name.
    """
    path = staged.runtime.path
    if path is None or ws.platform == "win32" or staged.stack.kind is StackKind.CONTROL:
        return ()
    return (path.resolve(),)


def trial_of(ws: Workspace, staged: Staged, attempted: Attempt, *, runtime: str, number: int) -> Trial:
    """Turn a run into a trial of a record; clocks and power are read now, while the device is still warm."""
    simulated = staged.stack.kind is StackKind.REFERENCE
    gpu = None if simulated else staged.host.selected_gpu
    return Trial(
        runtime=runtime,
        number=number,
        right=attempted.right,
        answer=redactor_of(ws).text(f"{attempted.result.outcome.value}: {attempted.result.detail}")[:2000],
        state=read_condition(gpu, ws.environ, ws.platform),
        started=attempted.started,
        seconds=round(attempted.seconds, 3),
        iterations=attempted.iterations if attempted.right else (),
        first=attempted.first if attempted.right else {},
    )


def conditions_here(ws: Workspace, staged: Staged, job: TrialJob) -> dict[str, str]:
    """Return the fixed facts of one runtime on this machine; what cannot be found out is ``unknown``."""
    simulated = staged.stack.kind is StackKind.REFERENCE
    gpu = None if simulated else staged.host.selected_gpu
    revision = revision_of(ws)
    commit = f"{revision.commit}{' with changes' if revision.dirty else ''}" if revision else UNKNOWN
    return {
        "stack": staged.stack.id,
        "digest": staged.runtime.digest,
        "settings": "; ".join(f"{e.name}={e.value}" for e in staged.stack.env if e.value and not e.only)
        or "none",
        "gpu": SIMULATED if simulated else (gpu.name if gpu else UNKNOWN),
        "driver": (gpu.driver if gpu else None) or ("none" if simulated else UNKNOWN),
        "size": job.size_text,
        **({"slowed by": f"{job.slowdown:g} %"} if job.slowdown else {}),
        "seed": UNKNOWN if isinstance(job.workload, OwnWorkload) else str(SEED),
        "os": f"{staged.host.os} {platform_module.release()}",
        "machine": staged.host.machine,
        "processor": _processor(ws),
        "python": platform_module.python_version(),
        "revision": commit,
        "lock": staged.lock.digest + (" (custom)" if staged.lock.custom else ""),
    }


def new_runs(job: TrialJob, conditions: Mapping[str, Mapping[str, str]], *, baseline: str = "") -> Runs:
    """Start a record without trials."""
    return Runs(
        workload=job.name,
        size=job.size_text,
        metrics=job.metrics,
        conditions=conditions,
        trials=(),
        primary=job.primary,
        baseline=baseline,
        warmup=job.warmup,
        created=time_stamp(),
    )


def transcript(captured: Captured) -> bytes:
    """Join what a process printed, for a log."""
    return captured.stdout + (b"\n--- stderr ---\n" if captured.stderr else b"") + captured.stderr


def _processor(ws: Workspace) -> str:
    """Name the processor model and how many cores we may use."""
    model = platform_module.processor()
    if ws.platform == "linux":
        try:
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model
        )
    return model or UNKNOWN
