"""What a person sees of ``probe``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scripts.cli.console import Out, brief
from scripts.cli.views.checks import MARKS
from scripts.model import Outcome
from scripts.probing.catalogue import probes
from scripts.probing.changes import ProbeChange

if TYPE_CHECKING:
    from scripts.app.probe import ProbeResult
    from scripts.probing.matrix import Score

CHANGES: Final = {ProbeChange.BETTER: "ok", ProbeChange.WORSE: "fail"}


def show_probe(result: ProbeResult, out: Out) -> None:
    """Show what did not pass, the score, and what to do."""
    if result.compared:
        show_differences(result, out)
        return
    for item in result.results:
        if item.outcome is Outcome.PASS:
            out.mark("ok", f"{item.capability}: {item.detail}")
    for item in result.results:
        if item.outcome is not Outcome.PASS:
            mark = MARKS.get(item.outcome, "fail")
            out.mark(mark, f"{item.capability} {item.outcome.value}: {brief(item.detail)}")
            if item.outcome not in {Outcome.UNAVAILABLE, Outcome.REFUSED}:
                asked = probes()[item.capability]
                out.line(f"    {asked.why}; it calls {', '.join(asked.calls)}")
    _sum_up(result, out)
    if result.evidence:
        out.line(f"    {result.evidence}")
        out.now(f"keep {result.evidence}: `invoke probe --compare FILE FILE` holds two side by side")
    else:
        out.now("ask a stack: invoke probe")


def _sum_up(result: ProbeResult, out: Out) -> None:
    """Show the score, how far it goes, and which settings go around what failed."""
    out.line(f"{result.stack or 'the probes themselves'}: {_counted(result.score)}")
    if result.kept:
        out.line(f"    {result.kept} of them were done before the interruption")
    if result.simulated:
        out.loud("This is the CPU reference stack: it proves the pipeline, not a GPU.")
    for policy, names in result.policies.items():
        way = "; `wrap --policy=auto` switches it on" if result.gfx and not result.simulated else ""
        out.line(f"    {policy} goes around {', '.join(names)} in PyTorch{way}")


def _counted(score: Score) -> str:
    """Say a score: the share, and what it is made of."""
    share = "nothing was exercised" if score.percent is None else f"{score.percent:g} % passed"
    figures = f"{score.passed} passed, {score.failed} failed, {score.refused} refused"
    return f"{share} ({figures}, {score.absent} not here)"


def show_differences(result: ProbeResult, out: Out) -> None:
    """Show what changed between two matrices, and count what did not."""
    same = 0
    for item in result.differences:
        if item.change is ProbeChange.SAME:
            same += 1
            continue
        words = [outcome.value if outcome else "not there" for outcome in (item.first, item.second)]
        detail = f": {brief(item.detail)}" if item.change is ProbeChange.WORSE and item.detail else ""
        out.mark(CHANGES.get(item.change, "unknown"), f"{item.probe} {words[0]} -> {words[1]}{detail}")
    out.line(f"{same} are the same in both")
    for name, score in zip(result.compared, result.scores, strict=True):
        out.line(f"{name}: {_counted(score)}")
    out.now("what each probe asks is in docs/probes.md")
