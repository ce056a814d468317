"""One console for every task: plain lines, tables and panels that work without colour and in cp1252."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

MARKS: Final = {
    "ok": ("✓", "+"),
    "warn": ("!", "!"),
    "fail": ("✗", "x"),
    "skip": ("–", "-"),
    "unknown": ("?", "?"),
}
#: What stands for a sign that a stream cannot encode; ``?2.5 %`` would hide a minus.
PLAIN: Final = {
    "−": "-",
    "–": "-",
    "→": "->",
    "±": "+-",
    "…": "...",
    "≥": ">=",
    "≤": "<=",
    "×": "x",
    "·": "-",
}
STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "red", "skip": "dim", "unknown": "magenta"}


class Out:
    """What a task shows to a person. Data goes to stdout, notes and errors to stderr.

    Everything passed in is text, never markup: file names with brackets stay as they are.
    """

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        """Write to the given streams, or to this process's own."""
        self.stdout = _console(stdout or sys.stdout)
        self.stderr = _console(stderr or sys.stderr)
        self.unicode = _can_encode(self.stdout.file, "✓✗–")

    def line(self, text: str = "", *, style: str = "") -> None:
        """Print one line of result."""
        self.stdout.print(escape(text), style=style or None, soft_wrap=True)

    def mark(self, status: str, text: str) -> None:
        """Print one line with a mark; ``status`` is ``ok warn fail skip unknown``."""
        symbol = MARKS[status][0 if self.unicode else 1]
        self.stdout.print(f"[{STYLES[status]}]{symbol}[/] {escape(text)}", soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
        """Print a table; long cells fold instead of being cut."""
        self.stdout.print(self._table(columns, rows, title))

    def note_table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table on stderr."""
        self.stderr.print(self._table(columns, rows, ""))

    def _table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], title: str) -> Table:
        """Build a table of plain text."""
        frame = box.SIMPLE_HEAD if self.unicode else box.ASCII
        table = Table(title=escape(title) or None, box=frame, title_justify="left")
        for column in columns:
            table.add_column(escape(column), overflow="fold")
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        return table

    def loud(self, text: str) -> None:
        """Print something that must not be overlooked, on stderr."""
        self.stderr.print(Panel(escape(text), border_style="yellow", box=self._box(), expand=False))

    def error(self, reference: str, message: str, context: Sequence[str] = (), hint: str = "") -> None:
        """Print the panel of a failure: message, facts, what to do."""
        parts = [escape(message), *(f"  {escape(fact)}" for fact in context)]
        if hint:
            parts += ["", f"[bold]What to do:[/] {escape(hint)}"]
        panel = Panel(
            "\n".join(parts), title=escape(reference), title_align="left", border_style="red", box=self._box()
        )
        self.stderr.print(panel)

    def note(self, text: str) -> None:
        """Print one line on stderr."""
        self.stderr.print(escape(text), style="dim", soft_wrap=True)

    def now(self, text: str) -> None:
        """Print the closing line: what a person would do next."""
        arrow = "→" if self.unicode else "->"
        self.stdout.print(f"[bold]{arrow}[/] {escape(text)}", soft_wrap=True)

    def _box(self) -> box.Box:
        """Choose a frame the stream can encode."""
        return box.ROUNDED if self.unicode else box.ASCII


class _Patient(Console):
    """A console whose reader may go away (``| head``) without changing how the task ends."""

    def on_broken_pipe(self) -> None:
        """Write the rest to nowhere; Rich would end the process with 1."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        with contextlib.suppress(OSError):  # a stream without a descriptor
            os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


def open_closed_streams() -> None:
    """Let a stream that was closed (``>&-``, Windows without a console) swallow what is written to it.

    A program that is started later still finds it closed: what Python opens is not inherited.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the end


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Say in ASCII what cannot be encoded; a handler as ``codecs.register_error`` wants it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign, "?") for sign in signs), error.end


codecs.register_error("cuda-amd-plain", _plain)


def _console(stream: TextIO) -> Console:
    """Make a console that replaces what the stream cannot encode instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="cuda-amd-plain")
    return _Patient(file=stream, highlight=False, legacy_windows=False, emoji=False)


def _can_encode(stream: object, text: str) -> bool:
    """Try the symbols rather than guess from names of encodings."""
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
