"""Everything that needs Rich: consoles, panels, bars. Many runs paint nothing and never load it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TextIO

from rich import box
from rich.console import Console
from rich.markup import escape as rich_escape
from rich.panel import Panel

from scripts.osal.text import visible

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Console", "bars_on", "escape", "failure", "live_table", "open_console", "warning"]

#: What a terminal obeys instead of showing it: escape sequences that overwrite earlier output, and signs that
#: turn a line's direction round. Tabs and line feeds do no harm, and Rich drops returns.
_COMMANDS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class _Patient(Console):
    """A console whose reader may go away (``| head``) without changing how the task ends."""

    def on_broken_pipe(self) -> None:
        """Write the rest to nowhere; Rich would end the process with 1."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        with contextlib.suppress(OSError):  # a stream without a descriptor
            os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


def escape(text: str) -> str:
    """Keep Rich from reading markup out of a text that no markup follows on its line.

    Whoever wrote it (a trace, a log, the name of a folder) commands no terminal: such signs are spelled.
    Its own way doubles a backslash at the end, for markup that may follow: a folder of Windows ends so.
    """
    spelled = _COMMANDS.sub(lambda sign: sign[0].encode("unicode_escape").decode("ascii"), text)
    return rich_escape(f"{spelled}\n")[:-1]


def open_console(stream: TextIO) -> Console:
    """Make a console that writes what it is given, without guessing colours for it.

    ``NO_COLOR`` leaves every style out: Rich itself would keep what is bold.
    """
    make = partial(_Patient, file=stream, highlight=False, legacy_windows=False, emoji=False)
    made = make()
    return make(color_system=None) if made.no_color else made


def warning(text: str, *, unicode: bool) -> Panel:
    """Build the frame around something that must not be overlooked."""
    return Panel(escape(text), border_style="yellow", box=_frame(unicode=unicode), expand=False)


def failure(title: str, message: str, *, unicode: bool) -> Panel:
    """Build the panel of a failure."""
    return Panel(
        escape(message),
        title=escape(title),
        title_align="left",
        border_style="red",
        box=_frame(unicode=unicode),
    )


def _frame(*, unicode: bool) -> box.Box:
    """Choose a frame the stream can encode."""
    return box.ROUNDED if unicode else box.ASCII


@contextlib.contextmanager
def live_table(
    console: Console, title: str, columns: Sequence[str], *, unicode: bool
) -> Iterator[Callable[[Sequence[Sequence[str]]], None]]:
    """Show a table that changes; the callable replaces its rows. At the end it is taken away."""
    from rich.live import Live  # noqa: PLC0415 - most panels stand beside no table
    from rich.table import Table  # noqa: PLC0415 - as above

    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(rows: Sequence[Sequence[str]]) -> None:
            table = Table(title=escape(title), title_justify="left", box=box.SIMPLE if unicode else box.ASCII)
            for number, column in enumerate(columns):
                table.add_column(escape(column), justify="right" if number else "left")
            for row in rows:
                table.add_row(*(escape(visible(cell)) for cell in row))
            live.update(table, refresh=True)

        yield show


def bars_on(console: Console, *, unit: str, counted: bool) -> Progress:
    """Build the bars of long work, counted in ``bytes`` or in pieces; a clock where the end is not known."""
    from rich.progress import (  # noqa: PLC0415 - most panels stand beside no bar
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amount = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(),)
    text = TextColumn("{task.description}", markup=False)
    if not counted:
        return Progress(text, TimeElapsedColumn(), console=console, transient=True)
    columns = (text, BarColumn(bar_width=30), *amount, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
