"""One console for every task: plain lines, tables and panels that work without colour and in cp1252."""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from scripts.cli.parse import as_typed
from scripts.errors import WorkspaceError
from scripts.osal.text import visible

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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
#: A folder of the store, up to the file: its name ends with a digest.
_IN_STORE: Final = re.compile(r"(?:[A-Za-z]:)?[\\/][^\n;:]*?[\\/][0-9a-f]{64}[\\/]")
#: The closing line where any program may be run.
RUN_ONE: Final = "run a program with it: invoke wrap --exe=/path/to/program -- its arguments"
_BLANKS: Final = frozenset("\t\u00a0\u2007\u202f\u3000")
#: Variables that make Rich paint even where the output is not a terminal.
PAINTED: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")


class Out:
    """What a task shows to a person. Data goes to stdout, notes and errors to stderr.

    Everything passed in is text, never markup: file names with brackets stay as they are, and each text is
    one line, whatever the name of a file or an id in it holds. A line to be typed (``invoke TASK``) is shown
    in the form that was typed; quoted lines, tables and the facts of an error stay as they are. Rich
    is loaded only where something is painted: a line to a pipe or a file is just written.
    """

    def __init__(
        self,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Write to the given streams, or to this process's own.

        Without ``environ`` it is unknown whether colours are forced upon pipes, so Rich decides each line.
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
        self.quote(as_typed(text), style=style)

    def lines(self, texts: Iterable[object], start: str = "    ") -> None:
        """Print a line for each of them; all begin alike."""
        for text in texts:
            self.line(f"{start}{text}")

    def quote(self, text: str, *, style: str = "") -> None:
        """Print one line that others wrote, or data, as it stands."""
        text = _one_line(text)
        if not self._written(0, text):
            self.stdout.print(_escaped(text), style=style or None, soft_wrap=True)

    def mark(self, status: str, text: str) -> None:
        """Print one line with a mark; ``status`` is ``ok warn fail skip unknown``."""
        text = _one_line(as_typed(text))
        symbol = MARKS[status][0 if self.unicode else 1]
        if not self._written(0, f"{symbol} {text}"):
            self.stdout.print(f"[{STYLES[status]}]{symbol}[/] {_escaped(text)}", soft_wrap=True)

    def marks(self, status: str, texts: Iterable[object], start: str = "") -> None:
        """Print a line with the same mark for each of them."""
        for text in texts:
            self.mark(status, f"{start}{text}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
        """Print a table; see ``scripts/cli/tables.py``."""
        if title:
            self.line(title)
        for line in self._table_lines(columns, rows, number=0):
            self.quote(line)

    def note_table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table on stderr."""
        for line in self._table_lines(columns, rows, number=1):
            self._note(line)

    def _table_lines(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, number: int
    ) -> Iterator[str]:
        from scripts.cli.tables import table_lines, terminal_width  # noqa: PLC0415 - short runs print none

        width = terminal_width() if self._streams[number].isatty() else None
        return table_lines(columns, list(rows), width=width)

    def loud(self, text: str) -> None:
        """Print something that must not be overlooked, on stderr."""
        from scripts.cli.painting import warning  # noqa: PLC0415 - see the class

        self.stderr.print(warning(_one_line(as_typed(text)), unicode=self.unicode))

    def error(self, reference: str, message: str, context: Sequence[str] = (), hint: str = "") -> None:
        """Print the panel of a failure: message, facts, what to do."""
        message, hint = _one_line(as_typed(message)), _one_line(as_typed(hint))
        context = [_one_line(fact) for fact in context]
        try:
            from scripts.cli.painting import failure  # noqa: PLC0415 - see the class
        except ModuleNotFoundError:  # a line refused before there is an environment
            parts = [f"{reference}: {message}", *context, *([f"What to do: {hint}"] if hint else [])]
            self._streams[1].write("\n".join(parts) + "\n")
            return
        self.stderr.print(failure(reference, message, unicode=self.unicode))
        # Outside the frame no line is broken, so that a path or a command can be copied.
        for fact in context:
            self.stderr.print(f"  {_escaped(fact)}", soft_wrap=True)
        if hint:
            self.stderr.print(f"[bold]What to do:[/] {_escaped(hint)}", soft_wrap=True)

    def note(self, text: str) -> None:
        """Print one line on stderr."""
        self._note(as_typed(text))

    def _note(self, text: str) -> None:
        text = _one_line(text)
        if not self._written(1, text):
            self.stderr.print(_escaped(text), style="dim", soft_wrap=True)

    def now(self, text: str) -> None:
        """Print the closing line: what a person would do next."""
        text = _one_line(as_typed(text))
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


def show_refused_line(error: WorkspaceError, *, code: int, as_json: bool) -> int:
    """Show why a line cannot be read, as an object too where ``--json`` was asked for; return its code."""
    ready_streams()
    show_error(error, Out(), as_json=as_json, code=code)
    return code


def show_error(error: WorkspaceError, out: Out, *, as_json: bool, code: int | None = None) -> None:
    """Show a failure in the form that was asked for; ``code`` is the exit code if not the error's."""
    if as_json:
        with patient():
            sys.stdout.write(json.dumps(error.to_json(code), indent=2, ensure_ascii=True) + "\n")
            sys.stdout.flush()
    out.error(error.reference, error.message, error.context, error.hint)


@contextmanager
def patient() -> Iterator[None]:
    """Write to a reader that may have gone away (``| head``), which is no error of ours."""
    try:
        yield
    except BrokenPipeError:
        discard_stdout()


def discard_stdout() -> None:
    """Let the rest go nowhere: Python would complain again while closing stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


def _one_line(text: str) -> str:
    """Return what is printed as one line: the name of a file neither splits it nor commands a terminal.

    Tabs and wide or unbreakable blanks, which do neither, stay.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign in _BLANKS else visible(sign) for sign in text)


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


#: Below this a bar would only flicker.
SMALL = {"bytes": 512 * 1024, "files": 50, "outputs": 1, "questions": 1}


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
        small = total is not None and total < SMALL.get(unit, 50)
        if small or not self.out.animates:
            yield _nothing
            return
        from scripts.cli.painting import bars_on  # noqa: PLC0415 - only where bars are shown

        with bars_on(self.out.stderr, unit=unit, counted=total is not None) as bars:
            bar = bars.add_task(_one_line(label), total=total)
            yield lambda done: bars.update(bar, advance=done)

    @contextmanager
    def table(
        self, title: str, columns: Sequence[str]
    ) -> Iterator[Callable[[Sequence[Sequence[str]]], None]]:
        """Show one table while the block runs, and take it away at its end."""
        if not self.out.animates:
            yield _nothing
            return
        from scripts.cli.painting import live_table  # noqa: PLC0415 - as above

        with live_table(self.out.stderr, title, columns, unicode=self.out.unicode) as show:
            yield show

    def note(self, message: str) -> None:
        """Say one line."""
        self.out.note(message)

    def aside(self, message: str) -> None:
        """Say one line on a terminal; a file that stderr goes to belongs to the program that runs."""
        if self.out.animates:
            self.out.note(message)


def _nothing(_progress: object) -> None:
    """Show nothing: the work is small, or there is no terminal."""


NAMES = ("stdout", "stderr")


def ready_streams() -> None:
    """Let a stream that was closed (``>&-``, Windows without a console) swallow what is written to it.

    A program that is started later still finds it closed: what Python opens is not inherited. A pipe whose
    reader went away (``| more``) raises ``BrokenPipeError`` on Windows as well. Twice is once.
    """
    for name in NAMES:
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the end
        elif sys.platform == "win32":
            _translate(name)


class _Pipe(io.FileIO):
    """A pipe of Windows, where the C library has ``EINVAL`` for a reader that went away."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as much as the system takes."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error


def _translate(name: str) -> None:
    """Put such a pipe under a stream of the interpreter's own."""
    stream = getattr(sys, name)
    if stream is not getattr(sys, f"__{name}__") or not isinstance(stream, io.TextIOWrapper):
        return  # ours already, or a test's
    stream.flush()
    if not stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
        return
    pipe = io.BufferedWriter(_Pipe(stream.fileno(), "wb", closefd=False))
    translated = io.TextIOWrapper(
        pipe, encoding=stream.encoding, errors=stream.errors, line_buffering=stream.line_buffering
    )
    setattr(sys, name, translated)


MINUTE: Final = 60


def seconds(value: float) -> str:
    """Write a duration.

    >>> seconds(0.0312)
    '0.03 s'
    >>> seconds(119.7)
    '2 min 0 s'
    """
    if value < MINUTE:
        return f"{value:.2f} s"
    minutes, rest = divmod(round(value), MINUTE)
    return f"{minutes} min {rest} s"


def brief(text: str) -> str:
    """Leave the store's folders out of a text: of a file in it, its name says enough.

    >>> brief("/home/me/.cache/cuda-on-amd/runtimes-v1/" + "ff89" * 16 + "/libcuda.so.1")
    'libcuda.so.1'
    """
    return _IN_STORE.sub("", text)


def short(digest: str) -> str:
    """Cut a hash to what people compare by eye."""
    return digest[:12]
