"""What a person sees of ``wrap``, ``unwrap`` and ``shim``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.cli.console import Out
from scripts.cli.parse import Call, LineError, read_line, typed
from scripts.cli.verbs import WRAP
from scripts.osal.text import option, visible

if TYPE_CHECKING:
    from scripts.app.shim import ShimResult
    from scripts.app.unwrap import UnwrapResult
    from scripts.app.wrap import WrapResult
    from scripts.evidence.tracelog import Failure, Load, TableCheck, TraceSummary
    from scripts.placement.inspect import UndoReport


def show_wrap(result: WrapResult, out: Out) -> None:
    """Show an explanation on stdout; after a run, what was notable about its end on stderr.

    What was known before the start was shown then.
    """
    if result.exit is None:
        _explain(result, out)
        return
    for note in result.ending:
        out.note(note)
    for line in trace_lines(result.trace) if result.trace is not None else ():
        out.note(line)
    if result.failed:
        _explain_failure(result, out)
    if result.placement.left:
        hint = "see `invoke status`; what it lists, `invoke unwrap --all` takes back"
        msg = "files of ours are still beside the program"
        if result.placement.lost:
            msg = "the record of what was placed beside the program vanished while it ran"
        out.error("undo-incomplete", msg, result.placement.left, hint)


#: Where a program's output goes for the doctor, in the lines that are proposed.
LOG: Final = "run.log"


def _explain_failure(result: WrapResult, out: Out) -> None:
    """Print the lines that explain a failure, to be pasted: keep the output, then ask the doctor."""
    words = sys.argv[1:]
    try:
        call = read_line(words)
    except LineError:
        call = None
    if not isinstance(call, Call) or call.verb.name != WRAP:
        words = [WRAP, f"--exe={result.program}", *(["--", *result.args] if result.args else [])]
        call = None
    log = str(call.options.get("log") or "") if call is not None else ""
    if log and Path(log).exists() and not Path(log).is_file():  # a pipe or a device kept nothing
        words, log = _without_log(words), ""
    if log:
        out.note("if that was a failure, this explains its output:")
    else:
        out.note("if that was a failure, run it once more with a log, and have that explained:")
        out.note(f"  {typed(WRAP, f'--log={LOG}', *words[1:])}")
    out.note(f"  {typed('doctor', f'--log={log or LOG}')}")


def _without_log(words: list[str]) -> list[str]:
    """Take ``--log`` out of our options; what stands behind ``--`` is the program's.

    >>> _without_log(["wrap", "--log", "x", "--exe=a", "--", "--log=b"])
    ['wrap', '--exe=a', '--', '--log=b']
    """
    end = words.index("--") if "--" in words else len(words)
    own, at = words[:end], 0
    while at < len(own):
        if own[at] == "--log" or own[at].startswith("--log="):
            del own[at : at + (2 if own[at] == "--log" else 1)]
        else:
            at += 1
    return own + words[end:]


def _explain(result: WrapResult, out: Out) -> None:
    out.line(f"stack    {result.stack} ({result.runtime[:12]})")
    out.line(f"via      {result.via}: {result.reason}")
    out.line(f"folder   {result.cwd}")
    out.line(f"command  {result.line}")
    out.lines(result.notes, "")
    changes = result.environ.changes
    if changes:
        for change in changes:  # a value is copied from here, so nothing folds it
            out.line(f"{change.action:5}    {change.name}{f'={change.value}' if change.value else ''}")
            out.line(f"             {change.why}")
    else:
        out.line("The environment stays as it is.")
    words = sys.argv[1:]
    if "--explain" in words:
        words.remove("--explain")
        out.now(f"run it: {typed(*words)}")


#: So many of each kind are listed; the rest is counted.
LISTED: Final = 5
WIDTH: Final = 100


def trace_lines(trace: TraceSummary) -> Iterator[str]:
    """Yield the lines: calls by library, the first failing call, what was refused, what did not compile."""
    if not trace.logs:
        yield "trace: nothing was written: the program called no CUDA library, or ended before one came back"
        yield f"       it was to lie below {trace.folder} (ZLUDA's own place: zluda in the temporary files)"
        return
    processes = f"{len(trace.logs)} process{'es' if len(trace.logs) > 1 else ''}"
    yield f"trace: {sum(trace.calls.values()):,} CUDA calls of {processes}, in {trace.folder}"
    yield f"  calls    {_counted(trace.calls)}"
    first = trace.first_failure
    if first is None:
        yield "  failed   none"
    else:
        yield from _first(first)
        others = Counter[str]()
        for other in trace.failures:
            others[f"{other.function} ({other.status})"] += other.count if other is not first else 0
        others = +others
        if others:
            yield f"  then     {_counted(others)}"
    yield f"  refused  {_counted(trace.refused) or 'none'}"
    yield from _modules(trace)
    yield f"  last     {_cut(trace.last)} (a call that never came back is not in the log)"


def _first(failure: Failure) -> Iterator[str]:
    """Say which call failed first, and what in it."""
    where = f"line {failure.line} of {failure.log}, {failure.count:,} in all"
    yield f"  failed   first {failure.function} -> {failure.status} ({where})"
    if failure.kernel:
        yield f"           it was to start {_cut(failure.kernel)}"
    if failure.inside:
        yield f"           inside it: {_cut(failure.inside)}"
    elif failure.call:
        yield f"           {_cut(failure.call)}"


def _modules(trace: TraceSummary) -> Iterator[str]:
    """Say which device code did not compile, with the compiler's first sentence."""
    bad = f"{len(trace.broken)} of them refused or not understood in full" if trace.broken else "none refused"
    yield f"  modules  {trace.modules} pieces of device code, {bad}"
    for load in trace.broken[:LISTED]:
        name = ", ".join(load.files[:2]) or "code that was not saved"
        yield f"           {name}: {load.call} -> {load.status}{_why(trace, load)}"
    if len(trace.broken) > LISTED:
        yield f"           and {len(trace.broken) - LISTED} more"
    if trace.table is not None:
        yield from _table(trace.table)


