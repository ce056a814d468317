"""``run``: a workload with a known answer, each trial a process of its own; on request with a record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypedDict, Unpack

from msgspec import field
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace, read_count, read_percent, staged_runtime
from scripts.app.overhead import (
    MOST_BUDGET,
    NATIVE,
    BudgetVerdict,
    Overhead,
    beside,
    native_attempt,
    native_words,
    overhead_of,
)
from scripts.app.trial import Attempt, TrialJob, attempt, conditions_here, new_runs, trial_of
from scripts.bench.trials import Runs, write_record
from scripts.bench.workloads import Workload, find_workload, read_own_workload, workloads
from scripts.errors import ExitCode, UsageError
from scripts.evidence.document import FigureFact
from scripts.evidence.evidence_io import report_folder
from scripts.launch.program import parse_timeout
from scripts.model import CapabilityResult, Outcome, StackKind
from scripts.osal.paths import unquoted, user_path
from scripts.osal.text import printable, utc_now
from scripts.serialize import JsonRecord

DEFAULT_SECONDS: Final = 300.0
MOST_TRIALS: Final = 1000
#: Pairs of runs behind a budget, where --trials says nothing.
PAIRS: Final = 4
#: How much is shown of what a program printed before it failed: bytes looked at, lines, characters of each.
LAST_BYTES, LAST_LINES, LAST_LETTERS = 8192, 5, 300


class RunResult(JsonRecord, frozen=True, kw_only=True):
    """One run: the judged result, what the workload reported, and its output for the log.

    With several trials the result is the worst one's. ``native`` is what the device's own library did once
    beside it; ``overhead`` what pairs of both say about a budget.
    """

    stack: str
    simulated: bool
    workload: str
    result: CapabilityResult
    data: Mapping[str, object] = field(default_factory=dict)
    output: bytes = b""
    seconds: float = 0.0
    trials: int = 1
    native: Mapping[str, object] = field(default_factory=dict)
    overhead: Overhead | None = None
    record_path: str = ""

    JSON = (
        "stack simulated workload level=result.level outcome=result.outcome detail=result.detail last_words "
        "record=data seconds trials first=data_first native overhead record_file=record_path"
    )

    @property
    def exit_code(self) -> int:
        """0 for a right answer and a clean end within the budget, 124 after a timeout, else 3."""
        if self.result.outcome is Outcome.PASS:
            kept = self.overhead is None or self.overhead.verdict is BudgetVerdict.WITHIN
            return ExitCode.OK if kept else ExitCode.NEGATIVE
        return ExitCode.TIMEOUT if self.result.outcome is Outcome.TIMEOUT else ExitCode.NEGATIVE

    @property
    def figures(self) -> tuple[FigureFact, ...]:
        """What the workload measures, of a run whose answer was right, for a document."""
        known = workloads().get(self.workload)
        if known is None or self.result.outcome is not Outcome.PASS:
            return ()
        return tuple(
            FigureFact(
                capability=self.result.capability, metric=metric.name, value=float(value), unit=metric.unit
            )
            for metric in known.metrics
            if isinstance(value := self.data.get(metric.name), (int, float)) and math.isfinite(value)
        )

    @property
    def data_first(self) -> object:
        """What the first update measured, apart from the steady state."""
        return self.data.get("first", {})

    @property
    def last_words(self) -> tuple[str, ...]:
        """The last lines, printable, of a program that failed before its answer: there the cause stands."""
        if self.result.outcome is Outcome.PASS or self.data:
            return ()
        lines = self.output[-LAST_BYTES:].decode("utf-8", "replace").splitlines()
        plain = (printable(line).rstrip() for line in lines)
        return tuple(line[:LAST_LETTERS] for line in plain if line)[-LAST_LINES:]


class JobWords(TypedDict, total=False):
    """Options of ``run`` and ``ab`` about one run of a workload, as typed."""

    size: str
    timeout: str
    exe: str


def run(
    ws: Workspace,
    *,
    workload: str = "gemm",
    stack: str = "",
    trials: str = "",
    record: bool = False,
    budget: str = "",
    **words: Unpack[JobWords],
) -> RunResult:
    """Run a workload under the active stack or a named one.

    ``workload`` is one of ours or a ``.toml`` file. With ``record`` (or more than one of ``trials``) every
    trial goes into a run record below ``stage/reports``. With ``budget`` every trial is put beside one of
    the device's own library. ``exe`` is the Python that runs one of ours.

    Raises:
        UsageError: an option cannot be read, or there is nothing to put beside.
    """
    job = read_job(workload, **words)
    limit = read_percent(budget, "bad-budget", option="budget", most=MOST_BUDGET) if budget else None
    count = read_count(trials, option="trials", most=MOST_TRIALS) if trials else (PAIRS if budget else 1)
    staged = staged_runtime(ws, stack)
    if limit is not None:
        return _against_native(ws, staged, job, count=count, budget=limit)
    attempts = []
    runs = new_runs(job, {staged.stack.id: conditions_here(ws, staged, job)})
    with ws.progress.task(f"run {job.name}", count, unit="trials") as advance:
        for number in range(1, count + 1):
            attempts.append(attempt(ws, staged, job))
            trial = trial_of(ws, staged, attempts[-1], runtime=staged.stack.id, number=number)
            runs = replace(runs, trials=(*runs.trials, trial))
            advance(1)
    native = beside(ws, staged, job) if attempts[-1].right else {}
    path = str(save_record(ws, runs, name=staged.stack.id)) if record or count > 1 else ""
    decides = next((a for a in attempts if not a.right), attempts[-1])
    result = _result(staged, job, decides)
    return replace(result, trials=count, native=native, record_path=path)


def _against_native(ws: Workspace, staged: Staged, job: TrialJob, *, count: int, budget: float) -> RunResult:
    """Run pairs of stack and device's own library, in the order A B B A, until one is not right."""
    if not native_words(staged, job):
        msg = f"there is nothing of the device's own to put beside {job.name} here"
        raise UsageError("no-native-baseline", msg, hint="leave out --budget")
    label, here = staged.stack.id, conditions_here(ws, staged, job)
    other = {**here, "stack": "none", "digest": "none", "settings": "none"}
    runs = new_runs(job, {NATIVE: other, label: here}, baseline=NATIVE)
    pairs: list[tuple[Attempt, Attempt]] = []
    failed: Attempt | None = None
    with ws.progress.task(f"run {job.name}", 2 * count, unit="trials") as advance:
        for number in range(1, count + 1):
            made: dict[str, Attempt] = {}
            for side in (label, NATIVE) if number % 2 else (NATIVE, label):
                found = attempt(ws, staged, job) if side == label else native_attempt(ws, staged, job)
                assert found is not None  # noqa: S101 - there are words for it
                made[side] = found
                trial = trial_of(ws, staged, found, runtime=side, number=number)
                runs = replace(runs, trials=(*runs.trials, trial))
                advance(1)
                if not found.right:
                    failed = found
                    break
            if failed is not None:
                break
            pairs.append((made[label], made[NATIVE]))
    path = str(save_record(ws, runs, name=label))
    result = _result(staged, job, failed or pairs[-1][0])
    overhead = None if failed else overhead_of(job, budget, pairs)
    return replace(result, trials=len(runs.trials), overhead=overhead, record_path=path)


