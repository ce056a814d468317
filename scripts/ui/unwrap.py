"""What a person sees of ``unwrap``: every file, and for what is left both ways out."""

from __future__ import annotations

from scripts.app.unwrap import UnwrapResult
from scripts.placement.report import UndoReport
from scripts.ui.console import Out


def show(result: UnwrapResult, out: Out) -> None:
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
        out.line("Two ways out, neither deletes a file of yours:")
        out.line(f"  unwrap {where} --theirs   keeps what is there, puts the originals beside it")
        out.line(f"  unwrap {where} --ours     puts the originals back, keeps the changed files beside them")
        out.now("choose one, file by file shown above")
    elif not result.reports and not result.failures and not result.forgotten:
        out.now("nothing is placed beside any program")
    elif any(report.pending for report in result.reports):
        out.now("end the programs that still hold old files, then run `unwrap` once more to clean up")
    elif any(report.aside for report in result.reports):
        out.now("not everything is as it was before: look at each file named above, and keep what you want")
    elif not result.failures:
        out.now("everything is as it was before")


def _target(report: UndoReport, out: Out) -> None:
    """Show one target."""
    nothing = not (report.restored or report.removed or report.kept or report.aside or report.pending)
    out.mark(
        "ok" if report.complete else "warn", f"{report.target}{': nothing was placed' if nothing else ''}"
    )
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
