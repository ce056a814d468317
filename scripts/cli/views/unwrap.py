"""What a person sees of ``unwrap`` and ``shim``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.cli.console import Out

if TYPE_CHECKING:
    from scripts.app.shim import ShimResult
    from scripts.app.unwrap import UnwrapResult
    from scripts.placement.report import UndoReport


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
        where = f'--target="{incomplete[0].target}"' if len(incomplete) == 1 else "--all"
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
    """Whether there was nothing to do."""
    return not (report.restored or report.removed or report.kept or report.aside or report.pending)


def _target(report: UndoReport, out: Out) -> None:
    """Show one target."""
    nothing = ": nothing was placed" if _untouched(report) else ""
    out.mark("ok" if report.complete else "warn", f"{report.target}{nothing}")
    for path in report.restored:
        out.line(f"    restored  {path}")
    for path in report.removed:
        out.line(f"    removed   {path}")
    for path in report.aside:
        out.line(f"    beside    {path}")
    for path in report.pending:
        out.line(f"    out of the way, still held by a running program: {path}")
    for left in report.kept:
        out.line(f"    left      {left.path}: {left.why}")


def show_shim(result: ShimResult, out: Out) -> None:
    """Say where the script is and what it does not do."""
    for path in result.removed:
        out.mark("ok", f"removed {path}")
    for path in result.kept:
        out.mark("warn", f"left alone, because somebody changed it: {path}")
    if result.written is None:
        out.now(f'start it without the script: invoke wrap --exe="{result.program}"')
        return
    out.mark("ok", f"{result.program.name} with {result.stack} ({result.via}): {result.written}")
    for note in result.notes:
        out.mark("warn", note)
    if result.steam_script:
        out.line(f"Steam's launch option, by this script: {result.steam_script}")
    if result.steam:
        out.line(f"Steam's launch option, with the layer but without the stack's variables: {result.steam}")
    out.line("It does not verify the stack's files and undoes nothing; `invoke wrap` does.")
    out.now(f"double-click it: {result.written}")
