"""``ab``: two stacks (or one against itself) in turn, A B B A, until the interval is narrow or time is up.

A B B A because machines drift: they warm up, other programs start. Whatever grows steadily falls on both
sides alike within a block. It stops on the interval's *width* or when the rounds are used up, never
because something looks significant: who stops then finds a difference in noise sooner or later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Unpack

from msgspec.structs import replace

from scripts.app.compare import FORMS, CompareResult, read_margin, write_picture
from scripts.app.context import Staged, Workspace, read_count, read_percent, staged_runtime
from scripts.app.run import JobWords, read_job
from scripts.app.trial import TrialJob, attempt, conditions_here, new_runs, trial_of
from scripts.bench.judgement import Comparison, compare
from scripts.bench.picture import signed
from scripts.bench.trials import Runs, Trial, write_record
from scripts.errors import ExitCode, UsageError
from scripts.evidence.evidence_io import report_folder
from scripts.osal.text import utc_now
from scripts.serialize import JsonRecord

ROUNDS: Final = 10
MOST_ROUNDS: Final = 500
#: Half of the interval that is narrow enough, in percent.
WIDTH: Final = 1.0
#: The most percent by which a workload of ours makes itself slower.
MOST_SLOWDOWN: Final = 1000.0
#: Pairs before the width may stop a run: from fewer, the spread itself is a guess, and often too small.
FEWEST_TO_STOP: Final = 10


class AbResult(JsonRecord, frozen=True, kw_only=True):
    """What came out, and where its record and picture lie; no comparison where an answer was wrong."""

    a: str
    b: str
    workload: str
    rounds: int
    stopped: str
    record: str
    picture: str = ""
    result: CompareResult | None = None
    failure: str = ""

    JSON = (
        "a b workload rounds stopped record picture failure verdict=result.comparison.verdict "
        "comparison=result"
    )

    @property
    def exit_code(self) -> int:
        """As ``compare``; 3 also when a trial failed."""
        return self.result.exit_code if self.result else ExitCode.NEGATIVE


def ab(
    ws: Workspace,
    *,
    a: str = "",
    b: str = "",
    workload: str = "gemm",
    rounds: str = "",
    width: str = "",
    margin: str = "",
    slowdown: str = "",
    **words: Unpack[JobWords],
) -> AbResult:
    """Measure two staged stacks in blocks of A B B A and compare them; A is the baseline.

    With ``slowdown`` B's workload is made slower by so many percent, an effect whose size is known.

    Raises:
        UsageError: a stack is not named or not staged, or an option cannot be read.
    """
    if not a or not b:
        raise UsageError("two-stacks-needed", "two stacks are compared", hint="invoke ab --a=STACK --b=STACK")
    slow = 0.0
    if slowdown:
        slow = read_percent(slowdown, "bad-slowdown", option="slowdown", most=MOST_SLOWDOWN)
    job = read_job(workload, slowdown=slow, **words)
    budget = read_count(rounds, option="rounds", most=MOST_ROUNDS) if rounds else ROUNDS
    narrow = read_percent(width, "bad-width", option="width") if width else WIDTH
    allowed = read_margin(margin)
    session = _Session(ws, job, _stage(ws, a, b), margin=allowed)
    stopped = "budget"
    with ws.progress.task(f"ab {job.name}", budget * 4, unit="trials") as advance:
        session.warm_up()
        for number in range(1, budget + 1):
            if not session.block(advance):
                stopped = "failure"
                break
            half = session.tell(number, budget)
            if session.pairs >= FEWEST_TO_STOP and half <= narrow:
                stopped = "width"
                break
    return session.finish(stopped)


def _stage(ws: Workspace, a: str, b: str) -> dict[str, Staged]:
    """Verify both stacks; one against itself gets two labels."""
    first = staged_runtime(ws, a)
    if a == b:
        return {f"{a}/a": first, f"{a}/b": first}
    return {a: first, b: staged_runtime(ws, b)}


class _Session:
    """The trials so far, written down after every block so that an interruption loses little."""

    def __init__(self, ws: Workspace, job: TrialJob, sides: Mapping[str, Staged], *, margin: float) -> None:
        """Open a folder for the record."""
        self.ws, self.job, self.sides, self.margin = ws, job, sides, margin
        self.a, self.b = sides
        self.jobs = {self.a: replace(job, slowdown=0.0), self.b: job}
        conditions = {label: conditions_here(ws, s, self.jobs[label]) for label, s in sides.items()}
        self.runs: Runs = new_runs(job, conditions, baseline=self.a)
        name = "-".join(dict.fromkeys(staged.stack.id for staged in sides.values()))
        folder = report_folder(ws.stage / "reports", stack=f"ab-{name}", created=utc_now())
        self.path = folder / f"{job.name}.record.json"
        self.failure = ""
        self.pairs = 0

    def warm_up(self) -> None:
        """Run each side once without counting it: first uses compile and fill caches."""
        for label, staged in self.sides.items():
            attempted = attempt(self.ws, staged, self.jobs[label])
            if not attempted.right:
                self.ws.progress.note(f"the warm-up run of {label} was not right: {attempted.result.detail}")

    def block(self, advance: Callable[[int], None]) -> bool:
        """Measure A B B A; false as soon as an answer is not right."""
        first, second = self.pairs + 1, self.pairs + 2
        for label, number in ((self.a, first), (self.b, first), (self.b, second), (self.a, second)):
            trial = self._trial(label, number)
            self.runs = replace(self.runs, trials=(*self.runs.trials, trial))
            advance(1)
            if not trial.right:
                self.failure = f"trial {number} of {label}: {trial.answer}"
                self._write()
                return False
        self.pairs += 2
        self._write()
        return True

    def tell(self, number: int, budget: int) -> float:
        """Show how far the interval has shrunk; return half of it in percent."""
        interval = self._compare().findings[self.job.primary].interval
        half = math.expm1(interval.half_width) * 100
        ends = " and ".join(signed(math.expm1(end) * 100) for end in (interval.low, interval.high))
        line = (
            f"block {number} of {budget}: {interval.pairs} pairs, {signed(math.expm1(interval.mean) * 100)}"
        )
        self.ws.progress.note(f"{line}, between {ends}; ±{half:.1f} %")
        return half

    def finish(self, stopped: str) -> AbResult:
        """Compare what there is, and draw it."""
        ended = AbResult(
            a=self.a,
            b=self.b,
            workload=self.job.name,
            rounds=self.pairs // 2,
            stopped=stopped,
            record=str(self.path),
            failure=self.failure,
        )
        if self.failure:
            return ended
        compared = self._compare()
        picture = self.path.with_suffix(".svg")
        for form in FORMS:
            write_picture(picture.with_suffix(form), compared)
        result = CompareResult(comparison=compared, sources=(self.path.name,), picture=str(picture))
        return replace(ended, picture=str(picture), result=result)

    def _trial(self, label: str, number: int) -> Trial:
        attempted = attempt(self.ws, self.sides[label], self.jobs[label])
        return trial_of(self.ws, self.sides[label], attempted, runtime=label, number=number)

    def _compare(self) -> Comparison:
        return compare(
            self.runs,
            baseline=self.a,
            candidate=self.b,
            warmup=self.runs.warmup,
            primary=self.job.primary,
            margin=self.margin,
        )

    def _write(self) -> Path:
        return write_record(self.path, self.runs)