def run_staged(ws: Workspace, staged: Staged, workload: Workload, *, size: int, seconds: float) -> RunResult:
    """Run one of our workloads once under a verified stack and judge it."""
    job = TrialJob(workload=workload, size=size, seconds=seconds)
    with ws.progress.task(f"run {workload.name} {size}", None):
        attempted = attempt(ws, staged, job)
    return _result(staged, job, attempted)


def _result(staged: Staged, job: TrialJob, attempted: Attempt) -> RunResult:
    return RunResult(
        stack=staged.stack.id,
        simulated=staged.stack.kind is StackKind.REFERENCE,
        workload=job.name,
        result=attempted.result,
        data=attempted.data,
        output=attempted.output,
        seconds=round(attempted.seconds, 3),
    )


def read_job(
    workload: str, *, size: str = "", timeout: str = "", exe: str = "", slowdown: float = 0.0
) -> TrialJob:
    """Read which workload is meant, and how long one run may take.

    Raises:
        UsageError: there is no such workload, or its size or time cannot be read.
    """
    if unquoted(workload).lower().endswith(".toml"):
        if size:
            msg = "--size says nothing about a program of your own"
            raise UsageError("bad-size", msg, hint="put the size into its command")
        if exe or slowdown:
            msg = f"--{'exe' if exe else 'slowdown'} is for workloads of ours"
            raise UsageError("own-program", msg, hint="put it into the command of your description")
        own = read_own_workload(user_path(workload, "--workload"))
        seconds = parse_timeout(timeout) or own.timeout
        return TrialJob(workload=replace(own, timeout=seconds), seconds=seconds)
    known = find_workload(workload)
    seconds = parse_timeout(timeout) or DEFAULT_SECONDS
    counted = read_count(size, option="size", most=known.largest) if size else known.size
    return TrialJob(workload=known, size=counted, seconds=seconds, exe=exe, slowdown=slowdown)


def save_record(ws: Workspace, runs: Runs, *, name: str) -> Path:
    """Write a run record into a new folder below ``stage/reports``."""
    folder = report_folder(ws.stage / "reports", stack=name, created=utc_now())
    return write_record(folder / f"{runs.workload}.record.json", runs)
