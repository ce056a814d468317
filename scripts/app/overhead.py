"""What a stack costs: the same work through it and by the device's own library, in turn.

The two sides alternate (A B B A), each run a process of its own, timed by the wall clock with the device
awaited. A pair's figure is the ratio of two medians; from the pairs comes the interval of ``compare``. Where
CUDA itself is the device's own (``native-cuda``), the other side is the same program outside of the stack:
what comes out is what measuring adds by itself.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from scripts.app.context import Staged, Workspace
from scripts.app.stack_process import run_ours
from scripts.app.trial import INSIDE, Attempt, TrialJob, attempt_of
from scripts.bench.judgement import Interval, interval_of
from scripts.bench.trials import LOWER
from scripts.bench.workloads import Workload
from scripts.model import StackKind
from scripts.osal.process import run_captured
from scripts.serialize import pick

#: The label of the other side in records.
NATIVE: Final = "native"
#: The most percent that ``--budget`` may be.
MOST_BUDGET: Final = 10_000.0
#: Which of a workload's ways without CUDA is the device's own, by the kind of stack.
BACKENDS: Final = {StackKind.TRANSLATION: "hip", StackKind.REFERENCE: "cpu"}


class BudgetVerdict(StrEnum):
    """What the pairs say about the budget."""

    WITHIN = "within"
    EXCEEDED = "exceeded"
    INCONCLUSIVE = "inconclusive"


class Overhead(Struct, frozen=True, kw_only=True):
    """How much longer the work takes through a stack than by the device's own library, in percent.

    Attributes:
        library: the other side's library.
        device: the device that the other side names.
        metric: the figure that was compared.
        budget: percent that are allowed.
        interval: what the pairs say: logarithms of time through the stack over time without it.
    """

    library: str
    device: str
    metric: str
    budget: float
    interval: Interval

    @property
    def verdict(self) -> BudgetVerdict:
        """Within or beyond the budget only where the whole interval is."""
        limit = math.log1p(self.budget / 100)
        if self.interval.high <= limit:
            return BudgetVerdict.WITHIN
        return BudgetVerdict.EXCEEDED if self.interval.low > limit else BudgetVerdict.INCONCLUSIVE

    @property
    def percent(self) -> tuple[float | None, ...]:
        """The estimate and both ends of the interval; ``None`` where fewer than two pairs leave all open."""
        ends = (self.interval.mean, self.interval.low, self.interval.high)
        return tuple(math.expm1(end) * 100 if math.isfinite(end) else None for end in ends)

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        mean, low, high = self.percent
        return {
            **pick(self, "library device metric budget_percent=budget verdict"),
            "percent": mean,
            "ci95_percent": [low, high],
            "pairs": self.interval.pairs,
        }


def native_words(staged: Staged, job: TrialJob) -> Sequence[str]:
    """Return the program and its arguments that do the same work by the device's own library; none: empty."""
    if not isinstance(job.workload, Workload):
        return ()
    if staged.stack.kind is StackKind.CONTROL:
        return (job.workload.script, *job.workload.arguments)
    return job.workload.native.get(BACKENDS[staged.stack.kind], ())


def native_attempt(ws: Workspace, staged: Staged, job: TrialJob) -> Attempt | None:
    """Run the same work by the device's own library; ``None`` where there is none to put beside."""
    words = native_words(staged, job)
    if not words:
        return None
    python = job.exe or sys.executable
    argv = [python, str(ws.root.joinpath(*INSIDE, words[0])), *words[1:], "--size", str(job.size)]
    if staged.stack.kind is StackKind.TRANSLATION:  # HIP is found where the stack finds it
        captured = run_ours(ws, staged, argv, timeout=job.seconds)
    else:
        captured = run_captured(argv, env=dict(ws.environ), timeout=job.seconds)
    return attempt_of(captured, job.name)


def beside(ws: Workspace, staged: Staged, job: TrialJob) -> dict[str, object]:
    """Measure the device's own library once, for a line beside a run."""
    if not isinstance(job.workload, Workload) or not job.workload.native:
        return {}
    if staged.stack.kind is StackKind.CONTROL:
        return {"library": "CUDA", "note": "the run itself is the device's own library"}
    attempted = native_attempt(ws, staged, job)
    if attempted is None:
        return {}
    data = attempted.data
    found = {key: data[key] for key in ("library", "device", "outcome", "detail", job.primary) if key in data}
    return found or {"outcome": "error", "detail": "it printed no result"}


def overhead_of(job: TrialJob, budget: float, pairs: Sequence[tuple[Attempt, Attempt]]) -> Overhead:
    """Judge pairs of (stack, native) runs, all of them right."""
    lower = job.metrics[job.primary].better == LOWER
    ratios = []
    for stack, native in pairs:
        own, other = (_median(side.iterations, job.primary) for side in (stack, native))
        ratios.append(math.log(own / other) if lower else math.log(other / own))
    data = pairs[-1][1].data
    library = str(data.get("library") or "CUDA outside of the stack")
    return Overhead(
        library=library,
        device=str(data.get("device", "")),
        metric=job.primary,
        budget=budget,
        interval=interval_of(ratios),
    )


def _median(rows: Sequence[Mapping[str, float]], metric: str) -> float:
    return statistics.median(row[metric] for row in rows)
