"""The face of ``precompile``."""

from __future__ import annotations

from scripts.app.precompile import PrecompileResult
from scripts.cli.console import Out
from scripts.cli.words import seconds, size

#: So many last lines of the tool's output are shown where it failed.
TAIL = 10


def show(result: PrecompileResult, out: Out) -> None:
    """Say whether the cache grew, which alone shows that something was compiled."""
    for note in (*result.notes, *result.ending):
        out.note(note)
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
    out.now("invoke wrap --exe=PROGRAM -- ARGUMENTS" if result.code == 0 else "find out why: invoke doctor")
