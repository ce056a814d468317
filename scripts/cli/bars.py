"""The bars of long work; loaded where somebody looks on."""

from __future__ import annotations

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from scripts.cli.painting import Console


def bars_on(console: Console, *, unit: str) -> Progress:
    """Build the bars of long work, counted in ``bytes`` or in pieces."""
    amount = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(),)
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(bar_width=30), *amount, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
