"""What a person sees of ``compare`` and ``ab``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from scripts.app.bench.compare import percent
from scripts.bench.compare import FEWEST_PAIRS, CompareVerdict
from scripts.bench.picture import signed
from scripts.bench.trials import HIGHER, LOWER
from scripts.cli.console import Out

if TYPE_CHECKING:
    from scripts.app.bench.ab import AbResult
    from scripts.app.bench.compare import CompareResult
    from scripts.bench.compare import Comparison, PairFinding


MARKS: Final = {CompareVerdict.BETTER: "ok", CompareVerdict.SAME: "ok", CompareVerdict.WORSE: "fail"}


def show_compare(result: CompareResult, out: Out) -> None:
    """Show every metric, then what the primary one means, then what to do."""
    c = result.comparison
    out.line(f"{c.workload}: {c.candidate} against {c.baseline} (warm-up {c.warmup})")
    if c.simulated:
        out.line(f"Simulated on the CPU, not a GPU's figures: {', '.join(c.simulated)}")
    for finding in c.findings.values():
        _metric(finding, out, decides=finding.metric == c.primary)
    out.line()
    show_verdict(c, out)
    _conditions(c, out)
    if result.picture:
        out.line(f"Picture: {result.picture}")
    primary = c.findings[c.primary]
    if c.verdict is CompareVerdict.INCONCLUSIVE and primary.needed_pairs:
        rounds = (primary.needed_pairs + 1) // 2  # A B B A are two pairs
        if all(source.endswith(".json") for source in result.sources):  # our own name stacks
            a, b = c.baseline.removesuffix("/a"), c.candidate.removesuffix("/b")
            out.now(f"measure more: invoke ab --a={a} --b={b} --workload={c.workload} --rounds={rounds}")
        else:
            out.now(f"measure about {primary.needed_pairs} pairs where these came from")
    else:
        out.now("why it is judged like this: docs/comparing.md")


def show_verdict(c: Comparison, out: Out) -> None:
    """Say in one sentence what is known, and what is not."""
    finding = c.findings[c.primary]
    out.mark(MARKS.get(c.verdict, "unknown"), f"{c.verdict.value}: {sentence(c, finding)}")
    if c.verdict is CompareVerdict.INCONCLUSIVE:
        apart = max(c.spreads.items(), key=lambda item: item[1])
        out.line(f"    Trials of {apart[0]} alone lie {apart[1]:.1f} % apart.")
    if not c.answers_known:
        out.line("    Whether the answers of these trials were right is not recorded.")


def sentence(c: Comparison, finding: PairFinding) -> str:
    """Put the primary metric's finding into words."""
    pairs, margin = finding.interval.pairs, f"±{c.margin * 100:g} %"
    if pairs < FEWEST_PAIRS:
        need = f"; about {finding.needed_pairs} would be needed" if finding.needed_pairs else ""
        return f"{pairs} pairs cannot tell {c.candidate} from {c.baseline} by {c.primary}{need}"
    estimate, ends = signed(math.expm1(finding.interval.mean) * 100), _ends(finding)
    if c.verdict is CompareVerdict.SAME:
        return f"by {c.primary} they differ by less than {margin} ({estimate}, between {ends})"
    if c.verdict is CompareVerdict.INCONCLUSIVE:
        return f"{c.primary} changes by {estimate}, and anything between {ends} fits these {pairs} pairs"
    return f"{c.primary} changes by {estimate}, between {ends} by {pairs} pairs"


def _metric(finding: PairFinding, out: Out, *, decides: bool) -> None:
    """Show one metric: what the pairs say, and the published definition beside it."""
    pooled = finding.pooled
    good = {HIGHER: "more is better", LOWER: "less is better"}.get(
        finding.better, "which is better is not recorded"
    )
    out.line(f"{finding.metric}{' (decides)' if decides else ''}, {good}: {finding.verdict.value}")
    if finding.ratios:
        mean = signed(math.expm1(finding.interval.mean) * 100)
        out.line(f"    {finding.interval.pairs} pairs: {mean}, between {_ends(finding)}")
    old, new = pooled.baseline_median, pooled.candidate_median
    line = f"    all iterations pooled: medians {_figure(old)} and {_figure(new)}"
    if old and pooled.baseline_mean:
        means = (pooled.candidate_mean / pooled.baseline_mean - 1) * 100
        line += f", {signed((new / old - 1) * 100, 2)}; means {signed(means, 2)}"
    out.line(line)


def _figure(value: float) -> str:
    """Write a measured value; four digits are enough for small ones."""
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.2f}"  # noqa: PLR2004 - how numbers look


def _ends(finding: PairFinding) -> str:
    """Write the interval."""
    ends = [percent(finding.interval.low), percent(finding.interval.high)]
    return " and ".join(signed(end) for end in ends if end is not None) if None not in ends else "unknown"


def _conditions(c: Comparison, out: Out) -> None:
    """Name the conditions that differ or are unknown."""
    different, unknown = c.conditions["different"], c.conditions["unknown"]
    if isinstance(different, dict) and different:
        for name, pair in different.items():
            out.line(f"    {name}: {pair['baseline']} against {pair['candidate']}")
    if isinstance(unknown, list) and unknown:
        out.line(f"    Unknown, and so perhaps different: {', '.join(unknown)}.")


STOPPED = {
    "width": "the interval is narrow enough",
    "budget": "the rounds are used up",
    "failure": "an answer was not right",
}


def show_ab(result: AbResult, out: Out) -> None:
    """Say how it ended, show the comparison, name the files."""
    out.line(f"{result.rounds} blocks of A B B A; stopped because {STOPPED[result.stopped]}.")
    out.line(f"Record: {result.record}")
    if result.result is None:
        out.mark("fail", f"not compared: {result.failure}")
        out.now("find out why: invoke doctor")
        return
    show_compare(result.result, out)
