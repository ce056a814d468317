"""What a person sees of ``wrap``: the program, and beside it only what has to be said."""

from __future__ import annotations

from scripts.app.wrap.wrap import WrapResult
from scripts.ui.console import Out
from scripts.ui.traced import trace_lines


def show(result: WrapResult, out: Out) -> None:
    """Show an explanation on stdout; after a run, what was notable about its end on stderr.

    What was known before the start has been said then.
    """
    if result.exit is None:
        _explain(result, out)
        return
    for note in result.ending:
        out.note(note)
    for line in trace_lines(result.trace) if result.trace is not None else ():
        out.note(line)
    if result.placement.left:
        hint = "see `invoke status`, then `invoke unwrap` finishes the work"
        out.error(
            "undo-incomplete", "files of ours are still beside the program", result.placement.left, hint
        )


def _explain(result: WrapResult, out: Out) -> None:
    out.line(f"stack    {result.stack} ({result.runtime[:12]})")
    out.line(f"via      {result.via}: {result.reason}")
    out.line(f"folder   {result.cwd}")
    out.line(f"command  {result.line}")
    for note in result.notes:
        out.line(note)
    changes = result.environ.changes
    if changes:
        out.table(("variable", "", "value", "why"), [(c.name, c.action, c.value, c.why) for c in changes])
    else:
        out.line("The environment stays as it is.")
    out.now("run it: the same line without --explain")
