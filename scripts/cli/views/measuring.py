"""What a person sees of ``check``, ``run``, ``precompile``, ``probe``, ``compare`` and ``ab``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from scripts.app.compare import percent
from scripts.bench.judgement import FEWEST_PAIRS, CompareVerdict
from scripts.bench.picture import signed
from scripts.bench.trials import HIGHER, LOWER
from scripts.cli.console import RUN_ONE, Out, brief, seconds
from scripts.model import Outcome, StackKind
from scripts.osal.text import option
from scripts.osal.text import size_text as size
from scripts.probing.catalogue import probes
from scripts.probing.probe_matrix import ProbeChange

if TYPE_CHECKING:
    from scripts.app.ab import AbResult
    from scripts.app.check import CheckResult
    from scripts.app.compare import CompareResult
    from scripts.app.overhead import Overhead
    from scripts.app.precompile import PrecompileResult
    from scripts.app.probe import ProbeResult
    from scripts.app.run import RunResult
    from scripts.bench.judgement import Comparison, PairFinding
    from scripts.probing.probe_matrix import Score


MARKS: Final = {
    Outcome.PASS: "ok",
    Outcome.UNAVAILABLE: "skip",
    Outcome.NOT_REACHED: "unknown",
    Outcome.HANG_AFTER_RESULT: "warn",
    Outcome.CRASH_AFTER_RESULT: "warn",
}


def show_check(result: CheckResult, out: Out) -> None:
    """Show every library, then what it means, then what to do."""
    absent = [
        r.capability for r in result.verdict.results if r.outcome is Outcome.UNAVAILABLE and not r.level
    ]
    for item in result.verdict.results:
        if item.capability in absent:
            continue
        detail = f": {brief(item.detail)}" if item.detail else ""
        out.mark(MARKS.get(item.outcome, "fail"), f"{item.capability} {item.outcome.value}{detail}")
    if absent:
        out.mark("skip", f"not here: {', '.join(absent)}")
    out.marks("warn", result.notes)
    out.lines(result.noise[:20])
    word = "The libraries load" if result.verdict.loads else "Not all libraries load"
    out.line(f"{word} ({result.stack}, {seconds(result.seconds)}): {result.verdict.reason}.")
    if result.simulated:
        out.loud("This is the CPU reference stack: it proves the pipeline, not a GPU.")
    if result.verdict.loads:
        out.line("Loading is not working: this says nothing about numbers.")
        out.now("see whether numbers are right: invoke run --workload=gemm")
    else:
        if result.kind is StackKind.TRANSLATION and result.verdict.outcome is Outcome.TIMEOUT:
            out.line("A library that is missing opens a message box; the check waits until it is closed.")
        out.now("find out why: invoke doctor")


#: So many last lines of the tool's output are shown where it failed.
TAIL = 10


def show_precompile(result: PrecompileResult, out: Out) -> None:
    """Say whether the cache grew, which alone shows that something was compiled."""
    for note in (*result.notes, *result.ending):
        out.note(note)
    if result.result is not None:
        show_updates(result, out)
        return
    grown = result.after - result.before
    took = f"{result.path.name} with {result.stack}, {seconds(result.seconds)}"
    if result.code:
        out.mark("fail", f"{took}: the layer's tool failed")
        out.lines(result.output.decode("utf-8", "replace").splitlines()[-TAIL:])
    elif grown > 0:
        out.mark("ok" if result.code == 0 else "warn", f"{took}: the compile cache grew by {size(grown)}")
    else:
        out.mark("warn", f"{took}: nothing was added to the compile cache")
        out.line("    Everything was there already, or there is no device code that the layer can read.")
    if result.cache:
        out.line(f"    {result.cache} ({size(result.after)})")
    if result.code == 0:
        out.now(f"run it: invoke wrap {option('exe', result.path)}" if result.path.is_file() else RUN_ONE)
    else:
        out.now("find out why: invoke doctor")


def show_updates(result: PrecompileResult, out: Out) -> None:
    """Say how long the first update took, and how long later ones do."""
    out.mark("ok" if result.code == 0 else "fail", f"{result.path} with {result.stack}: {result.outcome}")
    first, later = (result.updates.get(part, {}) for part in ("first", "later"))
    if first and later:
        phases = ", ".join(
            f"{name.removesuffix('_s')} {first[name]:.3g} s" for name in first if name != "loss"
        )
        out.line(f"    first update: {phases}")
        grown = size(result.after - result.before)
        out.line(f"    later ones, median: {later['update_s']:.3g} s; compile cache +{grown}")
    else:
        out.line(f"    {result.detail}")
    if result.code == 0:
        out.now(RUN_ONE)
    else:
        out.now("find out why: invoke doctor")


def show_run(result: RunResult, out: Out) -> None:
    """Say whether the answer was right, and how far that goes."""
    good = result.result.outcome is Outcome.PASS
    level = f", {result.result.level.value}" if result.result.level else ""
    simulated = " (simulated: this is the CPU, not a GPU)" if result.simulated else ""
    word = f"{result.result.outcome.value}{level}{simulated}"
    line = f"{result.workload} on {result.stack}: {word}, {seconds(result.seconds)}"
    out.mark("ok" if good else "fail", line)
    out.line(f"    {result.result.detail}")
    out.lines(result.last_words, "    | ")
    out.lines(cold_and_steady(result.data))
    if result.native:
        out.line(f"    beside it, the device's own: {native(result.native)}")
    if result.overhead is not None:
        show_overhead(result.overhead, out, simulated=result.simulated)
    if result.record_path:
        out.line(f"    {result.trials} trials in {result.record_path}")
    if result.result.outcome is Outcome.REFUSED:
        out.now("see what other stacks are for: invoke stacks")
    elif result.result.outcome is Outcome.INCORRECT:
        out.now("see whether the files are intact: invoke verify")
    elif not good:
        out.now("see which libraries load: invoke check")


def cold_and_steady(data: Mapping[str, object]) -> tuple[str, ...]:
    """Put the first update's figures and the later ones' medians into two lines."""
    first, rows = data.get("first"), data.get("iterations")
    if not isinstance(first, dict) or not first or not isinstance(rows, list) or not rows:
        return ()
    names = [name for name in first if all(name in row for row in rows)]
    later = {name: statistics.median(row[name] for row in rows) for name in names}
    parts = (("first", first), (f"then, median of {len(rows)}", later))
    return tuple(f"{label}: " + ", ".join(f"{n} {row[n]:.4g}" for n in names) for label, row in parts)


def show_overhead(overhead: Overhead, out: Out, *, simulated: bool) -> None:
    """Say what the stack costs, and whether that is within the budget."""
    ends = ["?" if end is None else f"{end:+.1f} %" for end in overhead.percent]
    where = ", simulated on the CPU" if simulated else ""
    line = (
        f"{ends[0]} time beside {overhead.library} (between {ends[1]} and {ends[2]}, "
        f"{overhead.interval.pairs} pairs{where}); the budget is {overhead.budget:g} %: "
        f"{overhead.verdict.value}"
    )
    out.mark("ok" if overhead.verdict.value == "within" else "fail", line)


def native(found: Mapping[str, object]) -> str:
    """Put the device's own product into a line."""
    figure = next(
        (f"{v:,.1f} GFLOP/s" for k, v in found.items() if k.startswith("gflops") and isinstance(v, float)), ""
    )
    words = (found.get("library"), figure or found.get("note"), "" if figure else found.get("detail"))
    return ", ".join(str(word) for word in words if word)


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
        out.now("see what this machine has shown: invoke report")
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


VERDICT_MARKS: Final = {CompareVerdict.BETTER: "ok", CompareVerdict.SAME: "ok", CompareVerdict.WORSE: "fail"}


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
    out.mark(VERDICT_MARKS.get(c.verdict, "unknown"), f"{c.verdict.value}: {sentence(c, finding)}")
    if c.verdict is CompareVerdict.INCONCLUSIVE:
        apart = max(c.trials_apart.items(), key=lambda item: item[1])
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
