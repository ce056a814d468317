"""One trial: one process of a workload, judged, with what it measured and what the machine was like."""

from __future__ import annotations

import platform as platform_module
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace, read_count
from scripts.app.preflight import inspect_program
from scripts.app.stack_process import redactor_of, revision_of, run_ours
from scripts.app.wrap.plan import WrapRequest, plan_run
from scripts.bench.own_workload import OwnWorkload
from scripts.bench.trials import HIGHER, LOWER, Metric, Runs, Trial
from scripts.bench.workload_record import Record, judge_run, parse_record
from scripts.errors import UsageError
from scripts.host.facts import UNKNOWN, read_condition
from scripts.model import CapabilityResult, Outcome, StackKind
from scripts.osal.process import capture
from scripts.osal.processes import Captured
from scripts.osal.text import time_stamp


class Workload(Struct, frozen=True, kw_only=True):
    """A program in ``scripts/inside`` that prints one marked result line with its iterations.

    Attributes:
        name: what ``--workload`` calls it.
        script: the program.
        shows: the capability a right answer stands for.
        size: the default of ``--size``, counted in ``unit``; ``largest`` is the most it may be.
        metrics: what each iteration holds; the first one decides.
        arguments: further arguments of the program.
        dtype: the type a native product would be measured in; empty where there is none to put beside.
    """

    name: str
    script: str
    shows: str
    size: int
    metrics: tuple[Metric, ...]
    largest: int = 16384
    unit: str = ""
    arguments: tuple[str, ...] = ()
    dtype: str = ""


def _gemm(name: str, dtype: str) -> Workload:
    """Describe the matrix product in one type."""
    return Workload(
        name=name,
        script="gemm.py",
        shows="cublas gemm",
        size=1024,
        unit="rows and columns",
        metrics=(Metric(name=f"gflops_{dtype}", better=HIGHER, unit="GFLOP/s"),),
        arguments=("--dtype", dtype),
        dtype=dtype,
    )


_COPIES: Final = tuple(
    Metric(name=name, better=HIGHER, unit="GB/s") for name in ("h2d_gbps", "d2h_gbps", "d2d_gbps")
)
_STARTS: Final = tuple(Metric(name=name, better=LOWER, unit="µs") for name in ("roundtrip_us", "stream_us"))

WORKLOADS: Final[Mapping[str, Workload]] = {
    workload.name: workload
    for workload in (
        _gemm("gemm", "float32"),
        _gemm("gemm-float64", "float64"),
        Workload(
            name="copy",
            script="memory_copy.py",
            shows="cuda copies",
            size=64,
            largest=4096,
            unit="MiB",
            metrics=_COPIES,
        ),
        Workload(
            name="launch-latency",
            script="launch_latency.py",
            shows="cuda kernels",
            size=500,
            largest=100_000,
            unit="launches",
            metrics=_STARTS,
        ),
    )
}


def find_workload(name: str) -> Workload:
    """Return a workload of ours.

    Raises:
        UsageError: there is none of that name.
    """
    known = WORKLOADS.get(name or "gemm")
    if known is None:
        msg = f"there is no workload {name!r}"
        hint = f"use one of: {', '.join(WORKLOADS)}; or a file of your own, ending in .toml"
        raise UsageError("no-such-workload", msg, hint=hint)
    return known


def read_size(text: str, workload: Workload) -> int:
    """Read ``--size``.

    Raises:
        UsageError: it is no whole number from 1 to the largest.
    """
    return read_count(text, option="size", most=workload.largest) if text else workload.size


SEED: Final = 20260101
INSIDE: Final = ("scripts", "inside")


class TrialJob(Struct, frozen=True, kw_only=True):
    """What is run again and again: one of our workloads at a size, or a program of the user's own."""

    workload: Workload | OwnWorkload
    size: int = 0
    seconds: float

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
    """One process run: judged, with its figures."""

    result: CapabilityResult
    iterations: tuple[Mapping[str, float], ...]
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
    started = _now()
    if isinstance(job.workload, OwnWorkload):
        attempted = _attempt_own(ws, staged, job.workload)
    else:
        attempted = _attempt_ours(ws, staged, job.workload, job)
    return replace(attempted, started=started)


