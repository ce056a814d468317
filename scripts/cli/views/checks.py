"""What a person sees of ``check``, ``run`` and ``precompile``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from scripts.cli.console import RUN_ONE, Out, brief, seconds, size
from scripts.model import Outcome, StackKind

if TYPE_CHECKING:
    from scripts.app.bench.overhead import Overhead
    from scripts.app.bench.run import RunResult
    from scripts.app.check import CheckResult
    from scripts.app.precompile import PrecompileResult


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
    for note in result.notes:
        out.mark("warn", note)
    for line in result.noise[:20]:
        out.line(f"    {line}")
    word = "The libraries load" if result.verdict.loads else "Not all libraries load"
    out.line(f"{word} ({result.stack}, {seconds(result.seconds)}): {result.verdict.reason}.")
    if result.simulated:
        out.loud("This is the CPU reference stack: it proves the pipeline, not a GPU.")
    if result.verdict.loads:
        out.line("Loading is not working: this says nothing about numbers.")
        out.now("see whether numbers are right: invoke run --workload=gemm")
    else:
        if result.kind is StackKind.TRANSLATION and result.verdict.outcome is Outcome.TIMEOUT:
            out.line(
                "A library that is missing opens a message box; without anybody to close it the check waits."
            )
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
        for line in result.output.decode("utf-8", "replace").splitlines()[-TAIL:]:
            out.line(f"    {line}")
    elif grown > 0:
        out.mark("ok" if result.code == 0 else "warn", f"{took}: the compile cache grew by {size(grown)}")
    else:
        out.mark("warn", f"{took}: nothing was added to the compile cache")
        out.line("    Everything was there already, or there is no device code that the layer can read.")
    if result.cache:
        out.line(f"    {result.cache} ({size(result.after)})")
    if result.code == 0:
        out.now(f'run it: invoke wrap --exe="{result.path}"' if result.path.is_file() else RUN_ONE)
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
    for words in result.last_words:
        out.line(f"    | {words}")
    for line in cold_and_steady(result.data):
        out.line(f"    {line}")
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
