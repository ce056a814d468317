"""The face of ``compare``."""

from __future__ import annotations

import math
from typing import Final

from scripts.app.compare import CompareResult, percent
from scripts.reporting.compare import FEWEST_PAIRS, Comparison, Finding, Verdict
from scripts.reporting.picture import signed
from scripts.ui.console import Out

MARKS: Final = {Verdict.BETTER: "ok", Verdict.SAME: "ok", Verdict.WORSE: "fail"}
COLUMNS: Final = (
    "metric",
    "good",
    "baseline",
    "candidate",
    "medians",
    "estimate",
    "95 % interval",
    "verdict",
)


def show(result: CompareResult, out: Out) -> None:
    """Show every metric, then what the primary one means, then what to do."""
    c = result.comparison
    out.line(f"{c.workload}: {c.candidate} against {c.baseline} (warm-up {c.warmup})")
    out.table(COLUMNS, [_row(f, primary=f.metric == c.primary) for f in c.findings.values()])
    show_verdict(c, out)
    _conditions(c, out)
    if result.picture:
        out.line(f"Picture: {result.picture}")
    finding = c.findings[c.primary]
    if c.verdict is Verdict.INCONCLUSIVE and finding.needed_pairs:
        out.now(f"measure about {finding.needed_pairs} pairs: invoke ab --a=STACK --b=STACK")
    else:
        out.now("why it is judged like this: docs/comparing.md")


def show_verdict(c: Comparison, out: Out) -> None:
    """Say in one sentence what is known, and what is not."""
    finding = c.findings[c.primary]
    out.mark(MARKS.get(c.verdict, "unknown"), f"{c.verdict.value}: {sentence(c, finding)}")
    if c.verdict is Verdict.INCONCLUSIVE:
        apart = max(c.spreads.items(), key=lambda item: item[1])
        out.line(f"    Trials of {apart[0]} alone lie {apart[1]:.1f} % apart.")
    if not c.answers_known:
        out.line("    Nobody says whether the answers of these trials were right.")


def sentence(c: Comparison, finding: Finding) -> str:
    """Put the primary metric's finding into words."""
    pairs, margin = finding.interval.pairs, f"±{c.margin * 100:g} %"
    if pairs < FEWEST_PAIRS:
        need = f"; about {finding.needed_pairs} would be needed" if finding.needed_pairs else ""
        return f"{pairs} pairs cannot tell {c.candidate} from {c.baseline} by {c.primary}{need}"
    estimate, ends = signed(math.expm1(finding.interval.mean) * 100), _ends(finding)
    if c.verdict is Verdict.SAME:
        return f"by {c.primary} they differ by less than {margin} ({estimate}, between {ends})"
    if c.verdict is Verdict.INCONCLUSIVE:
        return f"{c.primary} changes by {estimate}, and anything between {ends} fits these {pairs} pairs"
    return f"{c.primary} changes by {estimate}, between {ends} by {pairs} pairs"


def _row(finding: Finding, *, primary: bool) -> tuple[str, ...]:
    """Write one metric."""
    pooled = finding.pooled
    change = (
        (pooled.candidate_median / pooled.baseline_median - 1) * 100 if pooled.baseline_median else math.nan
    )
    return (
        f"{finding.metric} (decides)" if primary else finding.metric,
        {"higher": "more", "lower": "less"}.get(finding.better, "?"),
        f"{pooled.baseline_median:,.4g}"
        if abs(pooled.baseline_median) < 1
        else f"{pooled.baseline_median:,.2f}",
        f"{pooled.candidate_median:,.4g}"
        if abs(pooled.candidate_median) < 1
        else f"{pooled.candidate_median:,.2f}",
        signed(change),
        signed(math.expm1(finding.interval.mean) * 100) if finding.ratios else "-",
        _ends(finding),
        finding.verdict.value,
    )


def _ends(finding: Finding) -> str:
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