def _table(check: TableCheck) -> Iterator[str]:
    """Say whether the modules are as preflight's table has them; where they are not, the table is wrong."""
    if not check.faults:
        yield f"  table    as the table {check.table} predicts for all {check.modules} PTX texts"
        return
    yield f"  table    the table {check.table} is wrong for {len(check.faults)} of {check.modules} PTX texts"
    for fault in check.faults[:LISTED]:
        yield f"           {fault.sentence}"
    if check.document:
        yield f"           kept in {check.document}: please report it"


def _why(trace: TraceSummary, load: Load) -> str:
    """Return the first thing that is known to be wrong with device code."""
    sentences = [s for name in load.unparsed for s in trace.errors.get(f"{load.log}/{name}", ())]
    all_of_it = [*sentences, *load.remarks]
    more = f" and {len(all_of_it) - 1} more" if len(all_of_it) > 1 else ""
    return f"; {_cut(all_of_it[0])}{more}" if all_of_it else ""


def _counted(counts: Mapping[str, int]) -> str:
    """List the first ones with how often."""
    listed = [f"{name} {count:,}" for name, count in list(counts.items())[:LISTED]]
    more = len(counts) - LISTED
    return ", ".join([*listed, *([f"{more} more"] if more > 0 else [])])


def _cut(text: str) -> str:
    """Shorten a line to what fits."""
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def show_unwrap(result: UnwrapResult, out: Out) -> None:
    """Show target by target; end with what to do now."""
    for report in result.reports:
        _target(report, out)
    for target, error in result.failures:
        out.mark("fail", f"{target}: {error.message}")
        out.error(error.reference, error.message, error.context, error.hint)
    for target in result.forgotten:
        out.mark("skip", f"{target} does not exist any more and was taken off the list")
    incomplete = [report for report in result.reports if not report.complete]
    if incomplete:
        where = option("target", incomplete[0].target) if len(incomplete) == 1 else "--all"
        out.line("Two ways out of what is left, neither deletes a file of yours:")
        out.line(f"  invoke unwrap {where} --theirs")
        out.line("      leaves these files, and puts each original beside as NAME.cuda-amd-original")
        out.line(f"  invoke unwrap {where} --ours")
        out.line("      puts the originals back, and keeps these files beside as NAME.cuda-amd-changed")
        out.now("look at the files that are left, then choose one of the two")
    elif not result.reports and not result.failures and not result.forgotten:
        out.mark("skip", "nothing is placed beside any program")
    elif any(report.pending for report in result.reports):
        out.now("end the programs that still hold old files, then run `invoke unwrap` once more to clean up")
    elif any(report.aside for report in result.reports):
        out.now("not everything is as it was before: look at each file named above, and keep what you want")
    elif not result.failures and all(map(_untouched, result.reports)):
        out.now("there was nothing to take back; `invoke status` lists what is placed")
    elif not result.failures:
        out.now("everything is as it was before")


def _untouched(report: UndoReport) -> bool:
    return not (report.restored or report.removed or report.kept or report.aside or report.pending)


def _target(report: UndoReport, out: Out) -> None:
    nothing = ": nothing was placed" if _untouched(report) else ""
    out.mark("ok" if report.complete else "warn", f"{visible(str(report.target))}{nothing}")
    out.lines(report.restored, "    restored  ")
    out.lines(report.removed, "    removed   ")
    out.lines(report.aside, "    beside    ")
    out.lines(report.pending, "    out of the way, still held by a running program: ")
    for left in report.kept:
        out.line(f"    left      {left.path}: {left.why}")


def show_shim(result: ShimResult, out: Out) -> None:
    """Say where the script is and what it does not do."""
    out.marks("ok", result.removed, "removed ")
    out.marks("warn", result.kept, "left alone, because it was changed since: ")
    if result.written is None:
        out.now(f"start it without the script: invoke wrap {option('exe', result.program)}")
        return
    out.mark("ok", f"{result.program.name} with {result.stack} ({result.via}): {result.written}")
    out.marks("warn", result.notes)
    if result.steam_script:
        out.line(f"Steam's launch option, by this script: {result.steam_script}")
    if result.steam:
        out.line(f"Steam's launch option, with the layer but without the stack's variables: {result.steam}")
    out.line("It does not verify the stack's files and undoes nothing; `invoke wrap` does.")
    out.now(f"double-click it: {result.written}")
