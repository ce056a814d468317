"""One console for every task: plain lines, tables and panels that work without colour and in cp1252."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from scripts.cli.painting import Console

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
#: Variables that make Rich paint even where nobody looks on.
PAINTED: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")


class Out:
    """What a task shows to a person. Data goes to stdout, notes and errors to stderr.

    Everything passed in is text, never markup: file names with brackets stay as they are. Rich is loaded
    only where something is painted: a line to a pipe or a file is just written.
    """

    def __init__(
        self,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Write to the given streams, or to this process's own.

        Without ``environ`` nobody knows whether colours are forced upon pipes, so Rich decides each line.
        """
        self._streams = (_softened(stdout or sys.stdout), _softened(stderr or sys.stderr))
        self._may_write = environ is not None and not any(environ.get(name) for name in PAINTED)
        self.unicode = _can_encode(self._streams[0], "✓✗–")

    @cached_property
    def stdout(self) -> Console:
        """The console for data."""
        from scripts.cli.painting import open_console  # noqa: PLC0415 - see the class

        return open_console(self._streams[0])

    @cached_property
    def stderr(self) -> Console:
        """The console for notes and errors."""
        from scripts.cli.painting import open_console  # noqa: PLC0415 - see the class

        return open_console(self._streams[1])

    def line(self, text: str = "", *, style: str = "") -> None:
        """Print one line of result."""
        if not self._written(0, text):
            self.stdout.print(_escaped(text), style=style or None, soft_wrap=True)

    def mark(self, status: str, text: str) -> None:
        """Print one line with a mark; ``status`` is ``ok warn fail skip unknown``."""
        symbol = MARKS[status][0 if self.unicode else 1]
        if not self._written(0, f"{symbol} {text}"):
            self.stdout.print(f"[{STYLES[status]}]{symbol}[/] {_escaped(text)}", soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
        """Print a table; long cells fold instead of being cut."""
        from scripts.cli.painting import plain_table  # noqa: PLC0415 - see the class

        self.stdout.print(plain_table(columns, rows, title=title, unicode=self.unicode))

    def note_table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table on stderr."""
        from scripts.cli.painting import plain_table  # noqa: PLC0415 - see the class

        self.stderr.print(plain_table(columns, rows, unicode=self.unicode))

    def loud(self, text: str) -> None:
        """Print something that must not be overlooked, on stderr."""
        from scripts.cli.painting import warning  # noqa: PLC0415 - see the class

        self.stderr.print(warning(text, unicode=self.unicode))

    def error(self, reference: str, message: str, context: Sequence[str] = (), hint: str = "") -> None:
        """Print the panel of a failure: message, facts, what to do."""
        from scripts.cli.painting import failure  # noqa: PLC0415 - see the class

        self.stderr.print(failure(reference, message, context, hint, unicode=self.unicode))

    def note(self, text: str) -> None:
        """Print one line on stderr."""
        if not self._written(1, text):
            self.stderr.print(_escaped(text), style="dim", soft_wrap=True)

    def now(self, text: str) -> None:
        """Print the closing line: what a person would do next."""
        arrow = "→" if self.unicode else "->"
        if not self._written(0, f"{arrow} {text}"):
            self.stdout.print(f"[bold]{arrow}[/] {_escaped(text)}", soft_wrap=True)

    @property
    def animates(self) -> bool:
        """Whether bars can be drawn on stderr: it is a terminal, or is to be treated as one."""
        if self._may_write and not self._streams[1].isatty():
            return False
        return self.stderr.is_terminal

    def _written(self, number: int, text: str) -> bool:
        """Write one plain line as Rich would, if nothing about it needs Rich; say whether it was written."""
        stream = self._streams[number]
        if not self._may_write or stream.isatty() or not text.isprintable() or text.endswith(" "):
            return False
        try:
            stream.write(text + "\n")
            stream.flush()
        except BrokenPipeError:
            (self.stderr if number else self.stdout).on_broken_pipe()
        return True


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Say in ASCII what cannot be encoded; a handler as ``codecs.register_error`` wants it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign, "?") for sign in signs), error.end


codecs.register_error("cuda-amd-plain", _plain)


def _softened(stream: TextIO) -> TextIO:
    """Let a stream replace what it cannot encode instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="cuda-amd-plain")
    return stream


def _escaped(text: str) -> str:
    """Keep Rich from reading markup out of a text."""
    from scripts.cli.painting import escape  # noqa: PLC0415 - only where Rich is needed anyway

    return escape(text)


def _can_encode(stream: object, text: str) -> bool:
    """Try the symbols rather than guess from names of encodings."""
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
