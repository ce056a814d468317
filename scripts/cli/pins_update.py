"""Show ``pins.update``."""

from __future__ import annotations

from scripts.app.pins_update import PinsUpdateResult
from scripts.cli.console import Out


def show(result: PinsUpdateResult, out: Out) -> None:
    """Print what upstream says, the difference, and how to take it over."""
    rows = [(row.artifact, row.status, row.detail) for row in result.asked]
    out.table(("artifact", "upstream says", "detail"), rows, title="Pins and their releases")
    if result.exit_code:
        out.loud(
            "Upstream contradicts a pin. It was left as it is: find out why the file changed, "
            "for example in the project's release notes, and report it."
        )
    for line in result.diff.lines():
        out.line(line)
    if result.written:
        out.now(
            "pins.lock is written; read the difference with `git diff pins.lock`, then `invoke pins.check`"
        )
    elif result.diff:
        out.now("take it over with --write")
    else:
        out.mark("ok", "nothing to change in pins.lock")
