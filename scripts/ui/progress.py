"""Progress on long work: bars on a terminal, single lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from scripts.ui.console import Out

#: Below this a bar would only flicker.
SMALL = {"bytes": 512 * 1024, "files": 50}


class TerminalProgress:
    """Shows bars on stderr when it is a terminal; says only notes otherwise."""

    def __init__(self, out: Out) -> None:
        """Show on the given console."""
        self.out = out

    @contextmanager
    def task(
        self, label: str, total: int | None = None, *, unit: str = "bytes"
    ) -> Iterator[Callable[[int], None]]:
        """Show one bar while the block runs; small work shows nothing."""
        console = self.out.stderr
        if not console.is_terminal or (total is not None and total < SMALL.get(unit, 50)):
            yield _nothing
            return
        amount = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(),)
        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(bar_width=30), *amount, TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bars:
            bar = bars.add_task(label, total=total)
            yield lambda done: bars.update(bar, advance=done)

    def note(self, message: str) -> None:
        """Say one line."""
        self.out.note(message)

    def aside(self, message: str) -> None:
        """Say one line on a terminal; a file that stderr goes to belongs to the program that runs."""
        if self.out.stderr.is_terminal:
            self.out.note(message)


def _nothing(_amount: int) -> None:
    """Show nothing for small work."""