def _attempt_ours(ws: Workspace, staged: Staged, workload: Workload, job: TrialJob) -> Attempt:
    """Start a program of ours, and read its result line."""
    script = ws.root.joinpath(*INSIDE, workload.script)
    argv = [sys.executable, str(script), "--size", str(job.size), *workload.arguments]
    captured = run_ours(ws, staged, argv, timeout=job.seconds)
    record = parse_record(captured.stderr)
    rows = record.data.get("iterations")
    iterations = tuple(row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
    return Attempt(
        result=_judge(record, captured, workload.shows, folders=own_folders(ws, staged)),
        iterations=iterations,
        data=record.data,
        output=transcript(captured),
        seconds=captured.seconds,
    )


def _attempt_own(ws: Workspace, staged: Staged, workload: OwnWorkload) -> Attempt:
    """Start the user's program the way ``wrap`` starts it, and read its output."""
    words = [sys.executable if word == "{python}" else word for word in workload.command]
    program = workload.folder / words[0] if len(Path(words[0]).parts) > 1 else Path(words[0])
    request = WrapRequest(exe=str(program), cwd=str(workload.folder), program_args=tuple(words[1:]))
    look = partial(inspect_program, ws)
    plan = plan_run(ws, request, staged=lambda _ws, _stack: staged, placer=None, inspect=look)
    captured = capture(plan.command, timeout=workload.timeout)
    text = captured.stdout.decode("utf-8", "replace") + "\n" + captured.stderr.decode("utf-8", "replace")
    record, iterations = _read_own(workload, text, captured)
    return Attempt(
        result=_judge(record, captured, workload.name, application=True),
        iterations=iterations,
        data=record.data,
        output=transcript(captured),
        seconds=captured.seconds,
    )


def _read_own(
    workload: OwnWorkload, text: str, captured: Captured
) -> tuple[Record, tuple[Mapping[str, float], ...]]:
    """Say in a record's words what a program of the user's printed; no answer is a fault, not a wrong one."""
    right, answer = workload.answer.judge(text)
    if answer is None:
        return Record(data={}, fault="the answer is not in its output"), ()
    if not right:
        return Record(data={"outcome": "incorrect", "detail": f"answer: {answer}"}), ()
    try:
        iterations = workload.iterations(text)
    except ValueError as error:
        # What a timeout or a crash cut off is reported as that.
        ended = captured.timed_out or captured.returncode != 0
        return Record(data={} if ended else {"outcome": "error", "detail": str(error)}, fault=str(error)), ()
    return Record(data={"outcome": "pass", "detail": f"answer: {answer}"}), iterations


def _judge(
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
        "gpu": "none (simulated on the CPU)" if simulated else (gpu.name if gpu else UNKNOWN),
        "driver": (gpu.driver if gpu else None) or ("none" if simulated else UNKNOWN),
        "size": job.size_text,
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
        created=_now(),
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


def _now() -> str:
    return time_stamp()


def native_product(ws: Workspace, staged: Staged, job: TrialJob) -> dict[str, object]:
    """Measure the device's own matrix product: rocBLAS on AMD, NumPy's BLAS on the CPU.

    On an NVIDIA GPU cuBLAS *is* the device's own, so there is nothing to put beside it.
    """
    if not isinstance(job.workload, Workload) or not job.workload.dtype:
        return {}
    if staged.stack.kind is StackKind.CONTROL:
        return {"library": "cuBLAS", "note": "the run itself is the device's own library"}
    backend = "cpu" if staged.stack.kind is StackKind.REFERENCE else "hip"
    script = ws.root.joinpath(*INSIDE, "gemm_native.py")
    argv = [sys.executable, str(script), "--backend", backend, "--size", str(job.size)]
    captured = run_ours(ws, staged, [*argv, "--dtype", job.workload.dtype], timeout=job.seconds)
    data = parse_record(captured.stderr).data
    name = job.primary
    found = {key: data[key] for key in ("library", "device", "outcome", "detail", name) if key in data}
    return found or {"outcome": "error", "detail": "it printed no result"}
