"""Our own standard streams: closed ones swallow, and a reader that went away is one error everywhere."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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
